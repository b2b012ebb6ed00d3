package check

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"agentd/protocol"
)

// infoRules are about health, the description of the agent and the other paths for GET.
var infoRules = slices.Concat([]rule{
	one("health/ready", Must, "2", get("/health"), both(ok, sameJSON(`{"status":"ready"}`))),
	one("health/type", Should, "2", get("/health?type"), header("Content-Type", "application/json")),
	one("health/live", May, "2", get("/health?live"), ok),
	one("health/head", May, "2", request{method: http.MethodHead, path: "/health"}, ok),
	one("info/answered", Must, "2", get("/v1/info"), ok),
	one("info/type", Should, "2", get("/v1/info?type"), header("Content-Type", "application/json")),
	one("info/head", May, "2", request{method: http.MethodHead, path: "/v1/info"}, ok),
	info("info/fields", Must, "AgentInfo has only its fields, with their types", func(i members) bool {
		_, err := protocol.DecodeAgentInfo([]byte(encode(i)))
		return err == nil
	}),
	info("info/version", Must, `protocol_version is "2.0" or absent`, func(i members) bool {
		v, there := i["protocol_version"]
		return !there || v == protocol.Version
	}),
	info("info/agent", Must, "agent_id and agent_version are not empty", func(i members) bool {
		return i["agent_id"] != "" && i["agent_version"] != ""
	}),
	info("info/inference", Must, "capabilities.inference is true", func(i members) bool { return i.can(protocol.CapabilityInference) }),
	info("info/kinds", Must, "specialized_coaching is empty without coaching", func(i members) bool {
		kinds, _ := i["specialized_coaching"].([]any)
		return len(kinds) == 0 || i.can(protocol.CapabilityCoaching)
	}),
	info("info/session", Must, `coaching_session_version is "1", null or absent`, func(i members) bool {
		v := i["coaching_session_version"]
		return v == nil || v == protocol.CoachingSessionVersion
	}),
	info("info/reason", Should, "coaching_unavailable_reason is there exactly without coaching", func(i members) bool {
		reason, _ := i["coaching_unavailable_reason"].(string)
		return (reason == "") == i.can(protocol.CapabilityCoaching)
	}),
	one("openapi/document", May, "2", get("/openapi.json"), ok),
	one("openapi/head", May, "2", request{method: http.MethodHead, path: "/openapi.json"}, ok),
	one("metrics/head", May, "2", request{method: http.MethodHead, path: "/metrics"}, ok),
	one("metrics/text", May, "2", get("/metrics"), both(ok, header("Content-Type", "text/plain"))),
}, with(needToken,
	one("token/health", Should, "2", anonymous("/health?token"), ok),
	one("token/missing", Should, "3", anonymous("/v1/info?token"), status(http.StatusUnauthorized)),
	one("token/challenge", Should, "3", anonymous("/v1/info?challenge"), header("WWW-Authenticate", "Bearer")),
	one("token/wrong", Should, "3", anonymous("/v1/info?wrong", "Authorization: Bearer no-token-of-this-server"),
		status(http.StatusUnauthorized)),
))

// anonymous is get without the token.
func anonymous(path string, header ...string) request {
	return request{method: http.MethodGet, path: path, header: header, anonymous: true}
}

// members are the members of AgentInfo.
type members map[string]any

// can reports whether a capability is true.
func (i members) can(capability string) bool {
	all, _ := i["capabilities"].(map[string]any)
	return all[capability] == true
}

// info is a rule about AgentInfo.
func info(id, level, about string, judge func(i members) bool) rule {
	return one(id, level, "2", get("/v1/info?"+strings.TrimPrefix(id, "info/")), right{text: about, judge: func(x *exchange) string {
		var i members
		return when(x.decode(&i) == nil && judge(i))
	}})
}

// sameJSON is an answer with a value.
func sameJSON(text string) right {
	return right{text: text, judge: func(x *exchange) string { return when(same(x.body, []byte(text))) }}
}

// same compares two JSON texts by their values.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
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
