// Package modelcache keeps model files that the program makes itself. llama.cpp
// reads models from files, so what is generated or embedded has to become one.
package modelcache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is agentd/models in the user's cache directory ($XDG_CACHE_HOME).
func Dir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "agentd", "models"), nil
}

// Keep gives the path of the file of that name in dir, which write makes first
// unless whole finds it there. dir "" means Dir. The name has to follow from the
// contents: several processes may do this at once.
func Keep(dir, name string, whole func(path string) bool, write func(path string) error) (string, error) {
	if dir == "" {
		var err error
		if dir, err = Dir(); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, name)
	if whole(path) {
		return path, nil
	}
	return path, write(path)
}

// Write makes a file of what fill writes, and its directory if it is missing. The
// file appears at path only when it is complete.
func Write(path string, fill func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // models are no secret
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil { //nolint:gosec // models are no secret
		return err
	}
	return os.Rename(f.Name(), path)
}
