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
	info("info/fields", Must, "AgentInfo has only its fields, with their types", func(i map[string]any) bool {
		_, err := protocol.DecodeAgentInfo([]byte(encode(i)))
		return err == nil
	}),
	info("info/version", Must, `protocol_version is "2.0" or absent`, func(i map[string]any) bool {
		v, there := i["protocol_version"]
		return !there || v == protocol.Version
	}),
	info("info/agent", Must, "agent_id and agent_version are not empty", func(i map[string]any) bool {
		return i["agent_id"] != "" && i["agent_version"] != ""
	}),
	info("info/inference", Must, "capabilities.inference is true", func(i map[string]any) bool {
		return capable(i, protocol.CapabilityInference)
	}),
	info("info/kinds", Must, "specialized_coaching is empty without coaching", func(i map[string]any) bool {
		kinds, _ := i["specialized_coaching"].([]any)
		return len(kinds) == 0 || capable(i, protocol.CapabilityCoaching)
	}),
	info("info/session", Must, `coaching_session_version is "1", null or absent`, func(i map[string]any) bool {
		v := i["coaching_session_version"]
		return v == nil || v == protocol.CoachingSessionVersion
	}),
	info("info/reason", Should, "coaching_unavailable_reason is there exactly without coaching", func(i map[string]any) bool {
		reason, _ := i["coaching_unavailable_reason"].(string)
		return (reason == "") == capable(i, protocol.CapabilityCoaching)
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

// info is a rule about the members of AgentInfo.
func info(id, level, about string, judge func(info map[string]any) bool) rule {
	return one(id, level, "2", get("/v1/info?"+strings.TrimPrefix(id, "info/")), right{text: about, judge: func(x *exchange) string {
		var i map[string]any
		return when(x.decode(&i) == nil && judge(i))
	}})
}

// capable reports whether a capability is true.
func capable(info map[string]any, name string) bool {
	all, _ := info["capabilities"].(map[string]any)
	return all[name] == true
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
