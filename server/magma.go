package server

import (
	"strings"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// pathMagma is the base path for clients of MAGMA's stable packages (magma-core 2.x). It has
// every route. A route differs from the one at the root only where those packages contradict the
// specification: see the callers of forMagma, and docs/protocol.md.
const pathMagma = "/magma"

// basePath is the prefix of a request's route: "" or pathMagma.
func basePath(c *gin.Context) string {
	if strings.HasPrefix(c.FullPath(), pathMagma+"/") {
		return pathMagma
	}
	return ""
}

// forMagma reports whether the path of a request begins with pathMagma.
func forMagma(c *gin.Context) bool { return basePath(c) == pathMagma }

// magmaInfo is the answer of /v1/info there. The schema of 2.x forbids the version of the session
// protocol.
func magmaInfo(info protocol.AgentInfo) *protocol.AgentInfo {
	info.CoachingSessionVersion = ""
	return &info
}

// callsOverSay accepts corrections with both a reply and calls, as 2.x does, and drops the
// reply.
func callsOverSay(req *protocol.AgentRequest) {
	for i := range req.Inputs {
		extra := &req.Inputs[i].ExtraKeys
		if correction, ok := protocol.Get(*extra, keyCoaching); ok {
			*extra = protocol.ReplaceMember(*extra, keyCoaching, protocol.CallsOverSay(correction))
		}
	}
}

// keyCoaching is the member of extra_keys with a correction.
const keyCoaching = "coaching"
