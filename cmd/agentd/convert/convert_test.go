package convert

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongArgumentsSayWhatToWrite(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.gguf")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no arguments":    {nil, "agentd convert DIR FILE.gguf"},
		"no file":         {[]string{dir}, "agentd convert DIR FILE.gguf"},
		"a file exists":   {[]string{dir, there}, "exists"},
		"no checkpoint":   {[]string{dir, filepath.Join(dir, "new.gguf")}, "config.json"},
		"an unknown type": {[]string{"--type", "q3", dir, there}, "q8_0"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Run(t.Context(), test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
