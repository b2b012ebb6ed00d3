package main

import (
	"strings"
	"testing"

	"agentd/internal/base/version"
)

// TestReleaseAndCommitAreReported: orchestrators compare
// agent_version, so that it must not change with every commit.
func TestReleaseAndCommitAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the release":               {nil, `"agent_version":"` + version.Release + `"`},
		"the other agent":           {[]string{"--agent", "history-summarized"}, `"agent_id":"history-summarized-agent"`},
		"what --agent-version says": {[]string{"--agent-version", "2.7-ours"}, `"agent_version":"2.7-ours"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := startFake(t, ready(newFakeModel()), test.args...)
			r.health("ready")
			for _, base := range []string{"", "/magma"} {
				r.expect(200, test.want, "GET", base+"/v1/info", "")
			}
			r.expect(200, `agentd_build_info{commit="`+version.Commit()+`",go="`, "GET", "/metrics", "")
			r.expect(200, `version="`+version.Release+`"} 1`, "GET", "/metrics", "")
			if want := `"version":"` + version.Release + `","commit":"` + version.Commit() + `"`; !strings.Contains(r.log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, r.log)
			}
		})
	}
}
