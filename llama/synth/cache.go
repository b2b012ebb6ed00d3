package synth

import (
	"fmt"
	"os"
	"path/filepath"
)

// CacheDir is agentd/models in the user's cache directory ($XDG_CACHE_HOME). llama.cpp reads models from files,
// so a generated or embedded model becomes a file there.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "agentd", "models"), nil
}

// Keep returns the path of the named file in dir. It calls write first unless whole accepts the file that is
// there. An empty dir means CacheDir. The contents must determine the name: several processes may call Keep at
// once.
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

// WriteFile makes a file of what fill writes, and its directory if that is missing. The file appears at path
// only when it is complete.
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
