package load

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// Weights identifies the weights in the files of a model by a hash of all bytes. For a large file that takes
// seconds, so begin computes it in the background.
type Weights struct {
	files []*os.File
	infos []os.FileInfo // of files, from before the model was loaded
	// inMemory: the file is in memory, so it is closed after the hash to free that.
	inMemory bool
	log      zerolog.Logger

	mu      sync.Mutex
	changed string // version of overwritten files; "" before they are

	base    context.Context // of the hash
	stop    context.CancelFunc
	done    chan struct{}  // closed when version and err are set
	looks   sync.WaitGroup // goroutines that check the files
	version string
	err     error
}

// openWeights opens the files of the model at path. It keeps them open, since another model may be at path later.
func openWeights(path string, log zerolog.Logger) (w *Weights, err error) {
	w = &Weights{log: log, done: make(chan struct{})}
	w.base, w.stop = context.WithCancel(context.Background())
	for _, p := range Files(path) {
		var info os.FileInfo
		f, err := os.Open(p)
		if err == nil {
			w.files = append(w.files, f)
			info, err = f.Stat()
		}
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.infos = append(w.infos, info)
	}
	return w, nil
}

// begin starts the hash. It must be called once, when the model is loaded. After the hash it checks at each interval
// whether a file was overwritten.
func (w *Weights) begin(interval time.Duration) {
	w.looks.Go(func() {
		switch w.version, w.err = hash(w.base, w.files); {
		case errors.Is(w.err, context.Canceled):
			w.err = generation.ErrClosed // not the end of a caller
		case w.err != nil:
			w.err = fmt.Errorf("the model's version: %w", w.err)
		}
		close(w.done)
		for _, f := range w.files {
			if w.inMemory {
				_ = f.Close() // it was only read
			}
		}
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-w.base.Done():
				return
			case <-ticker.C:
				w.Overwritten()
			}
		}
	})
}

// Overwritten returns "" while the files are unchanged, and after that a version for each change of a file's size or
// time. No hash can identify such weights: they are mapped from the files, or copied partly before the change. A file
// that is renamed or replaced at its path does not count, since the opened file is unchanged.
func (w *Weights) Overwritten() string {
	h := sha256.New()
	different := false
	for i, f := range w.files {
		info, err := f.Stat()
		if err != nil {
			continue // the hash or the load says why
		}
		different = different || info.Size() != w.infos[i].Size() || !info.ModTime().Equal(w.infos[i].ModTime())
		fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano(), w.infos[i].ModTime().UnixNano())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !different {
		return w.changed // times can be set back
	}
	if version := fmt.Sprintf("changed:%x", h.Sum(nil)[:16]); version != w.changed {
		w.changed = version
		w.log.Error().Str("path", w.files[0].Name()).Str("model_version", version).
			Msg("the served model file was overwritten, and no version names what computes now: restart the server, and rename new files into place")
	}
	return w.changed
}

// Version returns "sha256:" and the first 32 hex digits of the hash. If a file was overwritten, it is "changed:"
// and 32 digits of another hash. It waits for the hash, or until ctx ends. begin must have been called.
func (w *Weights) Version(ctx context.Context) (string, error) {
	if changed := w.Overwritten(); changed != "" {
		return changed, nil
	}
	select {
	case <-w.done:
		return w.version, w.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// FileVersion returns the version of one file, such as an adapter's.
func FileVersion(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hash(ctx, []*os.File{f})
}

// hash returns the version of files from the SHA-256 of their bytes.
func hash(ctx context.Context, files []*os.File) (string, error) {
	h := sha256.New()
	for _, f := range files {
		r, err := io.NewSectionReader(f, 0, math.MaxInt64), ctx.Err()
		for err == nil {
			if _, err = io.CopyN(h, r, hashedPart); err == nil {
				err = ctx.Err()
			}
		}
		if !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)[:16]), nil
}

// Close ends a hash in progress and closes the files. Version must not be called after it.
func (w *Weights) Close() error {
	w.stop()
	w.looks.Wait()
	var errs []error
	for _, f := range w.files {
		if err := f.Close(); !w.inMemory || !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Known returns the version if the hash is computed, "" otherwise.
func (w *Weights) Known() string {
	if changed := w.Overwritten(); changed != "" {
		return changed
	}
	select {
	case <-w.done:
		return w.version
	default:
		return ""
	}
}
