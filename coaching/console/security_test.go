package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const token = "0123456789abcdef-a-token"

func TestTokensRequireLogin(t *testing.T) {
	f := open(t, func(o *Options) { o.Tokens = []string{"another-token-of-the-file", token} })
	var who me
	f.want(http.StatusOK, http.MethodGet, "/api/me", nil, &who)
	if !who.AuthRequired || who.Authenticated || who.Agent || who.ClaimSeconds != 120 {
		t.Errorf("before the login: %+v", who)
	}
	for _, path := range []string{"/api/tasks", "/api/tasks/1", "/api/events"} {
		if r := f.want(http.StatusUnauthorized, http.MethodGet, path, nil, nil); r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", path)
		}
	}
	for _, path := range []string{"claim", "release", "check", "answer", "candidates"} {
		f.want(http.StatusUnauthorized, http.MethodPost, "/api/tasks/1/"+path, object{}, nil)
	}
	f.want(http.StatusUnauthorized, http.MethodPut, "/api/tasks/1/draft", object{}, nil)
	f.want(http.StatusOK, http.MethodGet, "/", nil, nil) // where one logs in
	f.want(http.StatusOK, http.MethodGet, "/health", nil, nil)
	f.want(http.StatusNotFound, http.MethodDelete, "/v1/coaching/requests/x", nil, nil) // agents cannot log in

	f.want(http.StatusUnauthorized, http.MethodPost, "/api/login", object{"token": token + "x"}, nil)
	f.want(http.StatusUnauthorized, http.MethodPost, "/api/login", object{"token": ""}, nil)
	r := f.want(http.StatusNoContent, http.MethodPost, "/api/login", object{"token": token}, nil)
	cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || strings.Contains(cookie.Value, token) {
		t.Fatalf("the cookie is %+v (%v)", cookie, err)
	}
	with := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: value}) }
	}
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	end, signature, _ := strings.Cut(cookie.Value, ".")
	for name, test := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"the cookie":              {with(cookie.Value), http.StatusOK},
		"a bearer token":          {bearer(token), http.StatusOK},
		"a wrong bearer token":    {bearer(token + "x"), http.StatusUnauthorized},
		"an empty cookie":         {with(""), http.StatusUnauthorized},
		"the token as a cookie":   {with(token), http.StatusUnauthorized},
		"a later end":             {with("9" + end + "." + signature), http.StatusUnauthorized},
		"no signature":            {with(end + "."), http.StatusUnauthorized},
		"the signature cut short": {with(cookie.Value[:len(cookie.Value)-1]), http.StatusUnauthorized},
	} {
		if r := f.call(http.MethodGet, "/api/tasks", nil, test.change); r.status != test.status {
			t.Errorf("%s: %d, want %d", name, r.status, test.status)
		}
	}

	f.stop()
	f = openAt(t, f.path, f.clock, func(o *Options) { o.Tokens = []string{token} })
	if r := f.call(http.MethodGet, "/api/tasks", nil, with(cookie.Value)); r.status != http.StatusOK {
		t.Errorf("after a restart the login is %d", r.status)
	}
	f.clock.pass(sessionTime)
	if r := f.call(http.MethodGet, "/api/tasks", nil, with(cookie.Value)); r.status != http.StatusUnauthorized {
		t.Errorf("after %s the login is %d", sessionTime, r.status)
	}
	f.stop()
	f = openAt(t, f.path, newClock(), func(o *Options) { o.Tokens = []string{"another-token-of-the-file"} })
	if r := f.call(http.MethodGet, "/api/tasks", nil, with(cookie.Value)); r.status != http.StatusUnauthorized {
		t.Errorf("with its token taken away the login is %d", r.status)
	}
	r = f.want(http.StatusNoContent, http.MethodPost, "/api/logout", nil, nil)
	if cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie")); err != nil || cookie.MaxAge >= 0 || cookie.Value != "" {
		t.Errorf("the logout sets %+v (%v)", cookie, err)
	}
	secure := f.call(http.MethodPost, "/api/logout", nil, func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") })
	if !strings.Contains(secure.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("behind TLS the cookie is %q", secure.header.Get("Set-Cookie"))
	}
}

func TestNoTokensRequireNoLogin(t *testing.T) {
	f := open(t)
	var who me
	f.want(http.StatusOK, http.MethodGet, "/api/me", nil, &who)
	if who.AuthRequired || !who.Authenticated {
		t.Errorf("%+v", who)
	}
	if r := f.want(http.StatusNoContent, http.MethodPost, "/api/login", object{"token": "any"}, nil); r.header.Get("Set-Cookie") != "" {
		t.Error("a cookie was set")
	}
}

func TestOtherSitesCannotUseTheConsole(t *testing.T) {
	f := open(t, func(o *Options) { o.PublicHosts = []string{"Console.example.org"} })
	f.post(foreign("r1"))
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:8890": true, "LOCALHOST.": true, "127.0.0.1": true, "10.1.2.3:80": true, "[::1]:8890": true, "[::1]": true,
		"console.example.org": true, "CONSOLE.example.org:443": true,
		"evil.example.org": false, "localhost.evil.org": false, "console.example.org.evil.org": false, "127.0.0.1.evil.org": false,
	} {
		for _, path := range []string{"/", "/assets/js/app.js", "/api/tasks"} {
			r := f.call(http.MethodGet, path, nil, func(r *http.Request) { r.Host = host })
			if ok != (r.status == http.StatusOK) || !ok && r.status != http.StatusMisdirectedRequest {
				t.Errorf("%s of host %s: %d", path, host, r.status)
			}
		}
	}
	for _, path := range []string{"/api/tasks/1/claim", "/api/login", "/api/logout"} {
		r := f.call(http.MethodPost, path, object{"person": "Eve"}, func(r *http.Request) { r.Header.Del(headerConsole) })
		if r.status != http.StatusForbidden || !strings.Contains(r.detail(), headerConsole) {
			t.Errorf("%s without the header: %d %s", path, r.status, r.body)
		}
	}
	preflight := f.call(http.MethodOptions, "/api/tasks/1/claim", nil, func(r *http.Request) {
		r.Header.Set("Origin", "http://evil.example.org")
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", headerConsole)
	})
	if preflight.status/100 == 2 || preflight.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight got %d %v", preflight.status, preflight.header)
	}
}

func TestAnswersHaveSecurityHeaders(t *testing.T) {
	f := open(t)
	for _, path := range []string{"/", "/assets/js/app.js", "/assets/none.js", "/api/me", "/api/none", "/health", "/none"} {
		h := f.call(http.MethodGet, path, nil).header
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; ", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if !strings.HasPrefix(h.Get(name), want) {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
	if h := f.call(http.MethodGet, "/api/tasks", nil).header; h.Get("Cache-Control") != "no-store" {
		t.Errorf("tasks may be cached: %q", h.Get("Cache-Control"))
	}
}

func TestPageIsServedFromItsFiles(t *testing.T) {
	f := open(t)
	index := f.want(http.StatusOK, http.MethodGet, "/", nil, nil)
	if string(index.body) != string(fakePage["index.html"].Data) || index.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("the index is %s as %s", index.body, index.header.Get("Content-Type"))
	}
	script := f.want(http.StatusOK, http.MethodGet, "/assets/js/app.js", nil, nil)
	if script.header.Get("Content-Type") != "text/javascript; charset=utf-8" || script.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the script has %v", script.header)
	}
	tag := script.header.Get("ETag")
	if r := f.call(http.MethodGet, "/assets/js/app.js", nil, func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); r.status != http.StatusNotModified || len(r.body) != 0 {
		t.Errorf("the script that the browser has: %d", r.status)
	}
	large := f.call(http.MethodGet, "/assets/css/large.css", nil, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip, br") })
	if large.header.Get("Content-Encoding") != "gzip" || unzip(t, large.body) != string(fakePage["css/large.css"].Data) {
		t.Errorf("the style sheet has %v", large.header)
	}
	for _, path := range []string{"/assets/js/notes.txt", "/assets/js/", "/assets/", "/assets/../task.go", "/assets/%2e%2e/task.go", "/index.html"} {
		if r := f.call(http.MethodGet, path, nil); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

func TestEmbeddedPageIsComplete(t *testing.T) {
	f := open(t, func(o *Options) { o.Page = nil })
	r := f.want(http.StatusOK, http.MethodGet, "/", nil, nil)
	if !strings.Contains(string(r.body), "<!doctype html>") {
		t.Errorf("the index is %s", r.body)
	}
	for _, attribute := range []string{`href="/assets/`, `src="/assets/`} {
		for _, rest := range strings.Split(string(r.body), attribute)[1:] {
			name, _, _ := strings.Cut(rest, `"`)
			f.want(http.StatusOK, http.MethodGet, "/assets/"+name, nil, nil)
		}
	}
}

func TestLargeAnswersAreGzippedOnRequest(t *testing.T) {
	f := open(t)
	f.post(strings.Replace(foreign("r1"), "Improve it.", strings.Repeat("Improve it. ", 2000), 1))
	plain := f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, nil)
	zipped := f.call(http.MethodGet, "/api/tasks/1", nil, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	if plain.header.Get("Content-Encoding") != "" || zipped.header.Get("Content-Encoding") != "gzip" || unzip(t, zipped.body) != string(plain.body) {
		t.Errorf("plain: %v, zipped: %v", plain.header, zipped.header)
	}
}

func unzip(t *testing.T, zipped []byte) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(string(zipped)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func TestLoginExpires(t *testing.T) {
	clock := newClock()
	a := newAuthenticator([]string{token}, clock.now)
	digest, ok := a.find(" " + token + " ")
	if !ok {
		t.Fatal("the token is not found")
	}
	session := a.session(digest)
	clock.pass(sessionTime - time.Second)
	if !a.acceptsSession(session) {
		t.Error("ended too early")
	}
	clock.pass(time.Second)
	if a.acceptsSession(session) {
		t.Error("did not end")
	}
}
