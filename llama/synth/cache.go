package synth

import (
	"fmt"
	"os"
	"path/filepath"
)

// CacheDir returns agentd/models in the user's cache directory ($XDG_CACHE_HOME). Generated and embedded models are
// written there, since llama.cpp reads models from files.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "agentd", "models"), nil
}

// Keep returns the path of the file name in dir; an empty dir means CacheDir. If there is no such file, or whole
// refuses it, Keep calls write first. Different contents must have different names, since several processes may
// call Keep at once.
func Keep(dir, name string, whole func(path string) bool, write func(path string) error) (string, error) {
	if dir == "" {
		var err error
		if dir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, name)
	if whole(path) {
		return path, nil
	}
	return path, write(path)
}

// WriteFile makes a file with what fill writes, and its directory if that is missing. The file appears at path when
// it is complete.
func WriteFile(path string, fill func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // models are not secret
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
	if err := os.Chmod(f.Name(), 0o644); err != nil { //nolint:gosec // models are not secret
		return err
	}
	return os.Rename(f.Name(), path)
}
