// Package version holds the release and the commit that were built.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Release is the version of agentd, for all that needs one: agentd version, /v1/info and
// the name of the distribution. Orchestrators compare it between runs, so it has no
// commit.
const Release = "0.1.0"

// commit is set by the build with -ldflags "-X agentd/internal/base/version.commit=…". A
// plain go build leaves it to what the toolchain recorded.
var commit = ""

// shownRevision is how many characters of a revision are shown.
const shownRevision = 12

// Commit is the commit that the program was built from, "unknown" when nobody recorded
// it.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(recorded(info), "unknown")
}

// recorded is the commit that the toolchain recorded, "" without one.
func recorded(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	var revision, changes string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), shownRevision)]
		case "vcs.modified":
			if s.Value == "true" {
				changes = "-dirty"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changes
}

// Line describes a program: its release, its commit and its platform.
func Line(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", program, Release, Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
