package learn

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write writes a file beside its path and renames it, so that it is whole.
func write(path string, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	b := bufio.NewWriter(f)
	if err = errors.Join(fill(b), b.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func writeFile(path string, data []byte) error {
	return write(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

// readJSON reads a file that may be missing.
func readJSON(path string, v any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w; remove the file to make it again", path, err)
	}
	return true, nil
}

// copyFile copies a file to another path.
func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(to, func(w io.Writer) error { _, err := io.Copy(w, f); return err })
}

// headerTimeout bounds how long a connection of this machine may take for its headers.
const headerTimeout = 10 * time.Second

// listen serves a handler on a free port of this machine.
func listen(h http.Handler) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener) // until it is closed
	}()
	return "http://" + listener.Addr().String(), func() { _ = s.Close(); <-done }, nil
}

// lockFile in a directory holds the number of the process that learns there, in at most maxOwner
// bytes.
const (
	lockFile = ".lock"
	maxOwner = 16
)

// Lock makes a directory belong to this process until unlock or its end. Two runs in one directory
// would replace each other's files.
func Lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner, _ := io.ReadAll(io.LimitReader(f, maxOwner)) // only for the sentence
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("process %s already learns in %s; wait until it ends, or name another directory", bytes.TrimSpace(owner), dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // which ends the lock
}
