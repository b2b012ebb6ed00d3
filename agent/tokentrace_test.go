package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/agent"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// letters is a vocabulary with a token for each byte and for each special text.
type letters struct{}

var specials = []string{"<|im_start|>", "<|im_end|>"}

func (letters) Tokenize(text string, _, _ bool) (ids []generation.Token, err error) {
	for i := range len(text) {
		ids = append(ids, generation.Token(text[i]))
	}
	return ids, nil
}

func (letters) Find(piece string) (generation.Token, bool) {
	i := slices.Index(specials, piece)
	return generation.Token(256 + i), i >= 0
}

func (letters) AddBOS() bool          { return false }
func (letters) BOS() generation.Token { return -1 }
func (letters) LongestPiece() int     { return 1 }
func (letters) Size() int             { return 256 + len(specials) }

func (letters) Detokenize(ids []generation.Token, _ bool) string {
	var b strings.Builder
	for _, id := range ids {
		if id < 256 {
			b.WriteByte(byte(id))
		} else {
			b.WriteString(specials[id-256])
		}
	}
	return b.String()
}

// traced is the part of a step's generation that extra_keys.return adds.
type traced struct {
	Version    *string            `json:"model_version"`
	Prompt     []generation.Token `json:"prompt_token_ids"`
	Tokens     []generation.Token `json:"token_ids"`
	Differs    *int               `json:"next_prompt_differs_at"`
	Logprobs   []*float64         `json:"logprobs"`
	Masked     []*float64         `json:"masked"`
	Forced     []int              `json:"forced"`
	Drafted    []int              `json:"drafted"`
	SumLogprob *float64           `json:"sum_logprob"`
}

// traceOf runs an input whose answer is given, and returns what its step reports. adjust may be nil.
func traceOf(t *testing.T, cfg agent.Config, input, answer string, adjust func(*generation.Completion)) (*script, traced, protocol.AgentOutput) {
	t.Helper()
	g := &script{answers: []string{answer}, adjust: func(r *generation.Result) {
		for i := range r.Completions {
			c := &r.Completions[i]
			c.Tokens, _ = letters{}.Tokenize(c.Text, false, false)
			c.StopToken = 257
			if adjust != nil {
				adjust(c)
			}
		}
	}}
	out := run(t, agentWith(t, cfg, nil, letters{}), g, request(t, input))[0]
	var step struct {
		Elements struct {
			Generation traced `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	return g, step.Elements.Generation, out
}

func TestReturnAddsTokensAndLogprobs(t *testing.T) {
	cfg := agent.Config{ModelVersion: func(context.Context) (string, error) { return "v1", nil }}
	cfg.Prompt.Architecture = "qwen2"
	g, got, _ := traceOf(t, cfg, `{"extra_keys":{"return":["token_ids","logprobs"]}}`, "Hi", func(c *generation.Completion) {
		c.Scores = []generation.Score{{Logprob: -1.5, Masked: -0.5}, {Logprob: -2, Drafted: true}, {Logprob: -0.25}}
	})
	if !g.asked[0].Scores {
		t.Error("the engine was not asked for scores")
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"token_ids":[72,105,257],"next_prompt_differs_at":null,"logprobs":[-1.5,-2,-0.25],"masked":[-0.5,0,0],"forced":[],"drafted":[1],"sum_logprob":-3.75}`
	if !strings.HasPrefix(string(text), `{"model_version":"v1","prompt_token_ids":[256,`) || !strings.HasSuffix(string(text), want) {
		t.Errorf("got %s, want %s at the end", text, want)
	}
	if !slices.Equal(got.Prompt, g.asked[0].Prompt) {
		t.Error("the prompt's ids are not those that the engine got")
	}
}

func TestReturnAddsWhatTheMaskLeft(t *testing.T) {
	g, _, out := traceOf(t, agent.Config{}, `{"extra_keys":{"return":["sampling_mask"]}}`, "Hi", func(c *generation.Completion) {
		c.Scores = []generation.Score{{Mask: []generation.Token{4, 72}}, {Mask: nil}, {Mask: []generation.Token{257}}}
	})
	if p := g.asked[0]; !p.Scores || !p.Masks {
		t.Errorf("the engine was asked for %+v", p.Params)
	}
	if text := string(out.InternalSteps[0]); !strings.Contains(text, `,"sampling_mask":[[4,72],null,[257]]}`) || strings.Contains(text, "masked") {
		t.Errorf("got %s", text)
	}
	_, err := newAgent(t, agent.Config{NoMasks: "the engine has none"}, nil).Prepare(request(t, `{"extra_keys":{"return":["sampling_mask"]}}`), nil)
	if err == nil || !strings.Contains(err.Error(), "the engine has none; leave sampling_mask out") {
		t.Error(err)
	}
}

func TestVersionIsThatOfTheEngineThatAnswered(t *testing.T) {
	cfg := agent.Config{ModelVersion: func(context.Context) (string, error) { return "before", nil }}
	for input, want := range map[string]bool{`{"extra_keys":{"return":["token_ids"]}}`: true, `{}`: false} {
		g := &script{answers: []string{"Hi"}, adjust: func(r *generation.Result) { r.Version = "now" }}
		out := run(t, agentWith(t, cfg, nil, letters{}), g, request(t, input))[0]
		step := string(out.InternalSteps[0])
		if strings.Contains(step, `"model_version":"now"`) != want || strings.Contains(step, "before") {
			t.Errorf("%s: the step is %s", input, step)
		}
	}
}

// TestTokensWithoutALogprobAreLeftOutOfTheSum: forced ones, and ones that a client sent to be continued.
func TestTokensWithoutALogprobAreLeftOutOfTheSum(t *testing.T) {
	for forced, want := range map[bool]string{true: "[1]", false: "[]"} {
		g, got, _ := traceOf(t, agent.Config{}, `{"extra_keys":{"return":["logprobs"]}}`, "Hi", func(c *generation.Completion) {
			c.Scores = []generation.Score{{Logprob: -1.5, Masked: -0.5}, {Logprob: float32(math.NaN()), Forced: forced}, {Logprob: -0.25}}
		})
		if !g.asked[0].Scores {
			t.Errorf("the engine was asked for %+v", g.asked[0].Params)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if want := `"logprobs":[-1.5,null,-0.25],"masked":[-0.5,0,0],"forced":` + want + `,"drafted":[],"sum_logprob":-1.75}`; !strings.HasSuffix(string(text), want) {
			t.Errorf("got %s, want %s at the end", text, want)
		}
	}
}

func TestUnknownLogprobsAreNull(t *testing.T) {
	_, got, _ := traceOf(t, agent.Config{}, `{"extra_keys":{"return":["logprobs"]}}`, "Hi", func(c *generation.Completion) {
		unknown := float32(math.NaN())
		c.OnlyLogprobs, c.Scores = true, []generation.Score{{Logprob: -1, Masked: math.NaN()}, {Logprob: unknown, Masked: math.NaN()}, {Logprob: -1, Masked: math.NaN()}}
	})
	if len(got.Logprobs) != 3 || got.Logprobs[1] != nil || got.SumLogprob == nil || *got.SumLogprob != -2 || got.Masked != nil || got.Forced != nil || got.Tokens != nil {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutReturnStepsTellNoTokens(t *testing.T) {
	cfg := agent.Config{ModelVersion: func(context.Context) (string, error) { return "", errors.New("was asked") }}
	for _, input := range []string{`{}`, `{"extra_keys":{"return":[]}}`} {
		g, got, _ := traceOf(t, cfg, input, "Hi", nil)
		if text, err := json.Marshal(got); err != nil || string(text) != `{"model_version":null,"prompt_token_ids":null,"token_ids":null,"next_prompt_differs_at":null,"logprobs":null,"masked":null,"forced":null,"drafted":null,"sum_logprob":null}` || g.asked[0].Scores {
			t.Errorf("%s: got %s, %v", input, text, err)
		}
	}
}

func TestReturnProblemsNameTheField(t *testing.T) {
	for _, test := range []struct{ name, input, none, want string }{
		{"no list", `{"extra_keys":{"return":"token_ids"}}`, "", "body.inputs[0].extra_keys.return: it must be a list"},
		{"null", `{"extra_keys":{"return":null}}`, "", "body.inputs[0].extra_keys.return: it must be a list"},
		{"an unknown name", `{"extra_keys":{"return":["logprobs","top_logprobs"]}}`, "", `body.inputs[0].extra_keys.return[1]: it must be "token_ids", "logprobs" or "sampling_mask"`},
		{"no text", `{"extra_keys":{"return":[1]}}`, "", `body.inputs[0].extra_keys.return[0]: it must be "token_ids", "logprobs" or "sampling_mask"`},
		{"forced ones", `{"extra_keys":{"return":["forced_logprobs"]}}`, "", `body.inputs[0].extra_keys.return[0]: it must be "token_ids", "logprobs" or "sampling_mask"`},
		{"an engine without", `{"extra_keys":{"return":["token_ids","logprobs"]}}`, "the engine has none", "body.inputs[0].extra_keys.return[1]: the engine has none; leave logprobs out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newAgent(t, agent.Config{NoLogprobs: test.none}, nil).Prepare(request(t, test.input), nil)
			var ps protocol.Problems
			if !errors.As(err, &ps) || len(ps) != 1 || !strings.HasPrefix(ps.All(), test.want) {
				t.Errorf("problems %v, want one at %q", err, test.want)
			}
		})
	}
}

// The next prompt begins with all tokens, also where the format would write the answer in another way.
func TestNextPromptBeginsWithTheTokens(t *testing.T) {
	const ids, move = `"extra_keys":{"return":["token_ids"]}`, `"tools":[{"name":"move","description":"Move.","parameters":{"to":{"type":"str","description":"Where"}}}]`
	call := func(arguments string) string {
		return "<tool_call>\n{\"name\": \"move\", \"arguments\": " + arguments + "}\n</tool_call>"
	}
	for _, test := range []struct{ name, arch, input, answer string }{
		{"a reply", "qwen2", `{` + ids + `}`, "Hello there"},
		{"calls", "qwen2", `{` + ids + `,` + move + `}`, call(`{"to": "x", "target_robot": "a"}`)},
		{"calls with other spaces", "qwen2", `{` + ids + `,` + move + `}`, call(`{"to":  "x", "target_robot": "a"}`)},
		{"attributes at the instruction", "qwen2", `{` + ids + `,"attributes":{"time":5}}`, "Hello"},
		{"an empty thought", "qwen3", `{` + ids + `}`, "Hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cfg agent.Config
			cfg.Prompt.Architecture = test.arch
			_, got, out := traceOf(t, cfg, test.input, test.answer, nil)
			if out.Error != nil || got.Differs != nil {
				t.Errorf("it differs at %v, %v", got.Differs, out.Error)
			}
		})
	}
}

// Where the oldest messages are hidden, the next prompt is text, and the step says where it differs.
func TestNextPromptDiffersWhereMessagesAreHidden(t *testing.T) {
	cfg := agent.Config{HistoryMaxMessages: 1}
	_, got, out := traceOf(t, cfg, `{"extra_keys":{"return":["token_ids"]}}`, "Hello", nil)
	if out.Error != nil || got.Differs == nil {
		t.Errorf("it differs at %v, %v; want where the history is cut", got.Differs, out.Error)
	}
}

// counted counts the texts that it makes tokens of.
type counted struct {
	letters
	texts *atomic.Int64
}

func (c counted) Tokenize(text string, add, special bool) ([]generation.Token, error) {
	c.texts.Add(1)
	return c.letters.Tokenize(text, add, special)
}

func TestEqualCandidatesMakeTheNextPromptOnce(t *testing.T) {
	const exact, rewritten = `{"to": "x", "target_robot": "a"}`, `{"to":  "x", "target_robot": "a"}`
	texts := map[string]int64{}
	for name, calls := range map[string][]string{
		"both answers once":  {exact, rewritten},
		"both answers twice": {exact, rewritten, rewritten, exact},
	} {
		g := &script{adjust: func(r *generation.Result) {
			for i := range r.Completions {
				c := &r.Completions[i]
				c.Tokens, _ = letters{}.Tokenize(c.Text, false, false)
				c.StopToken = 257
			}
		}}
		for _, c := range calls {
			g.answers = append(g.answers, "<tool_call>\n{\"name\": \"move\", \"arguments\": "+c+"}\n</tool_call>")
		}
		var cfg agent.Config
		cfg.Prompt.Architecture = "qwen2"
		vocab := counted{texts: new(atomic.Int64)}
		outs := run(t, agentWith(t, cfg, nil, vocab), g, request(t, fmt.Sprintf(`{"num_outputs":%d,"extra_keys":{"return":["token_ids"]},`+
			`"tools":[{"name":"move","description":"Move.","parameters":{"to":{"type":"str","description":"Where"}}}]}`, len(calls))))
		for i, out := range outs {
			if strings.Contains(string(out.InternalSteps[0]), `"next_prompt_differs_at"`) {
				t.Errorf("%s: the next prompt of candidate %d differs", name, i)
			}
		}
		texts[name] = vocab.texts.Load()
	}
	if texts["both answers once"] != texts["both answers twice"] {
		t.Errorf("texts that were tokenized: %v", texts)
	}
}

func TestFailedVersionFailsOnlyWhoAsks(t *testing.T) {
	cfg := agent.Config{ModelVersion: func(context.Context) (string, error) { return "", errors.New("the file is gone") }}
	outs := run(t, newAgent(t, cfg, nil), &script{answers: []string{"Hi"}}, request(t, `{"extra_keys":{"return":["token_ids"]}}`, `{}`))
	if outs[0].Error == nil || outs[0].Error.Code != agent.CodeModelError || !strings.Contains(outs[0].Error.Message, "the file is gone") {
		t.Errorf("who asks got %+v", outs[0].Error)
	}
	if outs[1].Error != nil {
		t.Errorf("the other got %+v", outs[1].Error)
	}
}

func TestSettingReturnsWhatAnInputDoesNotAskFor(t *testing.T) {
	const ids, scores = `"prompt_token_ids":[`, `"logprobs":[-1.5`
	for _, test := range []struct {
		name, input string
		set         []string // agent.Config.Return
		ids, scores bool
	}{
		{"nothing asked, nothing set", `{}`, nil, false, false},
		{"nothing asked", `{}`, []string{"token_ids", "logprobs"}, true, true},
		{"ids asked", `{"extra_keys":{"return":["token_ids"]}}`, []string{"logprobs"}, true, false},
		{"an empty list asked", `{"extra_keys":{"return":[]}}`, []string{"token_ids", "logprobs"}, false, false},
		{"another key", `{"extra_keys":{"inference_mode":true}}`, []string{"token_ids"}, true, false},
		{"distinct candidates have no logprobs", `{"num_outputs":2,"extra_keys":{"inference_mode":true,"candidates":{"distinct":true}}}`, []string{"token_ids", "logprobs"}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var text string
			g := &script{answers: []string{"Hi", "Ho"}, adjust: func(r *generation.Result) {
				for i := range r.Completions {
					r.Completions[i].Scores = []generation.Score{{Logprob: -1.5}}
				}
			}}
			for _, out := range run(t, agentWith(t, agent.Config{Return: test.set}, nil, letters{}), g, request(t, test.input)) {
				text += string(out.InternalSteps[0])
			}
			asked := g.asked[0].Params
			if strings.Contains(text, ids) != test.ids || strings.Contains(text, scores) != test.scores || asked.Scores != test.scores {
				t.Errorf("the engine was asked for %+v and the steps are %s", asked, text)
			}
		})
	}
}

func TestSettingReturnIsChecked(t *testing.T) {
	for want, cfg := range map[string]agent.Config{
		`return has "text"; it may have "token_ids"`:                   {Return: []string{"text"}},
		`return has "logprobs", but the engine has none; leave it out`: {Return: []string{"token_ids", "logprobs"}, NoLogprobs: "the engine has none"},
	} {
		if _, err := agent.New(cfg, nil, letters{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
