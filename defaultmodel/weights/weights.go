// Package weights holds the default model: weights of a small Qwen 3 that was
// trained on conversations of package household, under the project's licence.
// docs/model.md is its model card, ../train makes it anew.
package weights

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the weights
	"encoding/hex"
	"fmt"
	"os"

	"agentd/llama/modelcache"
)

//go:embed household.gguf
var gguf []byte

// Path gives the path of the weights as a GGUF file, which it writes first if it
// is not in dir or not what is embedded; dir "" means modelcache.Dir. Several
// processes may do so at once.
func Path(dir string) (string, error) {
	sum := sha256.Sum256(gguf)
	name := fmt.Sprintf("household-%s.gguf", hex.EncodeToString(sum[:8]))
	path, err := modelcache.Keep(dir, name, isWhole, func(path string) error {
		return modelcache.Write(path, func(f *os.File) error {
			_, err := f.Write(gguf)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("weights: %w", err)
	}
	return path, nil
}

// isWhole tells whether a file holds the weights. Its name does not show damage.
func isWhole(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(gguf)) {
		return false
	}
	found, err := os.ReadFile(path)
	return err == nil && bytes.Equal(found, gguf)
}
