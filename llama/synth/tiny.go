package synth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// formatVersion is part of every cached file's name. It must change when Write writes different files.
const formatVersion = 1

// Tiny returns the path of an architecture's tiny model in dir, and writes the file if
// it is missing. An empty dir means CacheDir.
func Tiny(dir, arch string) (string, error) {
	spec, err := Preset("tiny", arch)
	if err != nil {
		return "", err
	}
	return Cached(dir, spec)
}

// Cached returns the path of a Spec's model in dir, and writes the file if it is missing.
// An empty dir means CacheDir. Several processes may call Cached at once.
func Cached(dir string, spec Spec) (string, error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("synth: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(key, "%d %s", formatVersion, defaultTemplate(spec.Arch)))
	name := fmt.Sprintf("random-%s-%s.gguf", spec.Arch, hex.EncodeToString(sum[:8]))
	return Keep(dir, name, isFile, func(path string) error { return Write(path, spec) })
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
