package synth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// formatVersion is part of every cached file's name; it changes with what
// Write makes of a Spec.
const formatVersion = 1

// CacheDir is where Cached keeps models unless told otherwise: agentd/models
// in the user's cache directory ($XDG_CACHE_HOME).
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("synth: %w", err)
	}
	return filepath.Join(dir, "agentd", "models"), nil
}

// Tiny gives the path of the tiny model of an architecture, which it writes
// first if it is not in dir; dir "" means CacheDir.
func Tiny(dir, arch string) (string, error) {
	spec, err := Preset("tiny", arch)
	if err != nil {
		return "", err
	}
	return Cached(dir, spec)
}

// Cached gives the path of the model of a Spec, which it writes first if it is
// not in dir; dir "" means CacheDir. Several processes may do so at once.
func Cached(dir string, spec Spec) (string, error) {
	if dir == "" {
		var err error
		if dir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("synth: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(key, "%d %s", formatVersion, defaultTemplate(spec.Arch)))
	path := filepath.Join(dir, fmt.Sprintf("random-%s-%s.gguf", spec.Arch, hex.EncodeToString(sum[:8])))
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	return path, Write(path, spec)
}
