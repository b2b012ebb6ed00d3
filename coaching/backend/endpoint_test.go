package backend

import (
	"testing"

	"agentd/protocol"
)

func TestEndpointIsWholeURLOrBase(t *testing.T) {
	const openai, ollama, anthropic = protocol.BackendOpenAI, protocol.BackendOllama, protocol.BackendAnthropic
	for _, c := range []struct{ typ, endpoint, want string }{
		{openai, "https://h/v1", "https://h/v1/chat/completions"},
		{openai, "https://h/v1/", "https://h/v1/chat/completions"},
		{openai, "https://h", "https://h/chat/completions"},
		{openai, "https://h:8443/x/openai", "https://h:8443/x/openai/chat/completions"},
		{openai, "https://h/v1/chat/completions", "https://h/v1/chat/completions"},
		{openai, "https://h/v1/chat/completions/", "https://h/v1/chat/completions/"},
		{openai, "https://h/d/chat/completions?api-version=1", "https://h/d/chat/completions?api-version=1"},
		{openai, "https://h/v1?key=a%2Fb", "https://h/v1/chat/completions?key=a%2Fb"},
		{openai, "https://h/a%2Fb/", "https://h/a%2Fb/chat/completions"},
		{openai, "https://h/v1/mychat/completions", "https://h/v1/mychat/completions/chat/completions"},
		{openai, "http://[::1]:9/v1", "http://[::1]:9/v1/chat/completions"},
		{ollama, "http://h:11434", "http://h:11434/v1/chat/completions"},
		{ollama, "http://h:11434/", "http://h:11434/v1/chat/completions"},
		{ollama, "http://h:11434/v1", "http://h:11434/v1/chat/completions"},
		{ollama, "http://h:11434/api/chat", "http://h:11434/api/chat"},
		{ollama, "http://h:11434/v1/chat/completions", "http://h:11434/v1/chat/completions"},
		{anthropic, "https://h", "https://h/v1/messages"},
		{anthropic, "https://h/v1/", "https://h/v1/messages"},
		{anthropic, "https://h/claude", "https://h/claude/v1/messages"},
		{anthropic, "https://h/proxy/messages", "https://h/proxy/messages"},
	} {
		u, err := resolveEndpoint(c.typ, c.endpoint)
		if err != nil {
			t.Errorf("%s %s: %v", c.typ, c.endpoint, err)
		} else if u.String() != c.want || u.Path[0] != '/' {
			t.Errorf("%s %s is posted to %s, want %s", c.typ, c.endpoint, u, c.want)
		}
	}
}

func TestEndpointMustBeAURL(t *testing.T) {
	for _, endpoint := range []string{"", "h/v1", "ftp://h/v1", "http://", "http:///v1", "://", "http://h\x7f/", "unix:/run/x"} {
		if u, err := resolveEndpoint(protocol.BackendOpenAI, endpoint); err == nil {
			t.Errorf("%q is taken for %s", endpoint, u)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add("https://h/v1?x=1#y")
	f.Add("http://u:p@h/api/chat/")
	f.Add("http://h/%zz")
	f.Fuzz(func(t *testing.T, endpoint string) {
		for typ := range basePaths {
			u, err := resolveEndpoint(typ, endpoint)
			if err != nil {
				continue
			}
			again, err := resolveEndpoint(typ, u.String())
			if err != nil || again.String() != u.String() {
				t.Errorf("%q is posted to %q, which itself resolves to %v (%v)", endpoint, u, again, err)
			}
		}
	})
}
