package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of agentd, for all that needs one. Orchestrators compare
// it between runs, so it names no commit.
const release = "0.1.0"

// commit is set by the build with -ldflags "-X main.commit=…"; a plain go build
// falls back to what the toolchain recorded.
var commit = ""

// buildCommit is the commit that the program was built from, "unknown" when
// nobody recorded it.
func buildCommit() string {
	if commit != "" {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(recordedCommit(info), "unknown")
}

// recordedCommit is the commit in what the toolchain recorded, "" without one.
func recordedCommit(info *debug.BuildInfo) string {
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

// shownRevision is how many characters of a revision are shown.
const shownRevision = 12

func versionLine() string {
	return fmt.Sprintf("agentd %s (commit %s, %s, %s/%s)", release, buildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
