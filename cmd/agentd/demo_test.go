package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/serve"
	"agentd/household/dataset/playbacktest"
	householddemo "agentd/household/demo"
	"agentd/protocol"
	"agentd/server"
)

// demoToken is the bearer token of the tests' server.
const demoToken = "0123456789abcdef"

// servePlanner is the URL of a server that decides as the planner does in the first houses of a demo.
func servePlanner(t *testing.T, tokens ...string) string {
	t.Helper()
	m, err := playbacktest.New()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		if err := m.Teach(t.Context(), householddemo.Episode(seed), playbacktest.PlannerAnswer); err != nil {
			t.Fatal(err)
		}
	}
	info := serve.DefaultConfig().Server.Info
	info.Capabilities[protocol.CapabilityCoaching], info.CoachingUnavailableReason = false, "a test"
	s, err := server.New(server.Options{Info: info, Log: zerolog.Nop(), Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	s.Ready(m)
	return h.URL
}

func TestDemoShowsARunningServer(t *testing.T) {
	url := servePlanner(t)
	var out strings.Builder
	if err := run(t.Context(), []string{"demo", "--url", url, "--tasks", "2"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "House 1: ") || !strings.Contains(out.String(), "Tasks done: 2 of 2.") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %s", out.String())
	}
}

func TestDemoErrorsNameFix(t *testing.T) {
	url := servePlanner(t, demoToken)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	other := filepath.Join(t.TempDir(), "other")
	writeFile(t, other, demoToken+demoToken)
	for name, test := range map[string]struct {
		args  []string
		wants []string
	}{
		"unknown option":        {[]string{"--task", "3"}, []string{"demo: ", "--task", "did you mean --tasks"}},
		"nobody there":          {[]string{"--url", gone.URL}, []string{"no agent server answers", "start one with agentd"}},
		"an unknown authority":  {[]string{"--url", secure.URL}, []string{"failed to verify certificate", "set SSL_CERT_FILE"}},
		"a wrong token":         {[]string{"--url", url, "--token-file", other}, []string{"--token-file"}},
		"no number of tasks":    {[]string{"--tasks", "none"}, []string{"--tasks", "from 1 to"}},
		"something else's page": {[]string{"--url", gone.URL + "?x"}, []string{"--url"}},
	} {
		err := run(t.Context(), append([]string{"demo"}, test.args...), io.Discard, io.Discard)
		for _, want := range test.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
}

func TestDemoHelpListsEveryOption(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"demo", "--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, o := range demo.DefaultConfig().Command().Options {
		if !strings.Contains(out.String(), "  --"+o.Name) {
			t.Errorf("--%s is missing", o.Name)
		}
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 {
			t.Errorf("too wide: %s", line)
		}
	}
}
