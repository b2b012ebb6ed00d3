package server

import (
	"strings"

	"github.com/gin-gonic/gin"

	"agentd/protocol"
)

// pathMagma is the base path of all routes for MAGMA's stable packages (magma-core 2.x). The
// routes differ only where these packages contradict the specification, see forMagma.
const pathMagma = "/magma"

// basePath returns the prefix of a request's route: "" or pathMagma.
func basePath(c *gin.Context) string {
	if strings.HasPrefix(c.FullPath(), pathMagma+"/") {
		return pathMagma
	}
	return ""
}

// forMagma reports whether the path of a request begins with pathMagma.
func forMagma(c *gin.Context) bool { return basePath(c) == pathMagma }

// magmaInfo returns the answer of /v1/info without the session protocol's version, which 2.x refuses.
func magmaInfo(info protocol.AgentInfo) *protocol.AgentInfo {
	info.CoachingSessionVersion = ""
	return &info
}

// callsOverSay removes the reply of corrections that also have calls, as 2.x does.
func callsOverSay(req *protocol.AgentRequest) {
	for i := range req.Inputs {
		extra := &req.Inputs[i].ExtraKeys
		if correction, ok := protocol.Get(*extra, keyCoaching); ok {
			*extra = protocol.SetMember(*extra, keyCoaching, protocol.CallsOverSay(correction))
		}
	}
}

const keyCoaching = "coaching" // the member of extra_keys with a correction
