package hub

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/cmd/internal/hub/hubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content is reproducible noise.
func content(size int) []byte {
	r := rand.NewChaCha8([32]byte{byte(size)})
	b := make([]byte, size)
	_, _ = r.Read(b)
	return b
}

const repo = "owner/some.repo"

// files are the files of a usual repository.
func files() map[string][]byte {
	return map[string][]byte{"m-Q4_K_M.gguf": content(300_000), "m-Q8_0.gguf": content(400_000), "config.json": []byte(`{"a": 1}`), "mmproj-F16.gguf": content(10)}
}

// opened is a Hub of a test. Its waits are kept and not waited.
type opened struct {
	*Hub
	mu    sync.Mutex
	waits []time.Duration
	log   bytes.Buffer
}

// open makes a Hub that asks a server and has its cache in a directory.
func open(t *testing.T, server *hubtest.Hub, home string, env map[string]string) *opened {
	t.Helper()
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	env["HF_HOME"] = home
	if env["HF_ENDPOINT"] == "" {
		env["HF_ENDPOINT"] = server.URL
	}
	h, err := New(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	o := &opened{Hub: h}
	h.Log = zerolog.New(zerolog.SyncWriter(&o.log))
	h.sleep = func(ctx context.Context, d time.Duration) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.waits = append(o.waits, d)
		time.Sleep(time.Millisecond) // a lock's holder goes on
		return ctx.Err()
	}
	return o
}

// get pulls a model.
func (o *opened) get(t *testing.T, text string) (string, error) {
	t.Helper()
	name, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o.Get(t.Context(), name)
}

// want pulls a model, whose file must be the server's.
func (o *opened) want(t *testing.T, server *hubtest.Hub, text, file string) (path string) {
	t.Helper()
	path, err := o.get(t, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.log.String())
	}
	if !strings.HasSuffix(path, "/models--owner--some.repo/snapshots/"+hubtest.Commit+"/"+file) {
		t.Errorf("the path is %s", path)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, server.Files[file]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	return path
}

func TestPulledFileLiesInTheLayoutOfTheCache(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	h := open(t, server, home, nil)
	path := h.want(t, server, repo, "m-Q4_K_M.gguf")
	if link, err := os.Readlink(path); err != nil || link != "../../blobs/"+server.Etag("m-Q4_K_M.gguf") {
		t.Errorf("the link is %q, %v", link, err)
	}
	if ref, err := os.ReadFile(filepath.Join(home, "hub/models--owner--some.repo/refs/main")); err != nil || string(ref) != hubtest.Commit {
		t.Errorf("the ref is %q, %v", ref, err)
	}
	sent := server.Sent()
	h.want(t, server, repo, "m-Q4_K_M.gguf")
	if server.Sent() != sent {
		t.Error("the second pull downloads again")
	}
}

func TestDirectoryOfSafetensorsIsWhole(t *testing.T) {
	server := hubtest.New(t, repo, map[string][]byte{
		"model-00001-of-00002.safetensors": content(5000), "model-00002-of-00002.safetensors": content(6000),
		"config.json": []byte("{}"), "tokenizer.json": []byte("[]"), "empty.txt": {}, "README.md": []byte("#"), "original/model.safetensors": content(9),
	})
	home := t.TempDir()
	path, err := open(t, server, home, nil).get(t, repo)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range must(os.ReadDir(path)) {
		got = append(got, f.Name())
		if text, err := os.ReadFile(filepath.Join(path, f.Name())); err != nil || !bytes.Equal(text, server.Files[f.Name()]) {
			t.Errorf("%s: %d bytes, %v", f.Name(), len(text), err)
		}
	}
	want := []string{"config.json", "empty.txt", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer.json"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if offline, err := open(t, server, home, map[string]string{"HF_HUB_OFFLINE": "1"}).get(t, repo); err != nil || offline != path {
		t.Errorf("offline: %q, %v", offline, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCutConnectionsResume(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if 0 < n && n <= 2*maxTries { // more often than a request may fail in a row
			server.Cut(w, r, 1000)
		}
		return false
	}
	h := open(t, server, t.TempDir(), nil)
	h.want(t, server, repo, "m-Q4_K_M.gguf")
	if server.Sent() != 300_000 {
		t.Errorf("%d bytes were sent", server.Sent())
	}
	if len(h.waits) != 2*maxTries || slices.Max(h.waits) > firstWait {
		t.Errorf("waits: %v", h.waits)
	}
}

func TestNextRunContinuesTheDownload(t *testing.T) {
	server := hubtest.New(t, repo, files())
	ctx, cancel := context.WithCancel(t.Context())
	server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 1 {
			server.Cut(w, r, 100_000)
		}
		return false
	}
	home := t.TempDir()
	first := open(t, server, home, nil)
	first.sleep = func(context.Context, time.Duration) error {
		cancel()
		return ctx.Err()
	}
	if _, err := first.Get(ctx, Name{Repo: repo}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := open(t, server, home, map[string]string{"HF_HUB_OFFLINE": "1"}).get(t, repo); err == nil {
		t.Error("a part is taken for the whole")
	}
	open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
	if server.Sent() != 300_000 {
		t.Errorf("%d bytes were sent", server.Sent())
	}
}

func TestStoppedDownloadIsNoFailureOfTheHub(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	open(t, server, home, nil).want(t, server, repo+":Q8_0", "m-Q8_0.gguf")
	ctx, cancel := context.WithCancel(t.Context())
	h := open(t, server, home, nil)
	h.Progress = func(string, int64, int64) { cancel() }
	if path, err := h.Get(ctx, Name{Repo: repo}); !errors.Is(err, context.Canceled) || path != "" || h.log.Len() > 0 {
		t.Errorf("got %q, %v\n%s", path, err, h.log.String())
	}
}

func TestServerWithoutRangesSendsTheWhole(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 1 {
			server.Cut(w, r, 100_000)
		}
		r.Header.Del("Range")
		return false
	}
	open(t, server, t.TempDir(), nil).want(t, server, repo, "m-Q4_K_M.gguf")
	if server.Sent() != 400_000 {
		t.Errorf("%d bytes were sent", server.Sent())
	}
}

// incomplete is the path of a download that did not end.
func incomplete(home, etag string) string {
	return filepath.Join(home, "hub", "models--owner--some.repo", "blobs", etag+".incomplete")
}

func TestDamagedPartIsDownloadedAgain(t *testing.T) {
	for name, begun := range map[string][]byte{"other bytes": make([]byte, 1000), "as long": make([]byte, 300_000), "longer": make([]byte, 300_001)} {
		t.Run(name, func(t *testing.T) {
			server := hubtest.New(t, repo, files())
			home := t.TempDir()
			path := incomplete(home, server.Etag("m-Q4_K_M.gguf"))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, begun, 0o600)); err != nil {
				t.Fatal(err)
			}
			open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
		})
	}
}

func TestWrongChecksumIsAnError(t *testing.T) {
	for _, file := range []string{"m-Q4_K_M.gguf", "config.json"} {
		server := hubtest.New(t, repo, map[string][]byte{file: content(3000), "x.safetensors": content(1)})
		server.Answer = func(w http.ResponseWriter, r *http.Request, _ int) bool {
			wrong := r.Method == http.MethodGet && (r.URL.Path == "/"+file || strings.HasPrefix(r.URL.Path, "/api/resolve-cache"))
			if wrong {
				_, _ = w.Write(make([]byte, 3000))
			}
			return wrong
		}
		home := t.TempDir()
		h := open(t, server, home, nil)
		_, err := h.get(t, repo)
		if err == nil || !strings.Contains(err.Error(), file+" of "+repo+": its checksum is ") || !strings.Contains(err.Error(), server.Etag(file)) {
			t.Errorf("got %v", err)
		}
		if part, err := os.ReadFile(incomplete(home, server.Etag(file))); err != nil || len(part) > 0 {
			t.Errorf("%d bytes are left, %v", len(part), err)
		}
		if _, err := os.Stat(strings.TrimSuffix(incomplete(home, server.Etag(file)), ".incomplete")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the blob: %v", err)
		}
	}
}

func TestTokenGoesToTheHubAlone(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("hf_of_the_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{"hf_of_the_variable": {"HF_TOKEN": "hf_of_the_variable"}, "hf_of_the_file": nil} {
		server := hubtest.New(t, repo, files())
		server.Token = want
		env = maps.Clone(env)
		if env == nil {
			env = map[string]string{}
		}
		env["HF_HUB_CACHE"] = t.TempDir()
		path, err := open(t, server, home, env).get(t, repo+":Q8_0")
		if err != nil || !strings.HasPrefix(path, env["HF_HUB_CACHE"]) {
			t.Fatalf("got %q, %v", path, err)
		}
		there := 0
		for _, r := range server.Requests() {
			got := r.Header.Get("Authorization")
			if "http://"+r.Host == server.CDN {
				there++
				if got != "" || r.Header.Get("Cookie") != "" {
					t.Errorf("the other host got %q", got)
				}
			} else if got != "Bearer "+want {
				t.Errorf("the hub got %q", got)
			}
		}
		if there == 0 {
			t.Error("the other host was not asked")
		}
	}
}

func TestUnreachableHubLeavesTheCache(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	path := open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
	nowhere := map[string]string{"HF_ENDPOINT": "http://127.0.0.1:1"}
	h := open(t, server, home, nowhere)
	if got, err := h.get(t, repo); err != nil || got != path || !strings.Contains(h.log.String(), "can't be reached") {
		t.Errorf("got %q, %v\n%s", got, err, h.log.String())
	}
	if _, err := open(t, server, t.TempDir(), nowhere).get(t, repo); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without a cache: %v", err)
	}
}

func TestOfflineTakesTheCacheAlone(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	path := open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
	before := len(server.Requests())
	h := open(t, server, home, map[string]string{"HF_HUB_OFFLINE": "true"})
	if got, err := h.get(t, repo); err != nil || got != path {
		t.Errorf("got %q, %v", got, err)
	}
	for _, missing := range []string{repo + ":Q8_0", "other/repo"} {
		if _, err := h.get(t, missing); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE is set") {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if len(server.Requests()) != before {
		t.Error("the hub was asked")
	}
	if err := os.Remove(must(filepath.EvalSymlinks(path))); err != nil {
		t.Fatal(err)
	}
	if _, err := h.get(t, repo); err == nil {
		t.Error("a link without a blob is taken for a file")
	}
	open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
}

func TestTwoPullsAtOnceDownloadOnce(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	second := open(t, server, home, nil)
	waiting := make(chan struct{})
	var once sync.Once
	second.sleep = func(ctx context.Context, _ time.Duration) error {
		once.Do(func() { close(waiting) })
		time.Sleep(time.Millisecond) // the first one goes on
		return ctx.Err()
	}
	done := make(chan error, 1)
	server.Answer = func(_ http.ResponseWriter, _ *http.Request, n int) bool {
		if n == 1 { // the first pull downloads, and holds the lock
			go func() {
				_, err := second.Get(t.Context(), Name{Repo: repo})
				done <- err
			}()
			select {
			case <-waiting:
			case err := <-done:
				done <- err // it did not wait
			}
		}
		return false
	}
	open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if server.Sent() != 300_000 {
		t.Errorf("%d bytes were sent", server.Sent())
	}
}

func TestFullDiskIsAnErrorBeforeTheDownload(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method == http.MethodHead {
			w.Header().Set("X-Linked-Etag", server.Etag("m-Q4_K_M.gguf"))
			w.Header().Set("X-Linked-Size", "9000000000000000000")
		}
		return r.Method == http.MethodHead
	}
	home := t.TempDir()
	_, err := open(t, server, home, nil).get(t, repo)
	if err == nil || server.Sent() > 0 {
		t.Fatalf("got %v, and %d bytes were sent", err, server.Sent())
	}
	for _, want := range []string{home, "9000000000.00 GB", "HF_HOME"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}

// TestSlowBodyArrivesInParts: the server sends each part when the one before was reported.
func TestSlowBodyArrivesInParts(t *testing.T) {
	server := hubtest.New(t, repo, files())
	arrived := make(chan int64, 100)
	server.Answer = func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n != 1 {
			return false
		}
		for sent := 0; sent < 300_000; {
			for got := range arrived {
				if got == int64(sent) {
					break
				}
			}
			_, _ = w.Write(server.Files["m-Q4_K_M.gguf"][sent : sent+30_000])
			_ = http.NewResponseController(w).Flush()
			sent += 30_000
		}
		return true
	}
	h := open(t, server, t.TempDir(), nil)
	h.Progress = func(_ string, done, _ int64) { arrived <- done }
	h.want(t, server, repo, "m-Q4_K_M.gguf")
	if server.Sent() != 300_000 || len(h.waits) > 0 {
		t.Errorf("%d bytes were sent with %v", server.Sent(), h.waits)
	}
}

func TestSecondPullWritesNothing(t *testing.T) {
	server := hubtest.New(t, repo, files())
	home := t.TempDir()
	ref := filepath.Join(home, "hub", "models--owner--some.repo", "refs", "main")
	for range 2 {
		open(t, server, home, nil).want(t, server, repo, "m-Q4_K_M.gguf")
		info := must(os.Stat(ref))
		if info.ModTime().Unix() == 1 {
			return
		}
		if err := os.Chtimes(ref, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the second pull wrote the ref, which a cache that is read-only forbids")
}

func TestUnsafeNamesOfTheHubAreRefused(t *testing.T) {
	for _, name := range []string{"../m.gguf", "/m.gguf", "a/../../m.gguf", ".", "a//m.gguf", "\x1b[2J.gguf"} {
		server := hubtest.New(t, repo, map[string][]byte{name: content(10)})
		if _, err := open(t, server, t.TempDir(), nil).get(t, repo); err == nil || !strings.Contains(err.Error(), "not safe") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesWithMarksOfURLsArePulled(t *testing.T) {
	const file = "a b/100% of?#m.gguf"
	server := hubtest.New(t, repo, map[string][]byte{file: content(1000), "b c?#%.safetensors": content(7)})
	path, err := open(t, server, t.TempDir(), nil).get(t, repo)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content(1000)) || !strings.HasSuffix(path, file) {
		t.Errorf("%s: %d bytes, %v", path, len(got), err)
	}
}

func TestProgressEndsWithTheSize(t *testing.T) {
	server := hubtest.New(t, repo, files())
	h := open(t, server, t.TempDir(), nil)
	var seen []int64
	h.Progress = func(file string, done, size int64) {
		if file != "m-Q8_0.gguf" || size != 400_000 {
			t.Errorf("%s of %d bytes", file, size)
		}
		seen = append(seen, done)
	}
	h.want(t, server, repo+":Q8_0", "m-Q8_0.gguf")
	if len(seen) < 2 || seen[0] != 0 || !slices.IsSorted(seen) || seen[len(seen)-1] != 400_000 {
		t.Errorf("got %v", seen)
	}
}

func TestBadVariablesAreErrors(t *testing.T) {
	for _, endpoint := range []string{"huggingface.co", "ftp://x", "http://", "http://[", "a\nb"} {
		_, err := New(func(name string) string { return map[string]string{"HF_ENDPOINT": endpoint, "HF_HOME": "/h"}[name] })
		if err == nil || !strings.Contains(err.Error(), "HF_ENDPOINT") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
