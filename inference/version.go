package inference

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"sync"
)

// weights is the identity of the weights in the files of a model: a hash of all their bytes. It
// is computed when it is first asked for, since a large file takes seconds.
type weights struct {
	files []*os.File

	start   sync.Once
	stop    context.CancelFunc // set by start
	done    chan struct{}
	version string
	err     error
}

// part is the name of one of several files of a model, as llama.cpp splits them.
var part = regexp.MustCompile(`^(.*)-00001-of-(\d{5})\.gguf$`)

// openWeights opens the files of the model at path. It keeps them open: what is at path later
// may be another model.
func openWeights(path string) (w *weights, err error) {
	w = &weights{done: make(chan struct{})}
	paths := []string{path}
	if m := part.FindStringSubmatch(path); m != nil {
		count, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, err
		}
		for i := 2; i <= count; i++ {
			paths = append(paths, fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i, m[2]))
		}
	}
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.files = append(w.files, f)
	}
	return w, nil
}

// Version returns "sha256:" and the first 32 hexadecimal digits of the hash. It waits for the
// hash, or until ctx ends.
func (w *weights) Version(ctx context.Context) (string, error) {
	w.start.Do(func() {
		var stopped context.Context
		stopped, w.stop = context.WithCancel(context.Background())
		go func() {
			defer close(w.done)
			w.version, w.err = w.hash(stopped)
		}()
	})
	select {
	case <-w.done:
		return w.version, w.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (w *weights) hash(ctx context.Context) (string, error) {
	h := sha256.New()
	buffer := make([]byte, 1<<20)
	for _, f := range w.files {
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
				return "", fmt.Errorf("the model's version: %w", err)
			}
		}
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)[:16]), nil
}

// Close ends a hash in progress and closes the files. No Version may follow.
func (w *weights) Close() error {
	w.start.Do(func() { close(w.done) })
	if w.stop != nil {
		w.stop()
	}
	<-w.done
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// known returns the version if it is known already, "" otherwise.
func (w *weights) known() string {
	select {
	case <-w.done:
		return w.version
	default:
		return ""
	}
}
