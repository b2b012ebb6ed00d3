package check

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// wrapped is a server with a handler around the right one.
func wrapped(level, name string, serve func(right http.Handler, w http.ResponseWriter, r *http.Request)) *defect {
	return &defect{name: name, level: level, wrap: func(right http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(right, w, r) })
	}}
}

// fails refuses a request with a status.
func failsWith(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"detail":"no"}`)
}

// onStatus changes the status of some answers.
func onStatus(level, name string, from, to int) *defect {
	return answers(level, name, to, `{"detail":"no"}`, func(_ *heard, a *httptest.ResponseRecorder) bool { return a.Code == from })
}

// infoWrites is a server that declares something else.
func infoWrites(level, name, old, replacement string) *defect {
	return writes(level, name, "/v1/info", old, replacement)
}

// every100th fails one request in a hundred.
func every100th(name string, fail func(w http.ResponseWriter)) *defect {
	var n atomic.Int64
	return wrapped(Must, name, func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == responses && n.Add(1)%100 == 0 {
			fail(w)
			return
		}
		right.ServeHTTP(w, r)
	})
}

// oneByOne is a server that reads the next request once the last is answered.
func oneByOne() *defect {
	var mu sync.Mutex
	return wrapped(Should, "serves one client at a time", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == responses {
			mu.Lock()
			defer mu.Unlock()
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		right.ServeHTTP(w, r)
	})
}

// mixesUp is a server that answers with what another client asked at the same time.
func mixesUp() *defect {
	var mu sync.Mutex
	running, last := 0, ""
	return wrapped(Must, "mixes up clients", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != responses {
			right.ServeHTTP(w, r)
			return
		}
		a := httptest.NewRecorder()
		mu.Lock()
		running++
		mu.Unlock()
		right.ServeHTTP(a, r)
		time.Sleep(10 * time.Millisecond) // others ask meanwhile
		mu.Lock()
		body := a.Body.String()
		if running > 1 && last != "" && a.Code == http.StatusOK {
			body = last
		}
		if running--; a.Code == http.StatusOK {
			last = a.Body.String()
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Code)
		_, _ = io.WriteString(w, body)
	})
}

// dies is a server that fails every request after a client has left.
func dies() *defect {
	var left atomic.Bool
	return wrapped(Must, "fails after clients have left", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			left.Store(true)
			return
		}
		if left.Load() && r.URL.Path == responses {
			failsWith(w, 500)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		right.ServeHTTP(w, r)
	})
}

var httpDefects = []*defect{
	onStatus(Must, "400 for 422", 422, 400),
	onStatus(Must, "500 for 422", 422, 500),
	onStatus(Should, "422 for 415", 415, 422),
	onStatus(Should, "405 without Allow is 404", 405, 404),
	answers(Should, "errors are plain text", 404, "no", func(_ *heard, a *httptest.ResponseRecorder) bool { return a.Code == 404 }),
	answers(Should, "problems are a sentence", 422, `{"detail":"no"}`, func(_ *heard, a *httptest.ResponseRecorder) bool { return a.Code == 422 }),
	answers(Should, "only the first problem", 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"no"}]}`,
		func(_ *heard, a *httptest.ResponseRecorder) bool {
			return a.Code == 422 && strings.Count(a.Body.String(), `"loc"`) > 1
		}),
	answers(Must, "health is up", 200, `{"status":"up"}`, func(h *heard, _ *httptest.ResponseRecorder) bool { return h.r.URL.Path == "/health" }),
	answers(Must, "health has another field", 200, `{"status":"ready","load":1}`, func(h *heard, _ *httptest.ResponseRecorder) bool { return h.r.URL.Path == "/health" }),
	answers(Must, "responses are a 201", 201, `[]`, func(h *heard, a *httptest.ResponseRecorder) bool { return h.req != nil && a.Code == 200 }),
	answers(Must, "candidate errors are a 500", 500, `{"detail":"no"}`, func(h *heard, a *httptest.ResponseRecorder) bool {
		return h.req != nil && strings.Contains(a.Body.String(), `"status":"error"`)
	}),
	infoWrites(Must, "lacks agent_id", `"agent_id":"[^"]*",`, `"agent_id":"",`),
	infoWrites(Must, "lacks agent_version", `"agent_version":"[^"]*",`, ``),
	infoWrites(Must, "lacks capabilities", `"capabilities":\{[^}]*\},?`, ``),
	infoWrites(Must, "does not declare inference", `"inference":true`, `"inference":false`),
	infoWrites(Must, "declares texts", `"inference":true`, `"inference":"yes"`),
	infoWrites(Must, "declares another version", `"protocol_version":"2.0"`, `"protocol_version":"1.0"`),
	infoWrites(Must, "declares another version of sessions", `"coaching_session_version":"1"`, `"coaching_session_version":"2"`),
	infoWrites(Must, "declares unknown kinds", `"failure"`, `"boredom"`),
	infoWrites(Must, "declares more", `"agent_id"`, `"vendor":"x","agent_id"`),
	infoWrites(Should, "gives a reason though it coaches", `"agent_id"`, `"coaching_unavailable_reason":"x","agent_id"`),
	wrapped(Should, "can't read chunks", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "refuses HEAD", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			failsWith(w, 405)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "refuses HTTP/1.0", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.ProtoMinor == 0 {
			failsWith(w, 505)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "sends gzip to everyone", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Accept-Encoding", "gzip")
		a := httptest.NewRecorder()
		right.ServeHTTP(a, r)
		for name, v := range a.Header() {
			w.Header()[name] = v
		}
		if a.Code == 200 && a.Header().Get("Content-Encoding") == "" {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Del("Content-Length")
			z := gzip.NewWriter(w)
			_, _ = z.Write(a.Body.Bytes())
			_ = z.Close()
			return
		}
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Body.Bytes())
	}),
	wrapped(Should, "says gzip and sends none", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		wants := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		r.Header.Del("Accept-Encoding")
		if wants {
			w.Header().Set("Content-Encoding", "gzip")
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "reads gzip as JSON", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Content-Encoding")
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "refuses Expect", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			failsWith(w, 417)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "refuses bodies of 2 MiB", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 2<<20 {
			failsWith(w, 413)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "knows one spelling of its type", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if t := r.Header.Get("Content-Type"); r.Method == http.MethodPost && t != "" && !strings.HasPrefix(t, "application/json") {
			failsWith(w, 415)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(May, "reads bodies of any size", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 64<<20 {
			w.WriteHeader(http.StatusOK)
			return
		}
		right.ServeHTTP(w, r)
	}),
	wrapped(Should, "is a page", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		a := httptest.NewRecorder()
		right.ServeHTTP(a, r)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Body.Bytes())
	}),
	wrapped(Must, "cuts long answers", func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		a := httptest.NewRecorder()
		right.ServeHTTP(a, r)
		body := a.Body.Bytes()
		if a.Code == 200 && len(body) > 1<<16 {
			body = body[:1<<16]
		}
		w.WriteHeader(a.Code)
		_, _ = w.Write(body)
	}),
	every100th("every hundredth request fails", func(w http.ResponseWriter) { failsWith(w, 500) }),
	every100th("every hundredth request is not answered", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }),
	oneByOne(),
	mixesUp(),
	dies(),
}
