package coaching

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

func TestLogShowsQuestionTriesAndResult(t *testing.T) {
	script := scriptedtest.New(t, fails(500), says(invalidAnswer1), says(goodAnswer))
	s := newService(t, Options{Now: func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }})
	configure(t, s, "r", llmConfig(openai("gpt", script.URL)))
	res := mustCoach(t, s, newRequest("r", "c"))
	if len(res.Logs) != 1 || res.Logs[0].CoachingType != protocol.CoachingFailure {
		t.Fatalf("logs are %v", res.Logs)
	}
	rest := res.Logs[0].Content
	for _, part := range []string{
		"# Coaching: failure\n", "Run `r`, request `c`, provider llm", "2030-01-02T03:04:05Z", "Bring the cup to the kitchen.", "Target step 7",
		"## Coach `gpt (openai, coach at " + script.URL, "The cup is not in the cellar.",
		"- Try 1: failed", "500", "- Try 2: after a wait of 500ms, answered", "by `coach-1`", "11 prompt tokens, 7 completion tokens",
		invalidAnswer1, "It cannot be used", `"elsewhere" is not one of`, "- Try 3: answered", goodAnswer,
		"## Result: corrected", "The cup is in the kitchen.", "`p`", goodProposal, "Took 0s.",
	} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is missing, or not in its place, in\n%s", part, res.Logs[0].Content)
		}
		rest = after
	}
}

func TestSessionWithoutCaptureLogsHasNone(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		status  string
	}{
		{"corrected", says(goodAnswer), protocol.CoachingCorrected},
		{"abandoned", says(declinedAnswer), protocol.CoachingAbandoned},
		{"error", fails(401), protocol.CoachingFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			script, s := scriptedtest.New(t, c.handler), newService(t, Options{})
			cfg := llmConfig(openai("gpt", script.URL))
			cfg.CaptureLogs = false
			configure(t, s, "r", cfg)
			if res := mustCoach(t, s, newRequest("r", "c")); res.Status != c.status || len(res.Logs) != 0 {
				t.Errorf("%s with logs %v, want %s without", res.Status, res.Logs, c.status)
			}
		})
	}
}

// TestHalfKeyIsNowhere lets coaches repeat a key at the place where their text is cut.
func TestHalfKeyIsNowhere(t *testing.T) {
	behind := strings.Repeat("x", 110) // 120 bytes are quoted
	for name, answer := range map[string]string{
		"a tool":   strings.Replace(goodAnswer, `"say":"I look in the kitchen.","tool_calls":[]`, `"tool_calls":[{"name":"`+behind+secret+`","arguments":{},"target_robot_name":"robot"}]`, 1),
		"a point":  strings.Replace(goodAnswer, `"p"`, `"`+behind+secret+`"`, 1),
		"a reason": strings.Replace(declinedAnswer, "Nobody", strings.Repeat("x", 1325)+secret+strings.Repeat("x", 2000), 1),
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			s := newService(t, Options{Log: zerolog.New(&out).Level(zerolog.TraceLevel), Registerer: out.registry()})
			script, p := scriptedtest.New(t, says(answer)), newPeople(t)
			b := openai("gpt", script.URL)
			b.Headers = protocol.Headers{"Authorization": "Bearer " + secret}
			configure(t, s, "r", llmConfig(b))
			configure(t, s, "people", humanConfig(p.URL+"?key="+secret))
			done := ask(t.Context(), s, newRequest("people", "c"))
			p.wait(t, func() bool { return p.connections() == 1 })
			p.answerAll(protocol.HumanCoachingResponse{Status: protocol.HumanCompleted, Output: &answer})
			got := receive(t, done, "the answer")
			if got.err != nil {
				t.Fatal(got.err)
			}
			out.mustNotHold(t, secret[:8], got.res, mustCoach(t, s, newRequest("r", "c")))
		})
	}
}
