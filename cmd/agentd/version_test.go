package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestRecordedCommit(t *testing.T) {
	setting := func(pairs ...string) *debug.BuildInfo {
		info := new(debug.BuildInfo)
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a clean checkout":   {setting("vcs.revision", revision, "vcs.modified", "false"), "0123456789ab"},
		"one with changes":   {setting("vcs.modified", "true", "vcs.revision", revision), "0123456789ab-dirty"},
		"a short revision":   {setting("vcs.revision", "12"), "12"},
		"no version control": {setting("vcs.modified", "true"), ""},
		"nothing recorded":   {nil, ""},
	} {
		if got := recordedCommit(test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestTheVersionIsTheReleaseAndTheCommitIsBesideIt: orchestrators compare
// agent_version, so that it must not change with every commit.
func TestTheVersionIsTheReleaseAndTheCommitIsBesideIt(t *testing.T) {
	commit = "abc123"
	defer func() { commit = "" }()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the release":               {nil, `"agent_version":"` + release + `"`},
		"what --agent-version says": {[]string{"--agent-version", "2.7-ours"}, `"agent_version":"2.7-ours"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := startFake(t, ready(newFakeModel()), test.args...)
			r.health("ready")
			for _, base := range []string{"", "/magma"} {
				r.expect(200, test.want, "GET", base+"/v1/info", "")
			}
			r.expect(200, `agentd_build_info{commit="abc123",go="`, "GET", "/metrics", "")
			r.expect(200, `version="`+release+`"} 1`, "GET", "/metrics", "")
			if want := `"version":"` + release + `","commit":"abc123"`; !strings.Contains(r.log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, r.log)
			}
		})
	}
	if line := versionLine(); !strings.HasPrefix(line, "agentd "+release+" (commit abc123, ") {
		t.Errorf("agentd version prints %q", line)
	}
}
