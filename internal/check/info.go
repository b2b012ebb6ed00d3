package check

import (
	"encoding/json"
	"fmt"
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
	info("info/fields", Must, "only the fields of AgentInfo, with their types", func(_ map[string]any, x *exchange) error {
		_, err := protocol.DecodeAgentInfo(x.body)
		return err
	}),
	info("info/version", Must, `protocol_version "2.0", or absent`, func(i map[string]any, _ *exchange) error {
		if v, there := i["protocol_version"]; there && v != protocol.Version {
			return fmt.Errorf("protocol_version is %v", v)
		}
		return nil
	}),
	info("info/agent", Must, "agent_id and agent_version are not empty", func(i map[string]any, _ *exchange) error {
		if i["agent_id"] == "" || i["agent_version"] == "" {
			return fmt.Errorf("agent_id %q, agent_version %q", i["agent_id"], i["agent_version"])
		}
		return nil
	}),
	info("info/inference", Must, "capabilities.inference is true", func(i map[string]any, _ *exchange) error {
		if capability(i, protocol.CapabilityInference) != true {
			return fmt.Errorf("capabilities are %v", i["capabilities"])
		}
		return nil
	}),
	info("info/kinds", Must, "specialized_coaching is empty without capabilities.coaching", func(i map[string]any, _ *exchange) error {
		kinds, _ := i["specialized_coaching"].([]any)
		if len(kinds) > 0 && capability(i, protocol.CapabilityCoaching) != true {
			return fmt.Errorf("specialized_coaching is %v", kinds)
		}
		return nil
	}),
	info("info/session", Must, `coaching_session_version is "1", null or absent`, func(i map[string]any, _ *exchange) error {
		if v := i["coaching_session_version"]; v != nil && v != protocol.CoachingSessionVersion {
			return fmt.Errorf("coaching_session_version is %v", v)
		}
		return nil
	}),
	info("info/reason", Should, "coaching_unavailable_reason exactly without coaching", func(i map[string]any, _ *exchange) error {
		reason, _ := i["coaching_unavailable_reason"].(string)
		if (reason == "") != (capability(i, protocol.CapabilityCoaching) == true) {
			return fmt.Errorf("coaching_unavailable_reason is %q, coaching %v", reason, capability(i, protocol.CapabilityCoaching))
		}
		return nil
	}),
	many("info/stable", Should, "2", "two requests get the same AgentInfo", func(p *probe) {
		first, second := p.send(get("/v1/info?first")), p.send(get("/v1/info?second"))
		if string(first.body) != string(second.body) {
			p.fail("got %s, then %s", first, second)
		}
	}),
	one("openapi/document", May, "2", get("/openapi.json"), both(ok, member("openapi"))),
	one("metrics/text", May, "2", get("/metrics"), both(ok, header("Content-Type", "text/plain"))),
}, with(needToken,
	one("token/health", Should, "2", request{method: http.MethodGet, path: "/health?token", anonymous: true}, ok),
	one("token/missing", Should, "3", request{method: http.MethodGet, path: "/v1/info?token", anonymous: true}, status(http.StatusUnauthorized)),
	one("token/challenge", Should, "3", request{method: http.MethodGet, path: "/v1/info?challenge", anonymous: true}, header("WWW-Authenticate", "Bearer")),
	one("token/wrong", Should, "3", request{
		method: http.MethodGet, path: "/v1/info?wrong", anonymous: true, header: []string{"Authorization: Bearer no-token-of-this-server"},
	}, status(http.StatusUnauthorized)),
))

// info is a rule about the members of AgentInfo.
func info(id, level, about string, judge func(info map[string]any, x *exchange) error) rule {
	name := strings.TrimPrefix(id, "info/")
	return one(id, level, "2", get("/v1/info?"+name), right{about, func(x *exchange) error {
		var i map[string]any
		if err := x.decode(&i); err != nil {
			return fmt.Errorf("got %s", x)
		}
		return judge(i, x)
	}})
}

// capability is one of the capabilities, nil when it is absent.
func capability(info map[string]any, name string) any {
	all, _ := info["capabilities"].(map[string]any)
	return all[name]
}

// sameJSON is an answer with a value.
func sameJSON(text string) right {
	return right{text, func(x *exchange) error {
		var got, want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			return err
		}
		if x.decode(&got) != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %s", x)
		}
		return nil
	}}
}

// member is an answer that is an object with a member.
func member(name string) right {
	return right{"an object with " + name, func(x *exchange) error {
		var got map[string]any
		if x.decode(&got) != nil || got[name] == nil {
			return fmt.Errorf("got %s", x)
		}
		return nil
	}}
}
