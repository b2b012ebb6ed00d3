package scheduler

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

func TestCallReader(t *testing.T) {
	hermes := generation.CallForm{Begin: "<tool_call>", Depth: 1, Again: "</think>"}
	tagged := generation.CallForm{Begin: "<tool_call>", End: "</parameter>\n</function>\n</tool_call>"}
	parallel := generation.CallForm{Begin: "functions.call_in_parallel", Depth: 2, Again: "<|start|>assistant"}
	object := generation.CallForm{Begin: `"action":`, Depth: 1}
	bare := generation.CallForm{Begin: `{"name": "`, Depth: 1}
	const look, wait = `{"name": "look", "arguments": {"a": {"b": "}"}}}`, `{"name": "wait", "arguments": {}}`
	block := func(calls ...string) string {
		return "<tool_call>\n" + strings.Join(calls, "\n</tool_call>\n<tool_call>\n") + "\n</tool_call>"
	}
	xml := func(text string) string {
		return "<function=say>\n<parameter=text>\n" + text + "\n</parameter>\n</function>"
	}
	for name, tc := range map[string]struct {
		form       generation.CallForm
		text, want string
	}{
		"no call":                         {hermes, `{"a": {}} {"a": {}} ` + look + look, ""},
		"one call":                        {hermes, block(look), ""},
		"two calls":                       {hermes, block(look, wait), ""},
		"the same call":                   {hermes, block(look, wait, look), `{"name":"look","arguments":{"a":{"b":"}"}}}`},
		"the same call, spaced otherwise": {hermes, block(wait, look, `{"name":"wait","arguments":{ }}`), `{"name":"wait","arguments":{}}`},
		"strings differ in white space":   {hermes, block(`{"a": "b c"}`, `{"a": "bc"}`), ""},
		"strings that look like the end":  {hermes, block(`{"a": "\"}", "b": 1}`, `{"a": "\"}", "b": 2}`), ""},
		"a mark within a string":          {hermes, block(`{"a": "</tool_call>", "b": 1}`, `{"a": "</tool_call>", "b": 2}`), ""},
		"thoughts about a call":           {hermes, "Maybe\n" + block(look) + " </think>\n\n" + block(look), ""},
		"a repeated call after thoughts":  {hermes, "Maybe\n</think>\n\n" + block(wait, wait), `{"name":"wait","arguments":{}}`},
		"quotation marks in thoughts":     {hermes, `He said "</think>` + block(wait, wait), `{"name":"wait","arguments":{}}`},
		"a call that is cut off":          {hermes, block(wait) + "<tool_call>\n" + wait[:len(wait)-1], ""},
		"tags":                            {tagged, block(xml("a"), xml("b")), ""},
		"the same in tags":                {tagged, block(xml("a"), xml("a")), xml("a") + "\n</tool_call>"},
		"marks in a parameter":            {tagged, block(xml("</tool_call> a"), xml("</tool_call> b")), ""},
		"calls in parallel":               {parallel, ` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls": [` + look + ", " + wait + "]}", ""},
		"the same in parallel":            {parallel, ` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls": [` + look + ", " + look + "]}", `{"name":"look","arguments":{"a":{"b":"}"}}}`},
		"the same object in one call":     {parallel, ` to=functions.go<|channel|>commentary json<|message|>{"from": {"x": 1}, "to": {"x": 1}}`, ""},
		"bare calls":                      {bare, look + "; " + wait, ""},
		"the same bare call":              {bare, "<|python_tag|>" + look + "; " + wait + "; " + look, `{"name":"look","arguments":{"a":{"b":"}"}}}`},
		"a reply with braces":             {bare, `a {} and {} or "{"`, ""},
		"an action of several calls":      {object, `{"say": "", "action": [{"a": ` + look + `}, {"b": ` + look + `}]}`, ""},
		"an action with the same call":    {object, `{"say": "", "action": [{"a": ` + wait + `}, {"a": ` + wait + `}]}`, `{"a":{"name":"wait","arguments":{}}}`},
		"an action in a reply":            {object, `{"say": "\"action\": {} {}", "action": {}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			whole := (&callReader{form: tc.form}).push([]byte(tc.text))
			if whole != tc.want {
				t.Errorf("%q came again, want %q", whole, tc.want)
			}
			r := &callReader{form: tc.form}
			for i := range len(tc.text) {
				if again := r.push([]byte(tc.text[i : i+1])); again != "" {
					if again != tc.want || strings.Contains(tc.text[i+1:], "}}") {
						t.Errorf("%q came again, with %q to come", again, tc.text[i+1:])
					}
					return
				}
			}
			if tc.want != "" {
				t.Error("nothing came again byte by byte")
			}
		})
	}
}

func TestRepeatingCompletionEnds(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	e := newTestEngine(t, setup{batch: 24, wrap: func(b backend) backend {
		s := newScribe(t, m, newRecorder(b), len(prompt))
		s.texts = [][]llama.Token{tokenize(t, m, "Now, "+strings.Repeat("the very same words all over again; ", 30))}
		return s
	}})
	for name, tc := range map[string]struct {
		adjust   func(*generation.Request)
		finish   generation.Finish
		text     string
		repeated string
	}{
		"four times":      {nil, generation.FinishRepeat, "Now, " + strings.Repeat("the very same words all over again; ", 4), `" the very same words all over again;" came four times in a row`},
		"limited before":  {func(g *generation.Request) { g.MaxTokens = 20 }, generation.FinishLength, "", ""},
		"not looked for":  {func(g *generation.Request) { g.StopRepeats = false }, generation.FinishLength, "", ""},
		"sampled by many": {func(g *generation.Request) { g.N, g.Seeds, g.Temperature = 3, []uint32{1, 2, 3}, 1 }, generation.FinishRepeat, "", "came four times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			g := greedy(prompt, 1, 200)
			g.StopRepeats = true
			if tc.adjust != nil {
				tc.adjust(&g)
			}
			before := e.Stats().Repeated
			for _, c := range mustGenerate(t, e, g).Completions {
				text := strings.TrimSpace(c.Text)
				if c.Finish != tc.finish || !strings.HasPrefix(text, strings.TrimSpace(tc.text)) || !strings.Contains(c.Repeated, strings.TrimPrefix(tc.repeated, `" `)) || (tc.repeated == "") != (c.Repeated == "") {
					t.Errorf("finish %s, %q came again, in %q", c.Finish, c.Repeated, c.Text)
				}
				if tc.finish == generation.FinishRepeat && len(text) > len("Now, ")+5*36 {
					t.Errorf("it ended behind %q", text)
				}
			}
			want := 0
			if tc.finish == generation.FinishRepeat {
				want = g.N
			}
			if got := int(e.Stats().Repeated - before); got != want {
				t.Errorf("%d candidates are counted, want %d", got, want)
			}
		})
	}
	g := greedy(tokenize(t, m, "x"), 1, 20)
	g.IgnoreEnd, g.StopRepeats = true, true
	if _, err := generate(t.Context(), e, g); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("IgnoreEnd and StopRepeats: %v", err)
	}
}

func TestForcedConstantThatRepeatsIsNoRepetition(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	g := greedy(tokenize(t, m, "x"), 1, 200)
	g.Grammar, g.StopRepeats = `root ::= "Now, " ("the very same words all over again; "){6} "end."`, true
	c := mustGenerate(t, e, g).Completions[0]
	if c.Finish != generation.FinishStop || c.Repeated != "" || !strings.HasSuffix(c.Text, "end.") {
		t.Errorf("finish %s, %q came again, in %q", c.Finish, c.Repeated, c.Text)
	}
}

// A repetition ends at the same token for any number of tokens in a step.
func TestRepetitionEndsAtSameTokenWithForcedAndDraftTokens(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	for name, cfg := range map[string]Config{"forced tokens": {}, "speculation": {Policy: Policy{DraftRows: 16}}} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(9, 9))
			var texts [][]llama.Token
			for range 12 {
				calls := strings.Split(forcedText(r), "\n<tool_call>")
				text := strings.Join(append(calls, strings.TrimPrefix(calls[0], "<tool_call>")), "\n<tool_call>")
				tokens, err := m.Vocab().Tokenize(text, false, true)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, tokens)
			}
			open := func(cfg Config) *Engine {
				return newTestEngine(t, setup{batch: 24, outputs: max(8, cfg.DraftRows), cfg: cfg, wrap: func(b backend) backend {
					s := newScribe(t, m, newRecorder(b), len(prompt))
					s.texts = texts
					return s
				}})
			}
			g := constrained(sampled(prompt, 10, 400, 7))
			g.Grammar = strings.Replace(g.Grammar, "{0,2}", "{0,9}", 1)
			g.StopRepeats, g.Calls = true, generation.CallForm{Begin: "<tool_call>", Depth: 1}
			with, without := mustGenerate(t, open(cfg), g), mustGenerate(t, open(Config{NoForcedTokens: true}), g)
			if diff := cmp.Diff(without.Completions, with.Completions); diff != "" {
				t.Error(diff)
			}
			for _, c := range with.Completions {
				if c.Finish != generation.FinishRepeat || !strings.HasPrefix(c.Repeated, `the call {"name":`) || !strings.HasSuffix(c.Repeated, "} came twice") || strings.HasSuffix(c.Text, "</tool_call>") {
					t.Errorf("finish %s, %q, in %q", c.Finish, c.Repeated, c.Text)
				}
			}
		})
	}
}
