package server

import (
	"strings"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// pathMagma is the base path of all routes for MAGMA's stable packages (magma-core 2.x).
// They differ from the root only where those contradict the specification: see forMagma.
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

// magmaInfo is the answer of /v1/info there: 2.x forbids the session protocol's version.
func magmaInfo(info protocol.AgentInfo) *protocol.AgentInfo {
	info.CoachingSessionVersion = ""
	return &info
}

// callsOverSay drops the reply of corrections that also have calls, as 2.x does.
func callsOverSay(req *protocol.AgentRequest) {
	for i := range req.Inputs {
		extra := &req.Inputs[i].ExtraKeys
		if correction, ok := protocol.Get(*extra, keyCoaching); ok {
			*extra = protocol.SetMember(*extra, keyCoaching, protocol.CallsOverSay(correction))
		}
	}
}

const keyCoaching = "coaching" // the member of extra_keys with a correction
