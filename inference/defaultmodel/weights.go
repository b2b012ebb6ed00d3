// Package defaultmodel embeds the default model: the weights of a small Qwen 3,
// trained on conversations of package household, under the project's licence.
// docs/model.md is its model card. train/run.sh trains it again.
package defaultmodel

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for the weights
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"agentd/llama/checkpoint"
	"agentd/llama/synth"
)

//go:embed weights/household.gguf
var gguf []byte

// Path returns the path of a GGUF file in dir with the embedded weights. It writes the file if it is missing or
// differs. An empty dir means synth.CacheDir. Several processes may call it at once.
func Path(dir string) (string, error) {
	sum := sha256.Sum256(gguf)
	name := fmt.Sprintf("household-%s.gguf", hex.EncodeToString(sum[:8]))
	path, err := synth.Keep(dir, name, isWhole, func(path string) error {
		return synth.WriteFile(path, func(f *os.File) error {
			_, err := f.Write(gguf)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("default model: %w", err)
	}
	return path, nil
}

// Open returns the embedded weights as a file in memory, see checkpoint.InMemory. It needs no writable directory.
func Open() (*os.File, error) {
	return checkpoint.InMemory(context.Background(), func(w io.Writer) error {
		_, err := w.Write(gguf)
		return err
	})
}

// isWhole reports whether a file holds exactly the embedded weights.
func isWhole(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(gguf)) {
		return false
	}
	found, err := os.ReadFile(path)
	return err == nil && bytes.Equal(found, gguf)
}
