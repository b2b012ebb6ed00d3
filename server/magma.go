package server

import (
	"strings"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// pathMagma is the base path for the clients of MAGMA's stable packages
// (magma-core 2.x). Every route is there, too, and differs from the one at the root
// only where those packages contradict the specification: see forMagma's users, and
// docs/protocol.md.
const pathMagma = "/magma"

// basePath is what stands before the path of a request's route: "" or pathMagma.
func basePath(c *gin.Context) string {
	if strings.HasPrefix(c.FullPath(), pathMagma+"/") {
		return pathMagma
	}
	return ""
}

// forMagma reports whether a request came under pathMagma.
func forMagma(c *gin.Context) bool { return basePath(c) == pathMagma }

// magmaInfo is what /v1/info says there: the model of 2.x forbids the version of
// the session protocol.
func magmaInfo(info protocol.AgentInfo) *protocol.AgentInfo {
	info.CoachingSessionVersion = ""
	return &info
}

// callsOverSay lets the corrections of a request both speak and call tools, as the
// decisions of 2.x may. The calls count.
func callsOverSay(req *protocol.AgentRequest) {
	for i := range req.Inputs {
		extra := &req.Inputs[i].ExtraKeys
		if correction, ok := protocol.Get(*extra, keyCoaching); ok {
			*extra = protocol.ReplaceMember(*extra, keyCoaching, protocol.CallsOverSay(correction))
		}
	}
}

// keyCoaching is the member of extra_keys that holds a correction.
const keyCoaching = "coaching"
