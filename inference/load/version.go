package load

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// Weights is the identity of the weights in the files of a model: a hash of all their bytes.
// A large file takes seconds, so begin computes it in the background.
type Weights struct {
	files []*os.File
	infos []os.FileInfo // of the files before the model was loaded
	// inMemory: the file is closed after the hash, so that it takes no memory that nobody else uses.
	inMemory bool
	log      zerolog.Logger

	mu      sync.Mutex
	changed string // version of files that were overwritten; "" before

	base    context.Context // ends the hash
	stop    context.CancelFunc
	done    chan struct{}  // closed after version and err are set
	looks   sync.WaitGroup // of what looks at the files
	version string
	err     error
}

// openWeights opens the files of the model at path. It keeps them open: what is at path later
// may be another model.
func openWeights(path string, log zerolog.Logger) (w *Weights, err error) {
	w = &Weights{log: log, done: make(chan struct{})}
	w.base, w.stop = context.WithCancel(context.Background())
	for _, p := range Files(path) {
		f, err := os.Open(p)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.files = append(w.files, f)
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.infos = append(w.infos, info)
	}
	return w, nil
}

// begin starts the hash, once, when the model is loaded. Then it looks each interval whether a file was
// overwritten.
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

// Overwritten returns "" while the files are those that were loaded, then another version for each change of a file's
// size or time. No hash can name what computes then: it is mapped from the files, or a copy of a part of each. A
// file that is renamed or replaced at its path still serves as it was.
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

// Version returns "sha256:" and the first 32 hexadecimal digits of the hash, or "changed:" and as many of
// another one if a file was overwritten. It waits for the hash, or until ctx ends. begin comes before it.
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

// hash returns the version of files: a hash of their bytes.
func hash(ctx context.Context, files []*os.File) (string, error) {
	h := sha256.New()
	buffer := make([]byte, hashedPart)
	for _, f := range files {
		for at := int64(0); ; {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			n, err := f.ReadAt(buffer, at)
			h.Write(buffer[:n])
			at += int64(n)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)[:16]), nil
}

// Close ends a hash in progress and closes the files. No Version may follow.
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

// Known returns the version if it is known already, "" otherwise.
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
