package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokenFileErrorsQuoteNoToken(t *testing.T) {
	for name, text := range map[string]string{
		"no token":    "# nothing\n",
		"short token": "0123456789abcdef\nhunter2hunter2\n",
		"two words":   "0123456789abcdef SECRETSECRET\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadTokens(path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, secret := range []string{"0123456789abcdef", "hunter2", "SECRET"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q quotes a token", err)
				}
			}
		})
	}
}
