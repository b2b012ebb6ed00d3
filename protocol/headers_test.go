package protocol

import (
	"fmt"
	"strings"
	"testing"
)

func TestHeaderValuesAreNeverPrinted(t *testing.T) {
	b := NewCoachingBackend("a", BackendOpenAI)
	b.Headers = Headers{"X-Key": "secret-1", "Authorization": "Bearer secret-2"}
	config := NewCoachingSessionConfig()
	config.Backends = []CoachingBackend{b}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{b.Headers, &b.Headers, b, &b, *config, config.Backends} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", "secret")) {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
	if got := fmt.Sprint(b.Headers); got != "headers{Authorization: ***, X-Key: ***}" {
		t.Errorf("headers print as %s", got)
	}
}
