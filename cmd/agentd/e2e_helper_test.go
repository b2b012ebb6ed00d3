package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"agentd/internal/base/waittest"
	"agentd/llama/synth"
	"agentd/protocol"
)

// serveModel runs agentd as main does and waits until it is ready.
func serveModel(t *testing.T, args ...string) *running {
	t.Helper()
	return serveWith(t, append([]string{"--threads", "1", "--context-length", "8192"}, args...)...)
}

// serveWith is serveModel without options of the embedded engine.
func serveWith(t *testing.T, args ...string) *running {
	t.Helper()
	r := start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, append([]string{"--port", "0", "--log-format", "json"}, args...), io.Discard, stderr)
	})
	r.health("ready")
	return r
}

// tinyModel is the path of a generated model.
func tinyModel(t *testing.T, arch string) string {
	t.Helper()
	path, err := synth.Tiny("", arch)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shortModel is the path of a model that answers shortly, and now and then with
// something that is a decision: GPT-OSS's tiny vocabulary spells most words
// letter by letter, so that a model without a preference hardly ever gets to an
// end within the few tokens of a test.
func shortModel(t *testing.T, arch string) string {
	t.Helper()
	if arch != synth.GPTOSS {
		return tinyModel(t, arch)
	}
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Bias = maps.Clone(spec.Bias)
	for text, bias := range map[string]float32{"f": 12, "<|end|>": 14, "<|return|>": 14} {
		spec.Bias[text] = bias
	}
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// endlessModel is the path of a model that never ends a text by itself.
func endlessModel(t *testing.T) string {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Bias = map[string]float32{"<|im_end|>": -40, "<|endoftext|>": -40, "<tool_call>": -40}
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// input is an AgentInput as a test writes it; zero fields are left out.
type input struct {
	ID          int64             `json:"id"`
	Instruction map[string]string `json:"instruction"`
	Tools       json.RawMessage   `json:"tools,omitempty"`
	Attributes  json.RawMessage   `json:"attributes,omitempty"`
	Memory      json.RawMessage   `json:"memory,omitempty"`
	NumOutputs  int               `json:"num_outputs,omitempty"`
	ExtraKeys   json.RawMessage   `json:"extra_keys,omitempty"`
}

func user(id int64, content string) input {
	return input{ID: id, Instruction: map[string]string{"type": "user", "content": content}}
}

// greedy asks for deterministic decoding.
func (in input) greedy() input {
	in.ExtraKeys = json.RawMessage(`{"inference_mode": true}`)
	return in
}

func (in input) outputs(n int) input { in.NumOutputs = n; return in }

func (in input) extra(raw string) input { in.ExtraKeys = json.RawMessage(raw); return in }

func (in input) memory(raw string) input { in.Memory = json.RawMessage(raw); return in }

func (in input) tools(raw string) input { in.Tools = json.RawMessage(raw); return in }

// body is the JSON of a request. Raw members keep their bytes.
func body(t *testing.T, requestID string, inputs ...input) string {
	t.Helper()
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{"request_id": requestID, "inputs": inputs}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// ask posts a request and returns its outputs.
func (r *running) ask(requestID string, inputs ...input) []protocol.AgentOutput {
	r.t.Helper()
	outs, err := r.outputs(body(r.t, requestID, inputs...), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return outs
}

// outputs are those to a request with headers. They are checked as a whole against it: count, order, ids and the
// shape of every candidate.
func (r *running) outputs(text string, send http.Header) ([]protocol.AgentOutput, error) {
	status, _, answer, err := exchangeHeader("POST", r.url+"/v1/responses", text, send)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("got %d %.500s, %w\nfor %.500s", status, answer, err, text)
	}
	outs, err := checked(text, answer)
	if err != nil {
		return nil, fmt.Errorf("%w\nin %.2000s", err, answer)
	}
	return outs, nil
}

// answer is the body of a success.
func (r *running) answer(text string, header http.Header) string {
	r.t.Helper()
	status, _, answer, err := exchangeHeader("POST", r.url+"/v1/responses", text, header)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("got %d %.500s, %v\nfor %.500s", status, answer, err, text)
	}
	return answer
}

// checked decodes an answer strictly and validates it against its request.
func checked(text, answer string) ([]protocol.AgentOutput, error) {
	req, err := protocol.DecodeAgentRequest([]byte(text))
	if err != nil {
		return nil, err
	}
	outs, err := protocol.DecodeAgentOutputs([]byte(answer))
	if err != nil {
		return nil, err
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		return nil, err
	}
	for _, o := range outs {
		for _, raw := range o.InternalSteps {
			if _, err := protocol.DecodeInternalStep(raw); err != nil {
				return nil, fmt.Errorf("internal step of %d/%d: %w", o.SourceID, o.CandidateIndex, err)
			}
		}
	}
	return outs, nil
}

// answerOf returns a candidate's decision, or its error.
func answerOf(o protocol.AgentOutput) string {
	if o.Error != nil {
		return o.Error.Code + ": " + o.Error.Message
	}
	return string(o.Output.AppendJSON(nil))
}

// metric reads one number from /metrics, without labels.
func (r *running) metric(name string) float64 {
	r.t.Helper()
	_, page, err := exchange("GET", r.url+"/metrics", "")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return x
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

// becomes waits until a metric has a value.
func (r *running) becomes(name string, want float64) {
	r.t.Helper()
	waittest.Eventually(r.t, fmt.Sprint(name, " is ", want), func() bool { return r.metric(name) == want })
}

// count is the number of history entries of a memory.
func count(t *testing.T, memory protocol.Raw) int {
	t.Helper()
	history, ok := protocol.Get(memory, "history")
	if !ok {
		return 0
	}
	n := 0
	for range protocol.Elements(history) {
		n++
	}
	return n
}
