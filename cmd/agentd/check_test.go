package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// passes runs agentd check against the server and wants no failure of any level.
func (r *running) passes(args ...string) {
	r.t.Helper()
	var out bytes.Buffer
	err := run(r.t.Context(), append([]string{"check", r.url}, args...), &out, &out)
	if err != nil || strings.Contains("\n"+out.String(), "\nfail ") || strings.Count(out.String(), "\npass ") < 5 {
		r.t.Errorf("%v\n%s", err, &out)
	}
}

// areasBut are the areas of rules but those that take most of the time, where their setting changes nothing for them:
// "bound", for instance, has bodies of 64 MiB.
func areasBut(t *testing.T, without ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"check", "--list"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	areas := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:must|should|may) +(\w+)/`).FindAllStringSubmatch(out.String(), -1) {
		areas[m[1]] = true
	}
	for _, area := range without {
		if !areas[area] {
			t.Fatalf("no rules of %s in\n%s", area, &out)
		}
		delete(areas, area)
	}
	return strings.Join(slices.Sorted(maps.Keys(areas)), ",")
}

// TestAgentdPassesItsOwnCheck in each of its settings.
func TestAgentdPassesItsOwnCheck(t *testing.T) {
	t.Parallel()
	most := []string{"--only", areasBut(t, "bound")}
	some := []string{"--only", areasBut(t, "bound", "concurrent", "memory", "tools")}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "0123456789abcdef\n")
	for name, test := range map[string]struct {
		server func(t *testing.T) *running
		args   []string
	}{
		"engine": {func(t *testing.T) *running { return serveEngines(t, []string{serveModel(t).url}) }, most},
		"shared store": {func(t *testing.T) *running {
			r := newCluster(t, 1, "--threads", "1", "--device", "cpu").replicas[0]
			r.health("ready")
			return r
		}, some},
		"default model":    {func(t *testing.T) *running { return serveModel(t) }, most},
		"without coaching": {func(t *testing.T) *running { return serveModel(t, "--coaching", "off") }, some},
		"summaries":        {func(t *testing.T) *running { return serveModel(t, "--agent", "history-summarized") }, most},
		"tokens": {func(t *testing.T) *running { return serveModel(t, "--auth-token-file", tokens) },
			[]string{"--token-file", tokens, "--only", "token,health,info,error"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.server(t)
			at := r.atOne
			if name == "default model" {
				at = r.atBoth
			}
			at(t, func(_ *testing.T, r *running) {
				args := test.args
				if name == "default model" && r.base != "" {
					args = some
				}
				r.passes(args...)
			})
		})
	}
}

// TestCheckExitStatus: 1 for a rule that failed, 2 for wrong usage, 3 for no server.
func TestCheckExitStatus(t *testing.T) {
	r := startFake(t, ready(newFakeModel()), "--coaching", "off")
	r.health("ready")
	known := filepath.Join(t.TempDir(), "known.yaml")
	writeFile(t, known, "health/ready: it never is\n")
	unknown := filepath.Join(t.TempDir(), "unknown.yaml")
	writeFile(t, unknown, "health/nice: why\n")
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer locked.Close()
	for name, test := range map[string]struct {
		args   []string
		status int
		out    string
	}{
		"a list":                {[]string{"--list", "--only", "health"}, 0, "health/ready"},
		"a rule":                {[]string{r.url, "--only", "health/ready"}, 0, "1 pass"},
		"coaching that is off":  {[]string{r.url, "--only", "coaching/unknown-run", "--coaching", "on"}, 1, "curl -sS -i -X POST"},
		"a known failure":       {[]string{r.url, "--only", "health", "--expect", known}, 1, "stale"},
		"no URL":                {nil, 2, ""},
		"an unknown option":     {[]string{r.url, "--x"}, 2, ""},
		"a query":               {[]string{r.url + "/?token=x"}, 2, ""},
		"a fragment":            {[]string{r.url + "/#top"}, 2, ""},
		"an empty query":        {[]string{r.url + "/?"}, 2, ""},
		"no host":               {[]string{"http://"}, 2, ""},
		"a port without a host": {[]string{"http://:8888"}, 2, ""},
		"a port beyond 65535":   {[]string{"http://127.0.0.1:99999"}, 2, ""},
		"port 0":                {[]string{"http://127.0.0.1:0"}, 2, ""},
		"a space in the host":   {[]string{"http://agent server:8888"}, 2, ""},
		"no scheme":             {[]string{"127.0.0.1:8888"}, 2, ""},
		"another scheme":        {[]string{"ftp://127.0.0.1"}, 2, ""},
		"a password":            {[]string{"http://me:secret@127.0.0.1:8888"}, 2, ""},
		"half a bracket":        {[]string{"http://[::1"}, 2, ""},
		"two URLs":              {[]string{r.url, r.url}, 2, ""},
		"no authorities":        {[]string{r.url, "--ca", known}, 2, ""},
		"a file that is absent": {[]string{r.url, "--ca", known + "x"}, 2, ""},
		"an unknown rule":       {[]string{r.url, "--only", "health/nice"}, 2, ""},
		"an unknown known rule": {[]string{r.url, "--expect", unknown}, 2, ""},
		"no place for JUnit":    {[]string{r.url, "--junit", known + "/x.xml"}, 2, "--junit"},
		"no server":             {[]string{"http://127.0.0.1:9"}, 3, ""},
		"no token":              {[]string{locked.URL}, 3, "see --token-file"},
		"an unknown authority":  {[]string{secure.URL}, 3, "with --ca"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"check"}, test.args...), &out, &out)
		if got := exitStatus(err); err != nil && got != test.status || err == nil && test.status != 0 || !strings.Contains(fmt.Sprint(&out, err), test.out) {
			t.Errorf("%s: status %d, %v\n%s", name, got, err, &out)
		}
	}
}

func TestCheckReports(t *testing.T) {
	r := startFake(t, ready(newFakeModel()), "--coaching", "off")
	r.health("ready")
	file := filepath.Join(t.TempDir(), "check.xml")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"check", r.url, "--only", "health,token", "--format", "json", "--junit", file}, &out, &out); err != nil {
		t.Fatal(err)
	}
	xml, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text, parts := range map[string][]string{
		out.String(): {`"id": "health/ready"`, `"verdict": "pass"`, `"revision": "2.0"`},
		string(xml):  {`<testcase classname="must" name="health/ready"></testcase>`, `<skipped message="not applicable: no token was given"/>`},
	} {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s is missing in\n%s", part, text)
			}
		}
	}
}

// TestCheckOfTLS: --ca names who signs the certificate. Without it, the server is not reached.
func TestCheckOfTLS(t *testing.T) {
	r := startFake(t, ready(newFakeModel()), "--coaching", "off")
	r.health("ready")
	to, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(to))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshakes that fail
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	var out bytes.Buffer
	args := []string{"check", secure.URL, "--only", "health,info,path,method"}
	if got := exitStatus(run(t.Context(), args, &out, &out)); got != 3 {
		t.Errorf("without --ca the status is %d\n%s", got, &out)
	}
	out.Reset()
	err = run(t.Context(), append(args, "--ca", ca), &out, &out)
	if err != nil || !strings.Contains(out.String(), " 0 fail") || strings.Count(out.String(), "\npass ") < 15 {
		t.Errorf("with --ca: %v\n%s", err, &out)
	}
}

// TestCheckOfEndlessAnswer: it is a failed rule, and the reports are written.
func TestCheckOfEndlessAnswer(t *testing.T) {
	r := startFake(t, ready(newFakeModel()), "--coaching", "off")
	r.health("ready")
	to, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	right := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			right.ServeHTTP(w, r)
			return
		}
		for more := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(more); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "check.xml")
	var out bytes.Buffer
	err = run(t.Context(), []string{"check", s.URL, "--only", "request/truncated,health", "--junit", file}, &out, &out)
	if exitStatus(err) != 1 || !strings.Contains(out.String(), "MiB") || !strings.Contains(out.String(), "1 fail") {
		t.Errorf("%v\n%s", err, &out)
	}
	if xml, err := os.ReadFile(file); err != nil || !strings.Contains(string(xml), "<failure message=") {
		t.Errorf("%v\n%s", err, xml)
	}
}
