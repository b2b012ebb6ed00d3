package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// TestDashboardShowsExportedMetrics: every metric that its queries name.
func TestDashboardShowsExportedMetrics(t *testing.T) {
	dashboard, err := os.ReadFile("../../deploy/grafana/agentd.json")
	if err != nil {
		t.Fatal(err)
	}
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--debug", "fixed-tokens=2")
	r.ask("once", user(1, "a")) // some metrics begin with their first count
	_, page, err := exchange("GET", r.url+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(agentd|go|process)_[a-z_]+\b`).FindAllString(string(dashboard), -1) {
		if name = strings.TrimSuffix(name, "_bucket"); seen[name] {
			continue
		}
		seen[name] = true
		if !strings.Contains(page, "\n# TYPE "+name+" ") {
			t.Errorf("the dashboard asks for %s, which the server does not export", name)
		}
	}
	for _, f := range regexp.MustCompile(`route(=~?)\\"([^"]+)\\"`).FindAllStringSubmatch(string(dashboard), -1) {
		if f[1] != "=~" || !regexp.MustCompile("^(?:"+f[2]+")$").MatchString("/v1/chat/completions") {
			t.Errorf("no chat is of the route %s%s", f[1], f[2])
		}
	}
	if len(seen) < 30 {
		t.Errorf("the dashboard asks for only %d metrics", len(seen))
	}
	r.idle()
}
