package backend

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// ollamaChat ends the path of an endpoint that speaks Ollama's own API.
const ollamaChat = "/api/chat"

// wholePaths end the paths of complete endpoints. Any other endpoint is a base.
var wholePaths = []string{"/chat/completions", ollamaChat, "/messages"}

// basePaths complete a base, by type.
var basePaths = map[string]string{
	protocol.BackendOpenAI:    "/chat/completions",
	protocol.BackendOllama:    "/v1/chat/completions",
	protocol.BackendAnthropic: "/v1/messages",
}

// resolveEndpoint returns the URL for requests of a type. It keeps the query, where some services take the API version.
func resolveEndpoint(typ, endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// The parser's error repeats the URL, and with it a password.
		return nil, fmt.Errorf("endpoint %q is not a URL: use http://host/path or https://host/path", egress.SafeURL(endpoint))
	}
	u.Fragment, u.RawFragment = "", ""
	path := strings.TrimRight(u.Path, "/")
	if slices.ContainsFunc(wholePaths, func(whole string) bool { return strings.HasSuffix(path, whole) }) {
		return u, nil
	}
	rest := basePaths[typ]
	if strings.HasSuffix(path, "/v1") {
		// People often include the version in the base. No server has /v1/v1.
		rest = strings.TrimPrefix(rest, "/v1")
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would make a path without its slash, which prints well and is a bad request
	}
	return u.JoinPath(rest), nil
}

// speaksOllama reports whether an endpoint takes Ollama's own bodies rather than chat completions.
func speaksOllama(u *url.URL) bool {
	return strings.HasSuffix(strings.TrimRight(u.Path, "/"), ollamaChat)
}
