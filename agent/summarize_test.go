package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// budget lets the prompts of these tests have 100 words more than one without a history and tools, which has some 50.
const budget = 150

func summarizing(t testing.TB, cfg agent.Config, w *words) *agent.Agent {
	cfg.Kind = agent.HistorySummarized
	if cfg.Summary.Budget == 0 {
		cfg.Summary.Budget = budget
	}
	if w == nil {
		w = new(words)
	}
	return agentWith(t, cfg, nil, w)
}

// remembered is a memory of n words, a call and a key that is not the agent's.
func remembered(n int) string {
	return `{"x":1.0,"history":[{"author":"USER","content":"` + strings.TrimSpace(strings.Repeat("word ", n)) + `"},` +
		`{"author":"MODEL","content":"{\"say\": \"Yes.\", \"action\": {}}"}],"\u0079":[]}`
}

// stages is a generator that distinguishes summaries from decisions and answers each from
// its own list.
type stages struct {
	summary, decision script

	mu    sync.Mutex
	calls []string // what each call of Generate was for
	most  []int
}

func isSummary(g *generation.Request) bool {
	return strings.Contains(textOf(g.Prompt), "write a summary")
}

func (s *stages) Keep(n int) { s.most = append(s.most, n) }

func (s *stages) GenerateAll(_ context.Context, gs []generation.Request, done func(int, *generation.Result, error)) {
	kinds := map[bool]int{}
	for i := range gs {
		kinds[isSummary(&gs[i])]++
	}
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%d summaries, %d decisions", kinds[true], kinds[false]))
	s.mu.Unlock()
	each(gs, func(g generation.Request) (*generation.Result, error) {
		if isSummary(&g) {
			return s.summary.generate(g)
		}
		return s.decision.generate(g)
	}, done)
}

func newStages(summary, decision string) *stages {
	return &stages{summary: script{answers: []string{summary}}, decision: script{answers: []string{decision}}}
}

// stepsOf names the steps of a candidate.
func stepsOf(t *testing.T, out protocol.AgentOutput) string {
	t.Helper()
	var names []string
	for _, raw := range out.InternalSteps {
		step, err := protocol.DecodeInternalStep(raw)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, step.ID+" "+step.Component)
	}
	return strings.Join(names, ", ")
}

func TestSummarizedAgentShortensMemory(t *testing.T) {
	const (
		result = `{"author":"SYSTEM","content":"seen"}`
		call   = `{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"a\": {\"name\": \"look\", \"arguments\": {}}}}"}`
		turn   = `{"author":"USER","content":"Go"},{"author":"MODEL","content":"{\"say\": \"Done.\", \"action\": {}}"}`
	)
	long := `{"content":"` + strings.Repeat("word ", 150) + `"}`
	for _, test := range []struct {
		name, before string
		keep         int
		after        string
		summaries    int
	}{
		{"within the budget the history grows", remembered(20), 0, strings.Replace(remembered(20), `"}],`, `"},`+turn+`],`, 1), 0},
		{"beyond it the summary takes its place", remembered(200), 0, `{"x":1.0,"history":[` + turn + `],"\u0079":[],"summary":"All of it."}`, 1},
		{"an earlier summary is replaced", `{"summary":"Before.","history":[` + long + `],"memory_list":["Be kind."]}`, 0, `{"summary":"All of it.","history":[` + turn + `],"memory_list":["Be kind."]}`, 1},
		{"the newest messages may stay", `{"history":[` + long + `,` + call + `,` + result + `]}`, 2, `{"history":[` + call + `,` + result + `,` + turn + `],"summary":"All of it."}`, 1},
		{"a result does not stay without its call", `{"history":[` + long + `,` + call + `,` + result + `]}`, 1, `{"history":[` + turn + `],"summary":"All of it."}`, 1},
		{"fewer stay where they exceed the budget", `{"history":[` + call + `,` + result + `,` + long + `,` + call + `,` + result + `]}`, 4, `{"history":[` + call + `,` + result + `,` + turn + `],"summary":"All of it."}`, 1},
		{"none stay that do not fit", `{"history":[` + long + `]}`, 7, `{"history":[` + turn + `],"summary":"All of it."}`, 1},
		{"reasoning that no entry has any more is dropped", `{"_qwen":{"version":1,"turns":{"1":{"kind":"tool_call","reasoning":"x"}}},"history":[` + long + `,` + call + `]}`, 0, `{"history":[` + turn + `],"summary":"All of it."}`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newStages(" All of it.\n", "Done.")
			a := summarizing(t, agent.Config{Summary: agent.Summary{Keep: test.keep}}, nil)
			for _, out := range run(t, a, g, request(t, `{"num_outputs":2,"memory":`+test.before+`}`)) {
				if diff := cmp.Diff(test.after, string(out.Memory)); diff != "" {
					t.Error(diff)
				}
				want := "step-0 commander"
				if test.summaries > 0 {
					want = "step-0 summarizer, step-1 commander"
				}
				if got := stepsOf(t, out); got != want {
					t.Errorf("steps %s, want %s", got, want)
				}
			}
			if n := len(g.summary.asked); n != test.summaries {
				t.Errorf("%d summaries were asked for", n)
			}
			if n := len(g.decision.asked); n != 1 || g.decision.asked[0].N != 2 {
				t.Errorf("%d generations of decisions", n)
			}
		})
	}
}

func TestSummaryIsSampledLikeItsCandidates(t *testing.T) {
	g := newStages("S", "Done.")
	a := summarizing(t, agent.Config{Summary: agent.Summary{MaxTokens: 77}, Seed: 5}, nil)
	run(t, a, g, request(t, `{"num_outputs":3,"memory":`+remembered(200)+`}`))
	run(t, a, g, request(t, `{"num_outputs":3,"extra_keys":{"inference_mode":true},"memory":`+remembered(200)+`}`))
	for i, greedy := range []bool{false, true} {
		s, d := g.summary.asked[i], g.decision.asked[i]
		sampling := agent.DefaultSampling
		if greedy {
			sampling.Temperature = 0
		}
		if s.N != 1 || s.MaxTokens != 77 || s.Sampling != sampling || d.Sampling != sampling || s.Grammar == "" || s.Grammar == d.Grammar || !s.SuppressControl || len(s.Seeds) != 1 {
			t.Errorf("asked for %+v", s)
		}
		for _, seed := range d.Seeds {
			if seed == s.Seeds[0] {
				t.Error("a candidate has the summary's seed")
			}
		}
	}
	if n := g.decision.asked[0].N; n != 3 {
		t.Errorf("%d candidates", n)
	}
	full := &script{answers: []string{"Done."}}
	run(t, newAgent(t, agent.Config{Seed: 5}, nil), full, request(t, `{"num_outputs":3}`))
	if diff := cmp.Diff(full.asked[0].Seeds, g.decision.asked[0].Seeds); diff != "" {
		t.Errorf("the candidates have not the seeds of the full-history agent: %s", diff)
	}
}

// TestSummariesAreGeneratedTogetherBeforeCandidates, and are admitted with them.
func TestSummariesAreGeneratedTogetherBeforeCandidates(t *testing.T) {
	a := summarizing(t, agent.Config{}, nil)
	req := request(t, `{"memory":`+remembered(200)+`,"num_outputs":4}`, `{"memory":`+remembered(1)+`,"num_outputs":2}`, `{}`,
		`{"memory":`+remembered(300)+`,"num_outputs":8,"extra_keys":{"inference_mode":true}}`, `{"memory":`+remembered(200)+`,"tools":[{}]}`, `{"memory":`+remembered(200)+`,"extra_keys":{"coaching":{}}}`)
	plan, err := a.Prepare(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := plan.Completions; n != 4+1+2+1+1+1+1+1+1 {
		t.Errorf("%d sequences are admitted", n)
	}
	g := newStages("S", "Done.")
	outs, err := a.Run(t.Context(), plan, g)
	if err != nil || protocol.ValidateResponse(req, outs) != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2 summaries, 0 decisions", "0 summaries, 4 decisions"}, g.calls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{10, 2 + 4 + 2 + 1 + 1, 4 + 2 + 1 + 1}, g.most); diff != "" {
		t.Errorf("what is left of the admission: %s", diff)
	}
}

// TestFailedSummaryKeepsMemory: the memory is returned unchanged, and no candidate is generated.
func TestFailedSummaryKeepsMemory(t *testing.T) {
	broken := func(err error, tokens int) func(*generation.Result) {
		return func(r *generation.Result) {
			r.Completions[0] = generation.Completion{Text: "So f", Tokens: make([]generation.Token, tokens), Finish: "error", Err: err}
		}
	}
	rules := `{"memory_list":["` + strings.Repeat("rule ", 200) + `"],"history":[{"content":"a"}]}`
	for _, test := range []struct {
		name, memory string
		summary      string
		adjust       func(*generation.Result)
		err          error
		code         string
		component    string
		message      string
		steps        string
		asked        bool // for a summary
	}{
		{"over the budget without a history", `{"memory_list":["` + strings.Repeat("rule ", 200) + `"],"history":[]}`, "", nil, nil, "context_budget", "context_budget", "without any history", "", false},
		{"still over it with a summary", rules, "S", nil, nil, "context_budget", "context_budget", "its budget is 150", "step-0 summarizer", true},
		{"a model that fails", remembered(200), "", nil, errors.New("gone"), "model_error", "summarizer", "gone", "", true},
		{"a model that fails midway", remembered(200), "", broken(errors.New("gone"), 3), nil, "model_error", "summarizer", "gone", "step-0 summarizer", true},
		{"time that is up", remembered(200), "", broken(context.DeadlineExceeded, 0), nil, "timeout", "summarizer", "request_timeout", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newStages(test.summary, "Done.")
			g.summary.adjust, g.summary.err = test.adjust, test.err
			other := `{"id":9,"memory":` + remembered(1) + `}`
			outs := run(t, summarizing(t, agent.Config{}, nil), g, request(t, `{"num_outputs":2,"memory":`+test.memory+`}`, other))
			for _, out := range outs[:2] {
				e := out.Error
				if e == nil || e.Code != test.code || e.Component != test.component || !strings.Contains(e.Message, test.message) {
					t.Errorf("error %+v", e)
				}
				if string(out.Memory) != test.memory {
					t.Errorf("memory %s", out.Memory)
				}
				if got := stepsOf(t, out); got != test.steps {
					t.Errorf("steps %q, want %q", got, test.steps)
				}
			}
			if outs[2].Error != nil || len(g.decision.asked) != 1 {
				t.Errorf("another input: %+v, %d generations of decisions", outs[2].Error, len(g.decision.asked))
			}
			if (len(g.summary.asked) == 1) != test.asked {
				t.Errorf("%d summaries were asked for", len(g.summary.asked))
			}
		})
	}
}

const cutNote = "Earlier messages are missing here. They were too long, and no summary of them could be used."

// TestHistoryIsCutWhereNoSummaryHelps: the same history would give the same summary in each turn.
func TestHistoryIsCutWhereNoSummaryHelps(t *testing.T) {
	few := func(finish generation.Finish) func(*generation.Result) {
		return func(r *generation.Result) { r.Completions[0].Finish, r.Completions[0].Stop = finish, "" }
	}
	const (
		newest = `{"author":"USER","content":"newest"},{"author":"MODEL","content":"{\"say\": \"Yes.\", \"action\": {}}"}`
		turn   = `{"author":"USER","content":"Go"},{"author":"MODEL","content":"{\"say\": \"Done.\", \"action\": {}}"}`
	)
	old := `{"author":"USER","content":"` + strings.Repeat("word ", 200) + `"}`
	for name, test := range map[string]struct {
		before  string // the summary in the memory
		summary string // that the model writes
		adjust  func(*generation.Result)
		err     error
		after   string
		steps   string
		counts  agent.SummaryCounts
	}{
		"a summary as long as the history":        {"", strings.Repeat("word ", 200), nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Whole: 1, Cut: 1}},
		"a truncated one":                         {"", strings.Repeat("word ", 200), few(generation.FinishLength), nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Truncated: 1, Cut: 1}},
		"an empty one":                            {"", "", nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"a blank one":                             {"", " \n\u2003", nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"a call in its place":                     {"", moveTo("x", "a"), nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"an object in its place":                  {"", `{"say": "x", "action": {}}`, nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"nothing within its tokens":               {"", "\n", few(generation.FinishLength), nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"nothing but marks again and again":       {"", "\n\n\n\n", few(generation.FinishRepeat), nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"a history that does not fit the context": {"", "", nil, &generation.OverflowError{Prompt: 9, MaxNew: 8, Limit: 7}, cutNote, "step-0 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"an earlier summary stays":                {"Before.", "", nil, nil, `Before.\n\n` + cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"its note is not repeated":                {`Before.\n\n` + cutNote, "", nil, nil, `Before.\n\n` + cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"a note alone is not repeated":            {cutNote, "", nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"an earlier summary that is too long":     {strings.TrimSpace(strings.Repeat("word ", 200)), "", nil, nil, cutNote, "step-0 summarizer, step-1 commander", agent.SummaryCounts{Failed: 1, Cut: 1}},
		"a summary that is used":                  {"Before.", "All of it.", nil, nil, "", "step-0 summarizer, step-1 commander", agent.SummaryCounts{Whole: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newStages(test.summary, "Done.")
			g.summary.adjust, g.summary.err = test.adjust, test.err
			before := `{"x":1.0,"summary":"` + test.before + `","history":[` + old + `,` + old + `,` + newest + `],"\u0079":[]}`
			a := summarizing(t, agent.Config{}, nil)
			plan, err := a.Prepare(request(t, `{"num_outputs":2,"memory":`+before+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			outs, err := a.Run(t.Context(), plan, g)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.counts, plan.Summaries); diff != "" {
				t.Error(diff)
			}
			want, told := `{"x":1.0,"summary":"`+test.after+`","history":[`+newest+`,`+turn+`],"\u0079":[]}`, 1
			if test.after == "" {
				want, told = `{"x":1.0,"summary":"All of it.","history":[`+turn+`],"\u0079":[]}`, 0
			}
			for _, out := range outs {
				if out.Error != nil {
					t.Fatalf("%+v", out.Error)
				}
				if diff := cmp.Diff(want, string(out.Memory)); diff != "" {
					t.Error(diff)
				}
				if got := stepsOf(t, out); got != test.steps {
					t.Errorf("steps %q, want %q", got, test.steps)
				}
				last := string(out.InternalSteps[len(out.InternalSteps)-1])
				if n := strings.Count(last, `"history_cut":2`); n != told {
					t.Errorf("the step tells %d times of 2 messages that are missing: %s", n, last)
				}
			}
			if shown := textOf(g.decision.asked[0].Prompt); strings.Contains(shown, cutNote) != (told == 1) {
				t.Errorf("the model sees the note: %t", told == 0)
			}
		})
	}
}

func TestFailedCandidateKeepsSummaryStepAndMemory(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		adjust func(*generation.Result)
		steps  string
	}{
		"an answer that is no decision": {"<tool_call>", nil, "step-0 summarizer, step-1 commander"},
		"nothing was said": {"", func(r *generation.Result) {
			r.Completions[0] = generation.Completion{Err: errors.New("gone")}
		}, "step-0 summarizer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newStages("S", test.answer)
			g.decision.adjust = test.adjust
			out := run(t, summarizing(t, agent.Config{}, nil), g, request(t, `{"memory":`+remembered(200)+`}`))[0]
			if out.Error == nil || out.Error.Component == agent.ComponentSummarizer || string(out.Memory) != remembered(200) {
				t.Errorf("%+v, memory %s", out.Error, out.Memory)
			}
			if got := stepsOf(t, out); got != test.steps {
				t.Errorf("steps %q, want %q", got, test.steps)
			}
		})
	}
}

func TestTruncatedSummaryIsUsed(t *testing.T) {
	for _, finish := range []generation.Finish{generation.FinishLength, generation.FinishRepeat} {
		g := newStages("The cup is in the kit", "Done.")
		g.summary.adjust = func(r *generation.Result) { r.Completions[0].Finish, r.Completions[0].Stop = finish, "" }
		out := run(t, summarizing(t, agent.Config{}, nil), g, request(t, `{"memory":`+remembered(200)+`}`))[0]
		if out.Error != nil || !strings.Contains(string(out.Memory), `"summary":"The cup is in the kit"`) {
			t.Errorf("%s: %+v, memory %s", finish, out.Error, out.Memory)
		}
		if !strings.Contains(string(out.InternalSteps[0]), `"finish_reason":"`+string(finish)+`"`) {
			t.Errorf("%s: step %s", finish, out.InternalSteps[0])
		}
	}
}

func TestErrorInSummaryEndsRequest(t *testing.T) {
	for name, test := range map[string]struct {
		summary error
		words   *words
		want    error
	}{
		"a generator that closes":      {summary: generation.ErrClosed, want: generation.ErrClosed},
		"a caller that leaves":         {summary: context.Canceled, want: context.Canceled},
		"a caller that left before":    {words: &words{err: context.Canceled}, want: context.Canceled},
		"one that left between":        {words: &words{err: context.Canceled, failOn: "happened before"}, want: context.Canceled},
		"a time that is up is no end":  {words: &words{err: context.DeadlineExceeded, failOn: "happened before"}},
		"nor a prompt without a count": {words: &words{err: errors.New("no tokenizer")}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newStages("S", "Done.")
			g.summary.err = test.summary
			a := summarizing(t, agent.Config{}, test.words)
			plan, err := a.Prepare(request(t, `{"memory":`+remembered(200)+`}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			outs, err := a.Run(t.Context(), plan, g)
			if !errors.Is(err, test.want) || len(g.decision.asked) > 0 {
				t.Errorf("got %v, %d decisions", err, len(g.decision.asked))
			}
			if test.want == nil && (len(outs) != 1 || outs[0].Error == nil) {
				t.Errorf("got %+v", outs)
			}
		})
	}
}

func TestSummarizedAgentRefusesCorrections(t *testing.T) {
	out := run(t, summarizing(t, agent.Config{}, nil), newStages("", ""), request(t, `{"memory":`+remembered(200)+`,"extra_keys":{"coaching":{"kind":"replace_say","text":"x"}}}`))[0]
	if e := out.Error; e == nil || e.Code != agent.CodeInvalidCoaching || !strings.Contains(e.Message, "coaching_resume") || len(out.InternalSteps) > 0 || string(out.Memory) != remembered(200) {
		t.Errorf("%+v", out)
	}
	if out := run(t, summarizing(t, agent.Config{}, nil), newStages("S", "Done."), request(t, `{"extra_keys":{"coaching":null}}`))[0]; out.Error != nil {
		t.Errorf("null counts as a correction: %+v", out.Error)
	}
}

// TestAgentsShareMemories: each kind of agent continues memories of the other.
func TestAgentsShareMemories(t *testing.T) {
	full, short := newAgent(t, agent.Config{}, nil), summarizing(t, agent.Config{}, nil)
	memory := remembered(10)
	var histories []int
	for turn, a := range []*agent.Agent{full, short, full, full, short, short, full} {
		g := newStages(fmt.Sprintf("Summary %d.", turn), "Done.")
		req := request(t, `{"memory":`+memory+`,"instruction":{"type":"user","content":"`+strings.TrimSpace(strings.Repeat("more ", 20))+`"}}`)
		out := run(t, a, g, req)[0]
		if out.Error != nil {
			t.Fatalf("turn %d: %+v", turn, out.Error)
		}
		memory = string(out.Memory)
		n := strings.Count(memory, `"author"`)
		histories = append(histories, n)
		if !strings.HasPrefix(memory, `{"x":1.0,"history":[`) || !strings.Contains(memory, `"\u0079":[]`) {
			t.Errorf("turn %d: memory %s", turn, memory)
		}
		shown := textOf(g.decision.asked[0].Prompt)
		if want := strings.Contains(memory, `"summary"`); strings.Contains(shown, "# Summary of what happened before") != want {
			t.Errorf("turn %d: the prompt shows a summary: %v", turn, !want)
		}
	}
	// Only the agent that summarizes shortens the history, and only when it must.
	if diff := cmp.Diff([]int{4, 6, 8, 10, 2, 4, 6}, histories); diff != "" {
		t.Error(diff)
	}
}

func TestSummarizedAgentRefusesInvalidConfig(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  agent.Config
		want string
	}{
		"an unknown kind":             {agent.Config{Kind: "reactive"}, `agent is "reactive"; it must be full-history or history-summarized`},
		"a budget of another agent":   {agent.Config{Summary: agent.Summary{Budget: 5}}, "a summary is for the history-summarized agent"},
		"a negative budget":           {agent.Config{Kind: agent.HistorySummarized, Summary: agent.Summary{Budget: -1}}, "none can be negative"},
		"hidden messages":             {agent.Config{Kind: agent.HistorySummarized, HistoryMaxMessages: 4}, "history_max_messages hides messages"},
		"answers of a fixed length":   {agent.Config{Kind: agent.HistorySummarized, IgnoreEnd: true}, "are not summaries"},
		"a template without thinking": {agent.Config{Kind: agent.HistorySummarized, Prompt: format.Options{Architecture: "qwen2", EnableThinking: true}}, "no thinking"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cfg.Prompt.Architecture == "" {
				test.cfg.Prompt.Architecture = "qwen3"
			}
			if _, err := agent.New(test.cfg, &fakeKit{}, new(words)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestSummariesAreInThePromptLog(t *testing.T) {
	dir := t.TempDir()
	run(t, summarizing(t, agent.Config{PromptLogDir: dir}, nil), newStages("All of it.", "Done."), request(t, `{"memory":`+remembered(200)+`}`))
	for component, want := range map[string]string{"summarizer": "All of it.", "commander": "Done."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_"+component+"_*.log"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", component, files, err)
		}
		if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), want+"<|im_end|>") || !strings.Contains(string(text), "\nVALID") {
			t.Errorf("%s, %v", text, err)
		}
	}
}
