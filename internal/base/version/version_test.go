package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestCommitRecordedByToolchain(t *testing.T) {
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
		"clean checkout":     {setting("vcs.revision", revision, "vcs.modified", "false"), "0123456789ab"},
		"with changes":       {setting("vcs.modified", "true", "vcs.revision", revision), "0123456789ab-dirty"},
		"short revision":     {setting("vcs.revision", "12"), "12"},
		"no version control": {setting("vcs.modified", "true"), ""},
		"nothing recorded":   {nil, ""},
	} {
		if got := recorded(test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestLineNamesReleaseAndCommit(t *testing.T) {
	commit = "abc123"
	defer func() { commit = "" }()
	if line := Line("agentd"); !strings.HasPrefix(line, "agentd "+Release+" (commit abc123, ") {
		t.Errorf("got %q", line)
	}
}
