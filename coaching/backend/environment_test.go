package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// serverSecret is in every variable that a provider's own client reads. It belongs to whoever runs the server, not to the client that
// names the endpoint.
const serverSecret = "sk-of-the-server-0bd5"

func TestServerEnvironmentIsNotSent(t *testing.T) {
	elsewhere := scriptedtest.New(t, scriptedtest.Answer(200, chatBody(answer, "stop")))
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET",
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_WEBHOOK_SIGNING_KEY", "ANTHROPIC_PROFILE",
		"ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID", "ANTHROPIC_SERVICE_ACCOUNT_ID", "ANTHROPIC_WORKSPACE_ID",
		"ANTHROPIC_IDENTITY_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
	} {
		t.Setenv(name, serverSecret)
	}
	for _, name := range []string{"OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"} {
		t.Setenv(name, "X-Server: "+serverSecret+"\nAuthorization: Bearer "+serverSecret)
	}
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, elsewhere.URL+"/"+serverSecret)
	}
	config := t.TempDir()
	token := filepath.Join(config, "token")
	if err := os.WriteFile(token, []byte(serverSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANTHROPIC_CONFIG_DIR", config)
	t.Setenv("ANTHROPIC_IDENTITY_TOKEN_FILE", token)

	for name, c := range map[string]struct{ typ, path, body string }{
		"openai":       {protocol.BackendOpenAI, "", chatBody(answer, "stop")},
		"ollama":       {protocol.BackendOllama, "", chatBody(answer, "stop")},
		"ollama's own": {protocol.BackendOllama, ollamaChat, ollamaBody(answer, "stop")},
		"anthropic":    {protocol.BackendAnthropic, "", claudeBody(claudeTool, "tool_use")},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.body))
			def := define(c.typ, s.URL+c.path)
			def.Headers = nil
			if _, err := newBackend(t, def, egress.ClientOptions{}).Ask(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			got := s.Calls()
			if len(got) != 1 {
				t.Fatalf("the named endpoint got %d requests", len(got))
			}
			if sent := mustJSON(t, got[0].Header) + got[0].Target + got[0].Body; strings.Contains(sent, serverSecret) {
				t.Errorf("the server's secret was sent: %s", sent)
			}
			for _, name := range []string{"Authorization", "X-Api-Key", "Openai-Organization", "Openai-Project", "X-Server"} {
				if value := got[0].Header.Get(name); value != "" {
					t.Errorf("%s: %s was sent", name, value)
				}
			}
		})
	}
	if got := elsewhere.Calls(); len(got) != 0 {
		t.Errorf("%d requests went where the environment says", len(got))
	}
}
