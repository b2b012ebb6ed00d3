package check

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// infoRules are about health, the description of the agent and the other paths for GET.
var infoRules = slices.Concat([]rule{
	one("health/ready", Must, "2", get("/health"), both(ok, sameJSON(`{"status":"ready"}`))),
	one("health/live", May, "2", get("/health?live"), ok),
	chain("health/head", Should, "2", "HEAD works where GET does", step{request{method: http.MethodHead, path: "/v1/info?head"}, ok},
		step{request{method: http.MethodHead, path: "/health"}, ok}),
	one("info/type", Should, "2", get("/v1/info?type"), header("Content-Type", "application/json")),
	about("info/fields", Must, "AgentInfo has only its fields, with their types", func(_ info, x *exchange) bool {
		_, err := protocol.DecodeAgentInfo(x.body)
		return err == nil
	}),
	about("info/version", Must, `protocol_version is "2.0" or absent`, func(i info, _ *exchange) bool {
		return i.Version == "" || i.Version == protocol.Version
	}),
	about("info/agent", Must, "agent_id and agent_version are not empty", func(i info, _ *exchange) bool {
		return i.AgentID != "" && i.AgentVersion != ""
	}),
	about("info/inference", Must, "capabilities.inference is true", func(i info, _ *exchange) bool {
		return i.Capabilities[protocol.CapabilityInference]
	}),
	about("info/kinds", Must, "specialized_coaching is empty without coaching", func(i info, _ *exchange) bool {
		return len(i.Kinds) == 0 || i.Capabilities[protocol.CapabilityCoaching]
	}),
	about("info/session", Must, `coaching_session_version is "1", null or absent`, func(i info, _ *exchange) bool {
		return i.SessionVersion == "" || i.SessionVersion == protocol.CoachingSessionVersion
	}),
	about("info/reason", Should, "coaching_unavailable_reason is there exactly without coaching", func(i info, _ *exchange) bool {
		return (i.Reason == "") == i.Capabilities[protocol.CapabilityCoaching]
	}),
	one("openapi/document", May, "2", get("/openapi.json"), ok),
	one("metrics/text", May, "2", get("/metrics"), both(ok, header("Content-Type", "text/plain"))),
}, with(needToken,
	one("token/health", Should, "2", anonymous("/health?token"), ok),
	one("token/missing", Should, "3", anonymous("/v1/info?token"), status(http.StatusUnauthorized)),
	one("token/wrong", Should, "3", anonymous("/v1/info?wrong", "Authorization: Bearer no-token-of-this-server"),
		status(http.StatusUnauthorized)),
))

// anonymous is get without the token.
func anonymous(path string, header ...string) request {
	return request{method: http.MethodGet, path: path, header: header, anonymous: true}
}

// info is AgentInfo, read as leniently as Go does.
type info struct {
	AgentID        string          `json:"agent_id"`
	AgentVersion   string          `json:"agent_version"`
	Version        string          `json:"protocol_version"`
	Capabilities   map[string]bool `json:"capabilities"`
	Kinds          []string        `json:"specialized_coaching"`
	Resume         bool            `json:"coaching_resume"`
	Reason         string          `json:"coaching_unavailable_reason"`
	SessionVersion string          `json:"coaching_session_version"`
}

// info reads an AgentInfo. Fields of other types stay empty.
func (x *exchange) info() (i info, ok bool) {
	err := json.Unmarshal(x.body, &i)
	return i, x.status == http.StatusOK && (err == nil || i.AgentID != "")
}

// about is a rule about AgentInfo.
func about(id, level, text string, judge func(i info, x *exchange) bool) rule {
	return one(id, level, "2", get("/v1/info?"+strings.TrimPrefix(id, "info/")), right{text: text, judge: func(x *exchange) string {
		i, ok := x.info()
		return when(ok && judge(i, x))
	}})
}

// sameJSON is an answer with a value.
func sameJSON(text string) right {
	return right{text: text, judge: func(x *exchange) string { return when(equal(x.body, []byte(text))) }}
}

// header is an answer with a header whose value begins so.
func header(name, value string) right {
	return right{text: name + ": " + value, judge: func(x *exchange) string {
		return when(strings.HasPrefix(strings.ToLower(x.header.Get(name)), strings.ToLower(value)))
	}}
}

// absent is an answer without a header.
func absent(name string) right {
	return right{text: "no " + name, judge: func(x *exchange) string { return when(x.header.Get(name) == "") }}
}
