// Package hubtest is a Hugging Face hub for tests: a hub, and the second host that keeps its
// large files.
package hubtest

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Git's blob names
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the newest one of the repository.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Hub serves one repository.
type Hub struct {
	URL, CDN string // of the two hosts
	Repo     string
	Files    map[string][]byte // those named *.gguf and *.safetensors are at CDN
	Token    string            // that the hub wants; "": none
	Gated    bool              // whose licence was not accepted
	// Answer may answer a request in place of the hub. At the CDN, n counts the requests from 1.
	Answer func(w http.ResponseWriter, r *http.Request, n int) bool

	mu       sync.Mutex
	requests []*http.Request
	sent     int64 // bytes of large files
	asked    int   // requests of the CDN
}

// New starts a hub, which ends with the test.
func New(t testing.TB, repo string, files map[string][]byte) *Hub {
	h := &Hub{Repo: repo, Files: files}
	for _, host := range []struct {
		url   *string
		serve http.HandlerFunc
	}{{&h.URL, h.hub}, {&h.CDN, h.cdn}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.mu.Lock()
			h.requests = append(h.requests, r.Clone(r.Context()))
			h.mu.Unlock()
			host.serve(w, r)
		}))
		t.Cleanup(server.Close)
		*host.url = server.URL
	}
	return h
}

// Requests are those that came, in their order.
func (h *Hub) Requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// Sent is how many bytes of large files were sent.
func (h *Hub) Sent() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// Etag is the sum that names a file's blob.
func (h *Hub) Etag(file string) string {
	content := h.Files[file]
	if large(file) {
		return fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))) //nolint:gosec // see the import
}

func large(file string) bool { return strings.Contains(".gguf.safetensors", path.Ext(file)) }

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	w.WriteHeader(status)
}

func (h *Hub) hub(w http.ResponseWriter, r *http.Request) {
	if h.Answer != nil && h.Answer(w, r, 0) {
		return
	}
	allowed := h.Token == "" || r.Header.Get("Authorization") == "Bearer "+h.Token
	name, resolve := strings.CutPrefix(r.URL.Path, "/"+h.Repo+"/resolve/")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "main/"), Commit+"/")
	cached, direct := strings.CutPrefix(r.URL.Path, "/api/resolve-cache/")
	content, exists := h.Files[name]
	switch {
	case !allowed && !h.Gated:
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
	case strings.HasPrefix(r.URL.Path, "/api/models/"+h.Repo+"/revision/"):
		h.list(w)
	case direct:
		w.Header().Set("X-Repo-Commit", Commit)
		w.Header().Set("ETag", `W/"`+h.Etag(cached)+`"`)
		http.ServeContent(w, r, cached, time.Time{}, bytes.NewReader(h.Files[cached]))
	case !resolve || !exists:
		refuse(w, http.StatusNotFound, map[bool]string{true: "EntryNotFound", false: "RepoNotFound"}[resolve])
	case !allowed:
		refuse(w, http.StatusForbidden, "GatedRepo")
	case large(name):
		w.Header().Set("X-Repo-Commit", Commit)
		w.Header().Set("X-Linked-Etag", `"`+h.Etag(name)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, h.CDN+"/"+url.PathEscape(name)+"?signature=secret", http.StatusFound)
	default:
		w.Header().Set("X-Repo-Commit", Commit)
		http.Redirect(w, r, "/api/resolve-cache/"+(&url.URL{Path: name}).EscapedPath(), http.StatusTemporaryRedirect)
	}
}

// list is the answer about the repository.
func (h *Hub) list(w http.ResponseWriter) {
	type sibling struct {
		Name string `json:"rfilename"`
	}
	siblings := []sibling{}
	for _, name := range slices.Sorted(maps.Keys(h.Files)) {
		siblings = append(siblings, sibling{name})
	}
	body, err := json.Marshal(map[string]any{"id": h.Repo, "sha": Commit, "siblings": siblings})
	if err != nil {
		panic(err) // of strings
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (h *Hub) cdn(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked++
	n := h.asked
	h.mu.Unlock()
	counted := &counter{w, h}
	if h.Answer != nil && h.Answer(counted, r, n) {
		return
	}
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(h.Files[strings.TrimPrefix(r.URL.Path, "/")]))
}

// counter counts what is sent.
type counter struct {
	http.ResponseWriter
	h *Hub
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.sent += int64(n)
	return n, err
}

// Cut sends so many bytes of the answer to a request, and breaks the connection.
func (h *Hub) Cut(w http.ResponseWriter, r *http.Request, bytes int) {
	content := h.Files[strings.TrimPrefix(r.URL.Path, "/")]
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(content[from : from+bytes])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
