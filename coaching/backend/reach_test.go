package backend

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// cutOff are answers that ended at the limit of tokens.
var cutOff = map[string]string{
	protocol.BackendOpenAI: chatBody("{", "length"), protocol.BackendOllama: ollamaBody("{", "length"), protocol.BackendAnthropic: claudeBody(`{"type":"text","text":"{"}`, "max_tokens"),
}

func TestReachReportsUsableBackends(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc // nil: one of the API's
		says   string           // "" when the backend can be used
	}{
		"an answer":                     {nil, ""},
		"an answer that was cut off":    {nil, ""},
		"a busy model":                  {scriptedtest.Answer(429, ""), ""},
		"a model that loads":            {scriptedtest.Answer(503, `{"error":{"message":"Loading model"}}`), ""},
		"a limit that it does not take": {scriptedtest.Answer(400, `{"error":{"message":"could not finish within the limit"}}`), ""},
		"a wrong key":                   {scriptedtest.Answer(401, `{"error":{"message":"wrong key `+key+`"}}`), "(401 Unauthorized): wrong key ***"},
		"a model that is not there":     {scriptedtest.Answer(404, `{"error":"model not found"}`), "model not found"},
		"a broken gateway":              {scriptedtest.Answer(502, "<html>"), "502"},
		"another server":                {scriptedtest.Answer(200, `{"hello":"world"}`), "not what this kind of endpoint answers"},
		"a redirect":                    {scriptedtest.Answer(307, "", "Location", "http://127.0.0.1:1/"), "redirect"},
		"a broken connection":           {broken(reset), "cannot reach the model"},
		"no answer in time":             {hang, "nothing within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, a api) {
				answer, timeout := c.answer, time.Minute
				switch name {
				case "an answer":
					answer = scriptedtest.Answer(200, a.good)
				case "an answer that was cut off":
					answer = scriptedtest.Answer(200, cutOff[a.typ])
				case "no answer in time":
					timeout = 300 * time.Millisecond // the call must have arrived
				}
				s := scriptedtest.New(t, answer)
				err := Reach(t.Context(), newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}), timeout)
				if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("got %v, want %q", err, c.says)
				}
				if calls := s.Calls(); len(calls) != 1 {
					t.Errorf("%d calls, want 1", len(calls))
				} else if len(calls[0].Body) > 600 || calls[0].Header.Get("Authorization") != "Bearer "+key {
					t.Errorf("the call is not short, or lacks its header: %+v", calls[0])
				}
			})
		})
	}
}

// TestReachKeepsLearnedMode: it asks for no schema, and the
// backend's way of asking for one stays untried.
func TestReachKeepsLearnedMode(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(200, chatBody("hello", "stop")), scriptedtest.Answer(200, chatBody(answer, "stop")))
	b := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{})
	if err := Reach(t.Context(), b, time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := b.Ask(t.Context(), question())
	if err != nil || got.Mode != ModeSchema {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReachSkipsLocalModel(t *testing.T) {
	asked := localFunc(func(context.Context, Question) (Answer, error) { return Answer{}, errors.New("asked") })
	b, err := New(protocol.NewCoachingBackend("own", protocol.BackendLocal), Options{Local: asked})
	if err != nil {
		t.Fatal(err)
	}
	if err := Reach(t.Context(), b, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestReachEndsWithItsContext(t *testing.T) {
	s := scriptedtest.New(t, hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Reach(ctx, newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}), time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// localFunc is a model of the server that answers with a function.
type localFunc func(context.Context, Question) (Answer, error)

func (f localFunc) Ask(ctx context.Context, q Question) (Answer, error) { return f(ctx, q) }
func (localFunc) Window() int                                           { return 100 }
