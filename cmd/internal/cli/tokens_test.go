package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestNamesBelongToTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	text := "0123456789abcdef\n# other: 0123456789abcdefg\nfleet-1: aaaaaaaaaaaaaaaa\nfleet-1:bbbbbbbbbbbbbbbb:b\n1:cccccccccccccccc\ntrainer+weights: dddddddddddddddd\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Tokens{
		List:    []string{"0123456789abcdef", "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb:b", "1:cccccccccccccccc", "dddddddddddddddd"},
		Names:   map[string]string{"aaaaaaaaaaaaaaaa": "fleet-1", "bbbbbbbbbbbbbbbb:b": "fleet-1", "dddddddddddddddd": "trainer"},
		Weights: map[string]bool{"dddddddddddddddd": true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTooManyNamesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	var text strings.Builder
	for i := range maxClientNames + 1 {
		fmt.Fprintf(&text, "c%d:0123456789abcdef%d\n", i, i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), "line 1001: more than 1000 names") {
		t.Errorf("got %v", err)
	}
}

func TestTokenFileErrorsQuoteNoToken(t *testing.T) {
	for name, text := range map[string]string{
		"no token":      "# nothing\n",
		"short token":   "0123456789abcdef\nhunter2hunter2\n",
		"two words":     "0123456789abcdef SECRETSECRET\n",
		"short named":   "fleet:0123456789abcdef\nfleet:hunter2hunter2\n",
		"unknown right": "fleet+all:0123456789abcdef\n",
		"a token twice": "fleet:0123456789abcdef\nother:0123456789abcdef\n",
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
