package hub

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/cmd/internal/hub/hubtest"
)

func TestRefusalsSayWhatToDo(t *testing.T) {
	at := func(path string, status int, code string) func(*hubtest.Hub) {
		return func(server *hubtest.Hub) {
			server.Answer = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if strings.Contains(r.URL.Path, path) {
					w.Header().Set("X-Error-Code", code)
					w.WriteHeader(status)
					return true
				}
				return false
			}
		}
	}
	for name, test := range map[string]struct {
		prepare func(*hubtest.Hub)
		token   string
		name    string
		want    []string
	}{
		"private without a token": {func(s *hubtest.Hub) { s.Token = "t" }, "", repo, []string{"private", "check its name", "HF_TOKEN"}},
		"wrong token":             {func(s *hubtest.Hub) { s.Token = "t" }, "u", repo, []string{"refuses the token", "/settings/tokens"}},
		"licence":                 {func(s *hubtest.Hub) { s.Token, s.Gated = "t", true }, "u", repo, []string{"accept the licence at http://", repo, "HF_TOKEN"}},
		"licence without a token": {at("resolve", 401, "GatedRepo"), "", repo, []string{"accept the licence at http://", repo, "HF_TOKEN"}},
		"forbidden":               {at("resolve", 403, ""), "t", repo, []string{"accept the licence at http://"}},
		"no repository":           {at("api", 404, "RepoNotFound"), "t", repo, []string{"there is no http://", "check the name"}},
		"no file":                 {func(*hubtest.Hub) {}, "", repo + ":m-Q5_0.gguf", []string{"0 files", "m-Q5_0.gguf", "m-Q4_K_M.gguf, m-Q8_0.gguf", repo + ":FILE"}},
		"no quantization":         {func(*hubtest.Hub) {}, "", repo + ":Q5_0", []string{"Q5_0", "m-Q4_K_M.gguf, m-Q8_0.gguf"}},
		"refused by the CDN":      {at("/m-Q4_K_M.gguf", 403, ""), "", repo, nil},
		"no hub":                  {at("api", 200, ""), "", repo, []string{"can't be listed", "HF_ENDPOINT must be a hub's"}},
		"other status":            {at("api", 418, ""), "", repo, []string{"418 I'm a teapot"}},
		"no sum":                  {at("resolve", 200, ""), "", repo, []string{"no checksum or size", "HF_ENDPOINT"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := hubtest.New(t, repo, files())
			test.prepare(server)
			h := open(t, server, t.TempDir(), map[string]string{"HF_TOKEN": test.token})
			_, err := h.get(t, test.name)
			if err == nil || len(h.waits) > 0 {
				t.Fatalf("got %v after %v", err, h.waits)
			}
			for _, want := range append(test.want, repo) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "signature") {
				t.Errorf("got %q, which holds the signature of a URL", err)
			}
		})
	}
}

func TestRefusalOfTheOtherHostIsNotALicence(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n > 0 {
			w.WriteHeader(http.StatusForbidden)
		}
		return n > 0
	}
	_, err := open(t, server, t.TempDir(), nil).get(t, repo)
	if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(server.CDN, "http://")) || strings.Contains(err.Error(), "licence") {
		t.Errorf("got %v", err)
	}
}

func TestBusyHubIsAskedAgain(t *testing.T) {
	server := hubtest.New(t, repo, files())
	failures := 3
	server.Answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if failures--; failures >= 0 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return failures >= 0
	}
	h := open(t, server, t.TempDir(), nil)
	h.want(t, server, repo, "m-Q4_K_M.gguf")
	if !slices.Equal(h.waits, []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}) {
		t.Errorf("waits: %v", h.waits)
	}
}

func TestWaitsDoubleUntilTheLastTry(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	h := open(t, server, t.TempDir(), nil)
	if _, err := h.get(t, repo); err == nil || !strings.Contains(err.Error(), "502 Bad Gateway") {
		t.Errorf("got %v", err)
	}
	if len(h.waits) != maxTries-1 {
		t.Fatalf("waits: %v", h.waits)
	}
	for i, wait := range h.waits {
		if full := firstWait << i; wait > full || wait < full/2 {
			t.Errorf("wait %d is %s", i, wait)
		}
	}
}

func TestTooLongRetryAfterIsAnError(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	h := open(t, server, t.TempDir(), nil)
	if _, err := h.get(t, repo); err == nil || len(h.waits) > 0 {
		t.Errorf("got %v after %v", err, h.waits)
	}
}

func TestUnreachableHostIsNamedWithoutTheSignature(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.CDN = "http://127.0.0.1:1"
	h := open(t, server, t.TempDir(), nil)
	_, err := h.get(t, repo)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1: connect: connection refused") || strings.Contains(err.Error(), "signature") {
		t.Errorf("got %v", err)
	}
	if len(h.waits) != maxTries-1 || strings.Contains(h.log.String(), "signature") {
		t.Errorf("waits %v\n%s", h.waits, h.log.String())
	}
}

func TestStalledConnectionIsTriedAgain(t *testing.T) {
	server := hubtest.New(t, repo, files())
	server.Answer = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if n == 1 {
			w.Header().Set("Content-Length", "300000")
			_, _ = w.Write(server.Files["m-Q4_K_M.gguf"][:1000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		return n == 1
	}
	h := open(t, server, t.TempDir(), nil)
	h.stall = 50 * time.Millisecond
	h.want(t, server, repo, "m-Q4_K_M.gguf")
	if !strings.Contains(h.log.String(), "no byte came within 50ms") {
		t.Errorf("the log:\n%s", h.log.String())
	}
}
