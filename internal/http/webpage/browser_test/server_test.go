package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/protocol"
	"agentd/server"
)

// decider answers each candidate with one call, and one input with an error.
type decider struct{}

func (decider) Decide(_ context.Context, req *protocol.AgentRequest) (outs []protocol.AgentOutput, _ error) {
	in := req.Inputs[0]
	for i := range in.NumOutputs {
		out := protocol.AgentOutput{
			RequestID: req.RequestID, SourceID: in.ID, CandidateIndex: i, Status: protocol.StatusCompleted, Memory: in.Memory,
			InternalSteps: []protocol.Raw{protocol.Raw(`{"id":"step-0","component":"commander","origin":"model","full_prompt":"You are a helpful assistant",` +
				`"input_elements":{"generation":{"prompt_tokens":12,"sum_logprob":-0.693147}},"output_raw":"x"}`)},
			Output: &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{
				{Name: "go_to", Arguments: protocol.Raw(`{"room":"<b>kitchen</b>"}`), TargetRobotName: "rover"},
			}},
		}
		if in.Instruction.Content == "fail" {
			out.Status, out.Output = protocol.StatusError, nil
			out.Error = &protocol.AgentError{Code: "truncated", Message: "too long", Component: "commander"}
		}
		outs = append(outs, out)
	}
	return outs, nil
}

// newPlayground starts a server that accepts tokens, and returns its URL.
func newPlayground(t *testing.T, tokens ...string) string {
	t.Helper()
	return serve(t, decider{}, tokens...)
}

func serve(t *testing.T, inference server.Inference, tokens ...string) string {
	t.Helper()
	s, err := server.New(server.Options{
		Info: protocol.AgentInfo{ProtocolVersion: protocol.Version, AgentID: "full-history-agent", AgentVersion: "1", Capabilities: map[string]bool{
			protocol.CapabilityInference: true, protocol.CapabilityCoaching: false,
		}},
		Log: zerolog.Nop(), Tokens: tokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready(inference)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL
}

func TestPlaygroundFitsTheWindow(t *testing.T) {
	for _, width := range []int64{390, 1300} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(width, scheme), func(t *testing.T) {
				g := newPerson(t).open(newPlayground(t), width, 900)
				g.prefer(scheme)
				g.shows("ready")
				g.press("Decide")
				g.showsIn("#candidates", "Candidate 4")
				g.until(`all("details").forEach(d => d.open = true) ?? true`)
				g.fits("an answer")
				g.accessible("an answer")
			})
		}
	}
}

func TestPlaygroundShowsCandidates(t *testing.T) {
	g := newPerson(t).open(newPlayground(t), 1300, 900)
	g.press("Several robots")
	g.write("Instruction", "scout, go to the hall.")
	g.press("Decide")
	g.showsIn("#candidates", "rover: go_to")
	g.showsIn("#candidates", "<b>kitchen</b>") // text of a model is never HTML
	g.showsIn("#candidates", "50.0 %")
	g.showsIn("#summary", "4 candidates of one prompt with 12 tokens")
	g.press("Prompt of the model")
	g.shows("You are a helpful assistant")
	g.until(`document.querySelector("nav #console").href === "http://127.0.0.1:8890/"`)

	g.write("Instruction", "fail")
	g.press("Decide")
	g.showsIn("#candidates", "truncated")
}

func TestPlaygroundSaysWhatIsWrong(t *testing.T) {
	g := newPerson(t).open(newPlayground(t), 1300, 900)
	for _, test := range []struct{ field, text, want string }{
		{"Tools, a JSON list", "[", "Tools are not JSON"},
		{"Tools, a JSON list", "{}", "inputs.0.tools"},
	} {
		g.write(test.field, test.text)
		g.press("Decide")
		g.showsIn("#problem", test.want)
	}
}

func TestPlaygroundAsksForTheToken(t *testing.T) {
	g := newPerson(t).open(newPlayground(t, "a-token"), 1300, 900)
	g.write("Token", "wrong")
	g.press("Decide")
	g.showsIn("#problem", "token")
	g.write("Token", "a-token")
	g.press("Decide")
	g.showsIn("#candidates", "Candidate 1")
}

func TestCodeOfPlaygroundRuns(t *testing.T) {
	url := newPlayground(t)
	g := newPerson(t).open(url, 1300, 900)
	g.write("Instruction", `rover, don't say "go".`)
	for _, test := range []struct{ button, program, want string }{
		{"Copy as curl", "bash", `"candidate_index":3`},
		{"Copy as Python", "python3", "completed"},
	} {
		t.Run(test.program, func(t *testing.T) {
			g.until(`Object.assign(navigator.clipboard, { writeText: async (text) => { window.copied = text; } }) && true`)
			g.press(test.button)
			code := eval[string](g, `window.copied`)
			command := exec.CommandContext(t.Context(), test.program)
			command.Stdin = strings.NewReader(code)
			out, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(out), test.want) {
				t.Errorf("%v: %s\n%s", err, out, code)
			}
			g.press("Copied")
		})
	}
}
