package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentd/agent"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeKit is a model API without a model.
type fakeKit struct {
	templateErr error  // of all conversations but the plain one that a template is tried with
	rendered    string // what RenderTemplate returns; "" lists the variables
	panicOn     string // a variable's text on which RenderTemplate panics
}

func (k *fakeKit) SpecialTokens() []string {
	return []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<think>", "</think>",
		"<tool_response>", "</tool_response>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>", "<|constrain|>",
		"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"}
}

func (k *fakeKit) RenderTemplate(vars []byte) (string, error) {
	if k.panicOn != "" && strings.Contains(string(vars), k.panicOn) {
		panic(k.panicOn)
	}
	if k.templateErr != nil && !strings.Contains(string(vars), `"Hello"`) {
		return "", k.templateErr
	}
	if k.rendered != "" {
		return k.rendered, nil
	}
	return "<|im_start|>" + string(vars) + "<|im_end|>", nil
}

// script is a generator that answers from a list, and remembers what was asked.
type script struct {
	answers []string // in turn, for all completions of all generations
	err     error
	adjust  func(*generation.Result)

	mu    sync.Mutex
	asked []generation.Request
	next  int
}

func (s *script) GenerateAll(_ context.Context, gs []generation.Request, done func(int, *generation.Result, error)) {
	each(gs, s.generate, done)
}

func (*script) Keep(int) {}

// each answers generations on goroutines of their own.
func each(gs []generation.Request, one func(generation.Request) (*generation.Result, error), done func(int, *generation.Result, error)) {
	var wg sync.WaitGroup
	for i, g := range gs {
		wg.Go(func() {
			r, err := one(g)
			done(i, r, err)
		})
	}
	wg.Wait()
}

func (s *script) generate(g generation.Request) (*generation.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, g)
	if s.err != nil {
		return nil, s.err
	}
	r := &generation.Result{PromptTokens: 100, CachedTokens: 60}
	for range g.N {
		r.Completions = append(r.Completions, generation.Completion{
			Text: s.answers[s.next%len(s.answers)], Stop: "<|im_end|>", Tokens: make([]generation.Token, 7), Finish: generation.FinishStop,
		})
		s.next++
	}
	if s.adjust != nil {
		s.adjust(r)
	}
	return r, nil
}

func newAgent(t testing.TB, cfg agent.Config, kit *fakeKit) *agent.Agent {
	t.Helper()
	return agentWith(t, cfg, kit, new(words))
}

func agentWith(t testing.TB, cfg agent.Config, kit *fakeKit, vocab agent.Vocabulary) *agent.Agent {
	t.Helper()
	if cfg.Format == "" && cfg.Prompt.ChatTemplate == "" && cfg.Prompt.Architecture == "" {
		cfg.Prompt.Architecture = "qwen3"
	}
	if kit == nil {
		kit = &fakeKit{}
	}
	a, err := agent.New(cfg, kit, vocab)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// request wraps inputs, which may lack id and instruction, in a request.
func request(t testing.TB, inputs ...string) *protocol.AgentRequest {
	t.Helper()
	for i, in := range inputs {
		for _, field := range []string{fmt.Sprintf(`"id":%d`, i), `"instruction":{"type":"user","content":"Go"}`} {
			name, _, _ := strings.Cut(field, ":")
			if !strings.Contains(in, name+":") {
				in = strings.TrimSuffix(in, "}")
				if in != "{" {
					in += ","
				}
				in += field + "}"
			}
		}
		inputs[i] = in
	}
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[` + strings.Join(inputs, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// run prepares and runs a request and checks its response against it.
func run(t testing.TB, a *agent.Agent, g agent.Generator, req *protocol.AgentRequest) []protocol.AgentOutput {
	t.Helper()
	plan, err := a.Prepare(req, nil)
	if err != nil {
		var ps protocol.Problems
		if errors.As(err, &ps) {
			t.Fatal(ps.All())
		}
		t.Fatal(err)
	}
	outs, err := a.Run(t.Context(), plan, g)
	if err != nil {
		t.Fatal(err)
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		t.Fatalf("invalid response: %v", err)
	}
	for _, out := range outs {
		for _, step := range out.InternalSteps {
			if _, err := protocol.DecodeInternalStep(step); err != nil {
				t.Errorf("an exporter rejects the internal step: %v", err)
			}
		}
	}
	return outs
}

const tools = `"tools":[{"name":"move","description":"Move.","parameters":{"to":{"type":"str","description":"Where"}}},{"name":"look","description":"Look."}],"attributes":{"known_robots":["a","b"]}`

func moveTo(place, robot string) string {
	return `<tool_call>` + "\n" + `{"name": "move", "arguments": {"to": "` + place + `", "target_robot": "` + robot + `"}}` + "\n</tool_call>"
}
