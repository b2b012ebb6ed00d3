package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretFilesThatOthersCanReadAreNamed(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o700: false, 0o640: true, 0o604: true, 0o644: true, 0o660: true, 0o602: true, 0o777: true} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		plain, unset, missing := path, "", path+".missing"
		c := Command{Options: []Option{
			{Name: "token-file", Value: SecretFile(&path)}, {Name: "other", Value: Text(&plain)},
			{Name: "unset", Value: SecretFile(&unset)}, {Name: "missing", Value: SecretFile(&missing)},
		}}
		got := c.ExposedSecrets()
		if (len(got) == 1) != want || len(got) > 1 || want && (!strings.HasPrefix(got[0], "--token-file: ") || !strings.HasSuffix(got[0], "run: chmod 600 "+path)) {
			t.Errorf("mode %04o: %q, want a warning: %t", mode, got, want)
		}
	}
}
