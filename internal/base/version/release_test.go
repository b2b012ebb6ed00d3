package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFilesNameSameRelease: all that can't import this package.
func TestFilesNameSameRelease(t *testing.T) {
	for file, patterns := range map[string][]string{
		"CHANGELOG.md": {`(?m)^## (\d\S*)`}, // the newest that is released or about to be
		"clients/agentd-magma/src/agentd_magma/__init__.py": {`(?m)^__version__ = "(.*?)"`},
		"clients/python/src/agentd_client/__init__.py":      {`(?m)^__version__ = "(.*?)"`},
		"deploy/helm/agentd/Chart.yaml":                     {`(?m)^version: (\S+)`, `(?m)^appVersion: (\S+)`},
		"deploy/helm/agentd/values-gpu.yaml":                {`(?m)^  tag: (\S+)-cuda$`},
		"deploy/compose.yaml":                               {`\$\{AGENTD_IMAGE:-agentd:([^}]+)\}`},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, pattern := range patterns {
			if found := regexp.MustCompile(pattern).FindSubmatch(text); found == nil {
				t.Errorf("%s: nothing looks like %s", file, pattern)
			} else if string(found[1]) != Release {
				t.Errorf("%s says %s, want %s", file, found[1], Release)
			}
		}
	}
}

// TestDistNamesSameRelease: make reads it out of version.go.
func TestDistNamesSameRelease(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	out, err := exec.CommandContext(t.Context(), "make", "-s", "-n", "-C", "../../..", "dist").CombinedOutput()
	if want := `third_party/dist.sh "` + Release + `" `; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("make dist does not run %s…: %s, %v", want, out, err)
	}
}
