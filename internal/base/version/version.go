// Package version has the release and the commit of this program.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Release is the version of agentd in agentd version, /v1/info and the name of the distribution. Orchestrators compare
// it between runs, so it does not contain the commit.
const Release = "0.1.0"

// commit is set by the build with -ldflags "-X agentd/internal/base/version.commit=…". After a
// plain go build, Commit uses what the toolchain recorded.
var commit = ""

// shownRevision is the number of characters of a shown revision.
const shownRevision = 12

// Commit returns the commit from which the program was built, "unknown" if it was not recorded.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(recorded(info), "unknown")
}

// recorded returns the commit that the Go toolchain recorded, "" without one.
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

// Line returns a line with a program's name, release, commit and platform.
func Line(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", program, Release, Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
