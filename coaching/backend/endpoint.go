package backend

import (
	"fmt"
	"net/url"
	"strings"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// ollamaChat ends the path of an endpoint that speaks Ollama's own API.
const ollamaChat = "/api/chat"

// wholePaths are how the path of an endpoint ends that is used as it is. Any other endpoint is a base.
var wholePaths = []string{"/chat/completions", ollamaChat, "/messages"}

// basePaths are what a base lacks, by type.
var basePaths = map[string]string{
	protocol.BackendOpenAI:    "/chat/completions",
	protocol.BackendOllama:    "/v1/chat/completions",
	protocol.BackendAnthropic: "/v1/messages",
}

// resolveEndpoint returns the URL that requests of a type are posted to. Its query is kept: some services take the
// version of their API there.
func resolveEndpoint(typ, endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// The parser's error repeats the URL, and with it a password.
		return nil, fmt.Errorf("endpoint %q is no URL: use http://host/path or https://host/path", egress.SafeURL(endpoint))
	}
	u.Fragment, u.RawFragment = "", ""
	path := strings.TrimRight(u.Path, "/")
	for _, whole := range wholePaths {
		if strings.HasSuffix(path, whole) {
			return u, nil
		}
	}
	rest := basePaths[typ]
	if strings.HasSuffix(path, "/v1") {
		// People copy the base with its version, and no server has a /v1/v1.
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
