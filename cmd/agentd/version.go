package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build with -ldflags "-X main.version=…"; a plain go
// build falls back to what the toolchain recorded.
var version = ""

// agentVersion is the version reported by /v1/info and /metrics.
func agentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+changes"
			}
		}
	}
	if len(revision) >= 12 {
		return "devel-" + revision[:12] + modified
	}
	return "devel"
}

func versionLine() string {
	return fmt.Sprintf("agentd %s (%s, %s/%s)", agentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
