package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/internal/hub/hubtest"
)

// TestHostThatNeverSendsTheFileEndsThePull after the tries that a failure has, with a sentence that says what was kept.
func TestHostThatNeverSendsTheFileEndsThePull(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(server *hubtest.Hub, w http.ResponseWriter, r *http.Request, n int) bool
		want   string
		kept   bool
	}{
		"a page in its place": {func(_ *hubtest.Hub, w http.ResponseWriter, _ *http.Request, _ int) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		}, "answered with 6 bytes where the file has 300000, perhaps with a page of a proxy; nothing was kept", false},
		"cut, without ranges": {func(server *hubtest.Hub, w http.ResponseWriter, r *http.Request, _ int) bool {
			r.Header.Del("Range")
			server.Cut(w, r, 1000)
			return false
		}, "; 1000 of 300000 bytes were kept, and the next try goes on from there", true},
		"a page after a part": {func(server *hubtest.Hub, w http.ResponseWriter, r *http.Request, n int) bool {
			if n == 1 {
				server.Cut(w, r, 1000)
				return false
			}
			_, _ = w.Write([]byte("<html>"))
			return true
		}, "; 1000 of 300000 bytes were kept, and the next try goes on from there", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := hubtest.New(t, repo, files())
			asked := 0
			server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
				if n == 0 {
					return false
				}
				asked++
				return tc.answer(server, w, r, n)
			}
			home := t.TempDir()
			_, err := open(t, server, home, nil).get(t, repo)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if asked > maxTries+1 {
				t.Errorf("asked %d times", asked)
			}
			_, err = os.Stat(incomplete(home, etagOf(server, "m-Q4_K_M.gguf")))
			if (err == nil) != tc.kept {
				t.Errorf("the part: %v", err)
			}
		})
	}
}

func etagOf(server *hubtest.Hub, file string) string {
	sum := sha256.Sum256(server.Files[file])
	return hex.EncodeToString(sum[:])
}

func TestPartBeyondTheHostsBytesIsDownloadedAgain(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 0 || r.Header.Get("Range") == "" {
			return false
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", 300_000))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return true
	}
	home := t.TempDir()
	part := incomplete(home, etagOf(server, "m-Q4_K_M.gguf"))
	if err := os.MkdirAll(filepath.Dir(part), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part, server.Files["m-Q4_K_M.gguf"][:1000], 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
}

func TestTildeOfTheCacheIsTheHomeDirectory(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	open(t, server, "~/models", map[string]string{"HOME": home}).want(t, server, repo, "m-Q4_K_M.gguf")
	if _, err := fs.Stat(os.DirFS(home), "models/hub"); err != nil {
		t.Error(err)
	}
}
