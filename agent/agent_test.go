package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func TestDecisions(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	g := &script{answers: []string{"Hello", moveTo("x", "b"), "<tool_call>"}}
	outs := run(t, a, g, request(t, `{"num_outputs":3,"memory":{"k":1.0},`+tools+`}`))

	t.Run("a reply is a completed candidate whose memory has the turn", func(t *testing.T) {
		if outs[0].Output == nil || outs[0].Output.Say != "Hello" || len(outs[0].Output.ToolCalls) > 0 {
			t.Errorf("output %+v", outs[0].Output)
		}
		want := `{"k":1.0,"history":[{"author":"USER","content":"Go"},{"author":"MODEL","content":"{\"say\": \"Hello\", \"action\": {}}"}]}`
		if diff := cmp.Diff(want, string(outs[0].Memory)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a call names its robot apart from its arguments", func(t *testing.T) {
		want := &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{Name: "move", Arguments: protocol.Raw(`{"to":"x"}`), TargetRobotName: "b"}}}
		if diff := cmp.Diff(want, outs[1].Output); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(string(outs[1].Memory), `"{\"say\": \"\", \"action\": {\"b\": {\"name\": \"move\", \"arguments\": {\"to\": \"x\"}}}}"`) {
			t.Errorf("memory %s", outs[1].Memory)
		}
	})
	t.Run("an invalid output is an error whose memory is the input's", func(t *testing.T) {
		if e := outs[2].Error; e == nil || e.Code != agent.CodeInvalidOutput || e.Component != agent.ComponentCommander || e.Message == "" {
			t.Errorf("error %+v", e)
		}
		if string(outs[2].Memory) != `{"k":1.0}` || len(outs[2].InternalSteps) != 1 {
			t.Errorf("memory %s, %d steps", outs[2].Memory, len(outs[2].InternalSteps))
		}
	})
	t.Run("all candidates are one generation", func(t *testing.T) {
		if len(g.asked) != 1 || g.asked[0].N != 3 || g.asked[0].MaxTokens != agent.DefaultMaxNewTokens ||
			g.asked[0].Sampling != agent.DefaultSampling || g.asked[0].Grammar == "" {
			t.Errorf("asked %+v", g.asked)
		}
	})
}

func TestInternalStep(t *testing.T) {
	a := newAgent(t, agent.Config{Prompt: format.Options{EnableThinking: true}}, nil)
	g := &script{answers: []string{"<think>\nhm\n</think>\n\nHi \"you\""}}
	out := run(t, a, g, request(t, `{"memory":{"memory_list":["Be kind."],"summary":"So far."},"attributes":{"objects":["cup"],"n":1.50}}`))[0]
	step, err := protocol.DecodeInternalStep(out.InternalSteps[0])
	if err != nil {
		t.Fatal(err)
	}
	prompt := textOf(g.asked[0].Prompt)
	if step.ID != "step-0" || step.Component != "commander" || step.Origin != "model" || step.FullPrompt != prompt {
		t.Errorf("step %+v", step)
	}
	if want := "<think>\nhm\n</think>\n\nHi \"you\"<|im_end|>"; step.OutputRaw != want {
		t.Errorf("output_raw %q, want %q", step.OutputRaw, want)
	}
	var names []string
	for name := range protocol.Members(step.InputElements) {
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"messages", "tools", "permanent_rules", "summary", "task_attributes", "generation"}, names); diff != "" {
		t.Error(diff)
	}
	attributes, _ := protocol.Get(step.InputElements, "task_attributes")
	if string(attributes) != `{"objects":["cup"],"n":1.50}` {
		t.Errorf("task_attributes %s", attributes)
	}
	generation, _ := protocol.Get(step.InputElements, "generation")
	want := fmt.Sprintf(`{"prompt_tokens":100,"cached_tokens":60,"completion_tokens":7,"finish_reason":"stop","seed":%d,"reasoning":"hm","model_call_form":"native"}`, g.asked[0].Seeds[0])
	if diff := cmp.Diff(want, string(generation)); diff != "" {
		t.Error(diff)
	}
}

func TestToolsAreReadAfterAdmission(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	req := request(t, `{"tools":[{}],"num_outputs":2}`)
	plan, err := a.Prepare(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := plan.Completions; n != 2 { // 0 would mean that the tools are known to be unusable
		t.Errorf("%d sequences to be admitted, want 2", n)
	}
	if out := run(t, a, &script{}, req)[0]; out.Error == nil || out.Error.Code != agent.CodeInvalidTools {
		t.Errorf("%+v", out)
	}
}

func TestIgnoreEndTakesAnyOutputAsReply(t *testing.T) {
	a := newAgent(t, agent.Config{IgnoreEnd: true, MaxNewTokens: 7}, nil)
	g := &script{answers: []string{`<tool_call>{"name": "go`}, adjust: func(r *generation.Result) {
		r.Completions[0].Finish, r.Completions[0].Stop = generation.FinishLength, ""
	}}
	outs := run(t, a, g, request(t, `{"tools":[{"name":"go","description":"","parameters":{}}]}`))
	if o := outs[0]; o.Error != nil || o.Output.Say != g.answers[0] || !strings.Contains(string(o.Memory), "tool_call") {
		t.Errorf("got %+v", o)
	}
	if asked := g.asked[0]; asked.Grammar != "" || !asked.IgnoreEnd || asked.MaxTokens != 7 {
		t.Errorf("asked %+v", asked)
	}
}

func TestSeeds(t *testing.T) {
	ask := func(seed uint64, requestID string, inputs ...string) []uint32 {
		g := &script{answers: []string{"x"}}
		req := request(t, inputs...)
		req.RequestID = requestID
		run(t, newAgent(t, agent.Config{Seed: seed}, nil), g, req)
		return g.asked[0].Seeds
	}
	base := ask(1, "r", `{"id":7,"num_outputs":256}`)
	if len(base) != 256 || len(slices.Compact(slices.Sorted(slices.Values(base)))) != 256 {
		t.Error("the seeds of one input must be distinct")
	}
	if !slices.Equal(base, ask(1, "r", `{"id":7,"num_outputs":256}`)) {
		t.Error("the same request must draw the same answers")
	}
	for name, other := range map[string][]uint32{
		"server seed": ask(2, "r", `{"id":7,"num_outputs":256}`),
		"request id":  ask(1, "s", `{"id":7,"num_outputs":256}`),
		"input id":    ask(1, "r", `{"id":8,"num_outputs":256}`),
	} {
		if slices.Equal(base[:8], other[:8]) {
			t.Errorf("another %s must draw other answers", name)
		}
	}
}

// TestCandidateErrors has the codes, components and messages of failures. Other inputs of the batch
// are not affected.
func TestCandidateErrors(t *testing.T) {
	for _, test := range []struct {
		name            string
		cfg             agent.Config
		kit             *fakeKit
		input           string
		err             error
		adjust          func(*generation.Result)
		code, component string
		message         string
	}{
		{name: "context overflow", err: &generation.OverflowError{Prompt: 900, MaxNew: 200, Limit: 1000}, code: "context_overflow", component: "scheduler", message: "900 tokens; with 200 for the answer that is more than the context's 1000; shorten memory.history, set history_max_messages"},
		{name: "a grammar that can't be used", err: fmt.Errorf("%w: %w", generation.ErrGrammar, errors.New("boom")), code: "model_error", component: "scheduler", message: "grammar can't be used: boom"},
		{name: "a model that fails", err: errors.New("boom"), code: "model_error", component: "model", message: "boom"},
		{name: "an error of no known kind", err: errors.New("boom"), code: "model_error", component: "model", message: "boom"},
		{name: "time is up", err: fmt.Errorf("wait: %w", context.DeadlineExceeded), code: "timeout", component: "scheduler", message: "request_timeout"},
		{name: "time is up at an engine", err: &generation.LateError{Engine: "http://e:1"}, code: "timeout", component: "scheduler", message: "engine http://e:1 had not answered: the request's time was up"},
		{name: "the token limit", adjust: func(r *generation.Result) {
			r.Completions[0].Finish, r.Completions[0].Tokens = generation.FinishLength, make([]generation.Token, 99)
		}, code: "truncated", component: "commander", message: "limit of 99 new tokens"},
		{name: "a repetition", adjust: func(r *generation.Result) {
			r.Completions[0].Finish, r.Completions[0].Repeated = generation.FinishRepeat, `"and on" came four times in a row`
		}, code: "truncated", component: "commander", message: `repeated itself: "and on" came four times in a row; the debug option repetition-stop=off`},
		{name: "one completion fails", adjust: func(r *generation.Result) { r.Completions[0].Err = errors.New("boom") }, code: "model_error", component: "model", message: "boom"},
		{name: "completions are missing", adjust: func(r *generation.Result) { r.Completions = nil }, code: "model_error", component: "model", message: "0 completions"},
		{name: "unusable tools", input: `{"tools":[{"name":"x"},{"name":"x"}]}`, code: "invalid_tools", component: "commander", message: `tools[1]: the name "x" is already`},
		{name: "tools without a grammar", input: `{"tools":[{"name":"x","parameters":{"y":{"type":"int","enum":["z"]}}}]}`, code: "invalid_tools", component: "commander", message: "no value fits parameters.y"},
		{name: "a template that fails", cfg: agent.Config{Format: "template", Prompt: format.Options{ChatTemplate: "{{ permanent_rules }}"}}, kit: &fakeKit{templateErr: errors.New("bad loop")}, code: "model_error", component: "commander", message: "bad loop"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.input == "" {
				test.input = `{}`
			}
			g := &script{answers: []string{"fine"}, err: test.err, adjust: test.adjust}
			out := run(t, newAgent(t, test.cfg, test.kit), g, request(t, test.input))[0]
			if out.Error == nil || out.Error.Code != test.code || out.Error.Component != test.component || !strings.Contains(out.Error.Message, test.message) {
				t.Errorf("error %+v, want %s of %s with %q", out.Error, test.code, test.component, test.message)
			}
			if string(out.Memory) != `{}` {
				t.Errorf("memory %s, want the input's", out.Memory)
			}
		})
	}
	t.Run("complete calls before the limit are in the step", func(t *testing.T) {
		cut := func(r *generation.Result) { r.Completions[0].Finish = generation.FinishLength }
		g := &script{answers: []string{"[{\"name\": \"x\", \"arguments\": {\"target_robot\": \"a\"}}, {\"name\":"}, adjust: cut}
		out := run(t, newAgent(t, agent.Config{}, nil), g, request(t, `{"tools":[{"name":"x"}],"attributes":{"known_robots":["a","b"]}}`))[0]
		if want := `"complete_calls":[{"name":"x","arguments":{},"target_robot_name":"a"}]`; out.Error == nil || out.Error.Code != "truncated" || !strings.Contains(string(out.InternalSteps[0]), want) {
			t.Errorf("%+v, want a step with %s", out, want)
		}
	})
	t.Run("what a candidate said before it failed is in its step", func(t *testing.T) {
		for tokens, steps := range map[int]int{0: 0, 3: 1} {
			fails := func(r *generation.Result) {
				c := &r.Completions[0]
				c.Text, c.Stop, c.Tokens, c.Err = "I go to", "", make([]generation.Token, tokens), errors.New("boom")
			}
			out := run(t, newAgent(t, agent.Config{}, nil), &script{answers: []string{"fine"}, adjust: fails}, request(t, `{}`))[0]
			if out.Error == nil || len(out.InternalSteps) != steps {
				t.Fatalf("%d tokens: error %+v, %d steps", tokens, out.Error, len(out.InternalSteps))
			}
			if steps > 0 && !strings.Contains(string(out.InternalSteps[0]), `"output_raw":"I go to"`) {
				t.Errorf("the step is %s", out.InternalSteps[0])
			}
		}
	})
	t.Run("other inputs are served", func(t *testing.T) {
		outs := run(t, newAgent(t, agent.Config{}, nil), &script{answers: []string{"fine"}}, request(t, `{"tools":[{}],"num_outputs":2}`, `{}`))
		if outs[0].Error == nil || outs[1].Error == nil || outs[2].Output == nil {
			t.Errorf("%+v", outs)
		}
	})
	t.Run("a panic costs its input only", func(t *testing.T) {
		a := newAgent(t, agent.Config{Format: "template", Prompt: format.Options{ChatTemplate: "{{ permanent_rules }}"}}, &fakeKit{panicOn: "boom"})
		outs := run(t, a, &script{answers: []string{"fine"}},
			request(t, `{"num_outputs":2,"instruction":{"type":"user","content":"boom"}}`, `{}`))
		if outs[0].Error == nil || outs[0].Error.Code != agent.CodeModelError || outs[1].Error == nil || outs[2].Output == nil {
			t.Errorf("%+v", outs)
		}
	})
	t.Run("without constraint a grammar is not built", func(t *testing.T) {
		g := &script{answers: []string{"fine"}}
		outs := run(t, newAgent(t, agent.Config{Constrain: "off"}, nil), g, request(t, `{"tools":[{"name":"x","parameters":{"y":{"type":"int","enum":["z"]}}}]}`))
		if outs[0].Output == nil || g.asked[0].Grammar != "" {
			t.Errorf("%+v", outs)
		}
	})
}

func TestRunEnds(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	plan := func() *agent.Plan {
		p, err := a.Prepare(request(t, `{}`, `{}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("when the caller goes away", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Run(ctx, plan(), &script{err: context.Canceled}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
	t.Run("when the generator is closed", func(t *testing.T) {
		if _, err := a.Run(t.Context(), plan(), &script{err: generation.ErrClosed}); !errors.Is(err, generation.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
	t.Run("when a completion was cancelled", func(t *testing.T) {
		g := &script{answers: []string{"x"}, adjust: func(r *generation.Result) { r.Completions[0].Err = context.Canceled }}
		if _, err := a.Run(t.Context(), plan(), g); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
}

// TestTimeUpBeforeGeneration: a deadline fails candidates and not the request, also during the
// preparation of prompts.
func TestTimeUpBeforeGeneration(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	plan, err := a.Prepare(request(t, `{}`, `{"extra_keys":{"coaching":{"kind":"replace_say","text":"ok"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	g := &script{answers: []string{"x"}}
	outs, err := a.Run(ctx, plan, g)
	if err != nil || len(g.asked) != 0 {
		t.Fatalf("error %v after %d generations, want none", err, len(g.asked))
	}
	if e := outs[0].Error; e == nil || e.Code != agent.CodeTimeout || e.Component != agent.ComponentScheduler || !strings.Contains(e.Message, "request_timeout") {
		t.Errorf("got %+v, want a timeout", outs[0])
	}
	if outs[1].Status != protocol.StatusCompleted {
		t.Errorf("got %+v; a correction needs no time of the model", outs[1])
	}
}

// TestPrepareProblems: bad memory and options are invalid input, with locations.
func TestPrepareProblems(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	for _, test := range []struct{ name, input, want string }{
		{"history", `{"memory":{"history":{}}}`, "body.inputs[1].memory.history: "},
		{"a rule", `{"memory":{"memory_list":[1]}}`, "body.inputs[1].memory.memory_list[0]: "},
		{"a state", `{"memory":{"_qwen":5}}`, "body.inputs[1].memory._qwen: "},
		{"inference_mode", `{"extra_keys":{"inference_mode":"true"}}`, "body.inputs[1].extra_keys.inference_mode: it must be true"},
		{"a null inference_mode", `{"extra_keys":{"inference_mode":null}}`, "body.inputs[1].extra_keys.inference_mode: it must be true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := a.Prepare(request(t, `{}`, test.input), nil)
			var ps protocol.Problems
			if !errors.As(err, &ps) || len(ps) != 1 || !strings.HasPrefix(ps.All(), test.want) {
				t.Errorf("problems %v, want one at %q", err, test.want)
			}
		})
	}
	_, err := a.Prepare(request(t, `{"memory":{"history":1,"summary":1}}`, `{"extra_keys":{"inference_mode":1}}`), nil)
	var ps protocol.Problems
	if !errors.As(err, &ps) || len(ps) != 3 {
		t.Errorf("every problem of every input must be found: %v", err)
	}
}

// Every tool repeats every robot, and every candidate repeats all tools.
func TestTooLargeAnswerIsRefusedBeforeGeneration(t *testing.T) {
	var g script
	a := newAgent(t, agent.Config{}, nil)
	tools := make([]string, 512)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"t%d"}`, i)
	}
	inputs := func(n int, extra string) []string {
		return slices.Repeat([]string{`{"num_outputs":256,"tools":[` + strings.Join(tools, ",") + `],"attributes":{"known_robots":["` +
			strings.Repeat("r", 2000) + `"]}` + extra + `}`}, n)
	}
	for rule, extra := range map[string]string{
		"corrections": `,"extra_keys":{"coaching":{"kind":"replace_say","text":"x"}}`,
		"generations": ``,
	} {
		plan, err := a.Prepare(request(t, inputs(4, extra)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		outs, err := a.Run(t.Context(), plan, &g)
		var ps protocol.Problems
		if !errors.As(err, &ps) || len(ps) != 1 || !strings.HasPrefix(ps.All(), "body.inputs: would make an answer of about") || outs != nil || len(g.asked) > 0 {
			t.Errorf("%s: %d candidates, %d generations, %v", rule, len(outs), len(g.asked), err)
		}
	}
	plan, err := a.Prepare(request(t, inputs(1, `,"extra_keys":{"coaching":{"kind":"replace_say","text":"x"}}`)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if outs, err := a.Run(t.Context(), plan, &g); err != nil || len(outs) != 256 {
		t.Errorf("a fourth of it: %d candidates, %v", len(outs), err)
	}
}

func TestProblemsOfInputsAreCapped(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", 10000), ",") }
	long := strings.Repeat("x", 1<<16)
	turns := make([]string, 10000)
	for i := range turns {
		turns[i] = fmt.Sprintf(`"a%d":1`, i)
	}
	for rule, input := range map[string]string{
		"rules":            `{"memory":{"memory_list":[` + many("1") + `]}}`,
		"entries":          `{"memory":{"history":[` + many("1") + `]}}`,
		"turns":            `{"memory":{"_qwen":{"version":1,"turns":{` + strings.Join(turns, ",") + `}}}}`,
		"both of them":     `{"memory":{"history":[` + many("{}") + `],"memory_list":[` + many("1") + `]}}`,
		"a name of a turn": `{"memory":{"_qwen":{"version":1,"turns":{"` + long + `":1}}}}`,
	} {
		_, err := a.Prepare(request(t, `{}`, input, input), nil)
		var ps protocol.Problems
		if !errors.As(err, &ps) || len(ps) > protocol.MaxProblems || len(ps.AppendBody(nil)) > 50_000 {
			t.Errorf("%s: %d problems, an answer of %d bytes", rule, len(ps), len(ps.AppendBody(nil)))
			continue
		}
		if last := ps[len(ps)-1]; rule != "a name of a turn" && last.Type != protocol.TypeTooManyProblems {
			t.Errorf("%s: the last problem is %s", rule, last)
		}
	}
}

func TestNewRefusesInvalidConfig(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  agent.Config
		want string
	}{
		{"a format", agent.Config{Format: "mistral"}, `model_format "mistral" is unknown; use auto, qwen, gpt-oss, llama, template`},
		{"nothing to detect by", agent.Config{}, "set Config.Format, or Config.Prompt.ChatTemplate"},
		{"a template format without a template", agent.Config{Format: "magma"}, "no chat template"},
		{"an effort", agent.Config{Format: "harmony", Prompt: format.Options{ReasoningEffort: "huge"}}, `reasoning_effort "huge"`},
		{"an effort of a model without", agent.Config{Format: "qwen", Prompt: format.Options{ReasoningEffort: "high"}}, "Config.Prompt.ReasoningEffort high is for GPT-OSS"},
		{"thinking of a model that always reasons", agent.Config{Format: "gpt-oss", Prompt: format.Options{EnableThinking: true}}, "set Config.Prompt.ReasoningEffort"},
		{"a style", agent.Config{Format: "template", Prompt: format.Options{ChatTemplate: "x", OutputStyle: "xml"}}, `output_style "xml"`},
		{"a style of another format", agent.Config{Prompt: format.Options{Architecture: "qwen3", OutputStyle: "json"}}, "Config.Prompt.OutputStyle json is for Config.Format template, and this model's is qwen"},
		{"mixed output", agent.Config{Format: "qwen", Prompt: format.Options{MixedOutput: "both"}}, `mixed_output "both"`},
		{"constrain", agent.Config{Format: "qwen", Constrain: "yes"}, `constrain is "yes"`},
		{"a negative limit", agent.Config{Format: "qwen", MaxNewTokens: -1}, "max_new_tokens is -1"},
		{"a negative window", agent.Config{Format: "qwen", HistoryMaxMessages: -1}, "history_max_messages is -1"},
		{"sampling without temperature", agent.Config{Format: "qwen", Sampling: generation.Sampling{TopP: 1}}, "temperature above 0"},
		{"thinking of a model that can't", agent.Config{Prompt: format.Options{Architecture: "qwen2", EnableThinking: true}}, "Config.Prompt.EnableThinking: this model's chat template has no thinking"},
		{"thinking of Llama", agent.Config{Format: "llama", Prompt: format.Options{EnableThinking: true}}, "Config.Prompt.EnableThinking: "},
		{"an effort of Llama", agent.Config{Format: "llama", Prompt: format.Options{ReasoningEffort: "high"}}, "this model's format is llama"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := agent.New(test.cfg, &fakeKit{}, new(words)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestCatalogsAreShared: equal tools are prepared once.
func TestCatalogsAreShared(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	g := &script{answers: []string{"x"}}
	for range 3 {
		run(t, a, g, request(t, `{`+tools+`}`, `{`+tools+`}`, `{"tools":[{"name":"move"}]}`))
	}
	grammars := map[string]int{}
	for _, asked := range g.asked {
		grammars[asked.Grammar]++
	}
	if len(grammars) != 2 {
		t.Errorf("%d different grammars, want 2", len(grammars))
	}
	if first := segmentsOf(g.asked[0].Prompt); !bytes.Contains([]byte(first[1].Text), []byte("# Tools")) {
		t.Errorf("the prompt begins with %+v", first[:2])
	}
}

// again is a script that gives its completions before they are complete, the first one twice.
type again struct{ script }

func (s *again) GenerateAll(ctx context.Context, gs []generation.Request, done func(int, *generation.Result, error)) {
	s.script.GenerateAll(ctx, gs, func(i int, r *generation.Result, err error) {
		early := &generation.Result{Completions: slices.Clone(r.Completions)}
		early.Completions[0].Text = "First."
		gs[i].Watch(generation.Event{Result: early})
		early.Completions[0].Text = "Again."
		early.Completions[1].Err = generation.ErrClosed
		gs[i].Watch(generation.Event{Result: early})
		gs[i].Watch(generation.Event{Result: early, Completion: 1}) // an error of the whole request
		done(i, r, err)
	})
}

func TestFirstCompletionOfACandidateCounts(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	plan, err := a.Prepare(request(t, `{"num_outputs":3}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	plan.Watch(func() {}, func(_ int, out *protocol.AgentOutput) {
		said = append(said, fmt.Sprint(out.CandidateIndex, out.Output.Say))
	})
	outs, err := a.Run(t.Context(), plan, &again{script{answers: []string{"Later."}}})
	if want := []string{"0First.", "1Later.", "2Later."}; err != nil || !slices.Equal(said, want) || outs[0].Output.Say != "First." {
		t.Errorf("%q, %v", said, err)
	}
}
