package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// chosen asks for the chances of texts.
func chosen(t testing.TB, m *llama.Model, prompt []llama.Token, whole bool, texts ...string) generation.Request {
	t.Helper()
	c := &generation.Choice{Whole: whole}
	for _, text := range texts {
		c.Answers = append(c.Answers, [][]llama.Token{tokenize(t, m, text)})
	}
	return generation.Request{Prompt: prompt, Params: generation.Params{N: 1, MaxTokens: c.MaxTokens(), Seeds: []uint32{0}, Choice: c}}
}

// plainChance is the probability of a text by plain recursion over all tokens: each prefix is computed alone. It also
// counts the sequences.
func plainChance(t *testing.T, m *llama.Model, tokens []llama.Token, text string, whole bool) (p float64, paths int) {
	t.Helper()
	if text == "" && !whole {
		return 1, 1
	}
	c, err := m.NewContext(llama.SetContext(1024), llama.SetBatch(1024), llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		t.Fatal(err)
	}
	b := newContextBackend(c)
	defer b.Close()
	var rows []core.Row
	for pos, token := range tokens {
		rows = append(rows, core.Row{Token: token, Pos: pos, Output: pos == len(tokens)-1})
	}
	if err := b.Decode(rows); err != nil {
		t.Fatal(err)
	}
	row, err := b.Logits(len(rows) - 1)
	if err != nil {
		t.Fatal(err)
	}
	row = slices.Clone(row)
	sum := 0.0
	for _, x := range row {
		sum += math.Exp(float64(x))
	}
	v := m.Vocab()
	for id := range llama.Token(v.Size()) {
		share := math.Exp(float64(row[id])) / sum
		piece := string(v.Piece(id, true))
		switch {
		case v.IsEOG(id):
			if text == "" {
				p, paths = p+share, paths+1
			}
		case v.IsControl(id), piece == "", !strings.HasPrefix(text, piece):
		default:
			below, n := plainChance(t, m, append(slices.Clone(tokens), id), text[len(piece):], whole)
			p, paths = p+share*below, paths+n
		}
	}
	return p, paths
}

func TestChancesAreSumsOverAllSpellings(t *testing.T) {
	m := reference(t, "qwen3")
	e := newTestEngine(t, setup{onCPU: true})
	prompt := tokenize(t, m, story[:60])
	for name, c := range map[string]struct {
		whole bool
		texts []string
	}{
		"letters":          {false, []string{"A", "B", "C"}},
		"words":            {false, []string{"yes", "no"}},
		"two letters":      {false, []string{"AA", "AB", "BA"}},
		"whole answers":    {true, []string{"go", "gone", "no"}},
		"a single answer":  {false, []string{"hall"}},
		"of several bytes": {true, []string{"ü", "û"}},
	} {
		r := mustGenerateSome(t, e, chosen(t, m, prompt, c.whole, c.texts...))
		got := r.Completions[0].Chances
		if got == nil || r.Completions[0].Err != nil {
			t.Fatalf("%s: %+v", name, r.Completions[0])
		}
		if len(r.Completions[0].Tokens) > 0 || r.PromptTokens != len(prompt) || got.Rows < 1 {
			t.Errorf("%s: %+v", name, r)
		}
		missing := 0.0
		for i, text := range c.texts {
			want, paths := plainChance(t, m, prompt, text, c.whole)
			p := math.Exp(got.Logprobs[i])
			if p <= 0 || got.Paths[i] < 1 || got.Paths[i] > paths || p > want*(1+1e-4) {
				t.Errorf("%s: %q has %g by %d sequences, want %g by %d", name, text, p, got.Paths[i], want, paths)
			}
			if got.Omitted == 0 && (got.Paths[i] != paths || p < want*(1-1e-4)) {
				t.Errorf("%s: %q has %g by %d sequences of %d with %g, and nothing was omitted", name, text, p, got.Paths[i], paths, want)
			}
			missing += want - p
		}
		if missing > got.Omitted+1e-9 {
			t.Errorf("%s: %g are missing, at most %g were to be", name, missing, got.Omitted)
		}
	}
}

func TestAnswerHasTheProbabilityOfAllItsTexts(t *testing.T) {
	m := testModel(t, "qwen3")
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, m, story[:60])
	alone := mustGenerateSome(t, e, chosen(t, m, prompt, true, "go", "gone", "no")).Completions[0].Chances
	g := chosen(t, m, prompt, true, "go", "gone", "no")
	a := g.Choice.Answers
	g.Choice.Answers = [][][]llama.Token{{a[0][0], a[2][0], a[0][0]}, a[1]}
	both := mustGenerateSome(t, e, g).Completions[0].Chances
	if want := math.Exp(alone.Logprobs[0]) + math.Exp(alone.Logprobs[2]); math.Abs(math.Exp(both.Logprobs[0])-want) > 1e-4*want || both.Paths[0] != alone.Paths[0]+alone.Paths[2] || both.Paths[1] != alone.Paths[1] {
		t.Errorf("%+v, alone %+v", both, alone)
	}
}

func TestTextOfOneTokenIsReadFromOneRow(t *testing.T) {
	m := testModel(t, "qwen3")
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, m, story[:60])
	got := mustGenerateSome(t, e, chosen(t, m, prompt, false, "A", "B", "C", "D")).Completions[0].Chances
	if got.Rows != 1 || got.Omitted != 0 || !slices.Equal(got.Paths, []int{1, 1, 1, 1}) {
		t.Errorf("%+v", got)
	}
}

func TestManyLongAnswersHaveAChanceEach(t *testing.T) {
	m := testModel(t, "qwen3")
	e := newTestEngine(t, setup{})
	var texts []string
	for i := range 60 {
		texts = append(texts, fmt.Sprintf(`{"name": "go_to", "arguments": {"room": "room %d"}}`, i))
	}
	got := mustGenerateSome(t, e, chosen(t, m, tokenize(t, m, story[:60]), true, texts...)).Completions[0]
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	for i, x := range got.Chances.Logprobs {
		if math.IsInf(x, 0) || math.IsNaN(x) || got.Chances.Paths[i] < 1 {
			t.Errorf("answer %d has the logarithm %g by %d sequences", i, x, got.Chances.Paths[i])
		}
	}
}

func TestUnusableAnswersAreRefused(t *testing.T) {
	m := testModel(t, "qwen3")
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, m, story[:60])
	var end llama.Token
	for !m.Vocab().IsEOG(end) {
		end++
	}
	for want, change := range map[string]func(g *generation.Request){
		"answer 1 begins with answer 0": func(g *generation.Request) { g.Choice.Answers[1] = g.Choice.Answers[0] },
		"answer 0 is empty":             func(g *generation.Request) { g.Choice.Answers[0] = [][]llama.Token{nil} },
		"which ends a completion":       func(g *generation.Request) { g.Choice.Answers[0] = [][]llama.Token{{end}} },
		"the vocabulary has":            func(g *generation.Request) { g.Choice.Answers[0] = [][]llama.Token{{-1}} },
		"Choice needs answers":          func(g *generation.Request) { g.Choice.Answers = nil },
		"a MaxTokens of at least":       func(g *generation.Request) { g.MaxTokens = 1 },
		"Choice has one completion":     func(g *generation.Request) { g.N, g.Seeds = 2, []uint32{1, 2} },
		"excludes what chooses tokens":  func(g *generation.Request) { g.Temperature = 1 },
		"excludes Distinct and Choice": func(g *generation.Request) {
			g.Resume = &generation.Result{Completions: make([]generation.Completion, 1)}
		},
		"answer 0 begins with answer 1":  func(g *generation.Request) { g.Choice.Answers[1] = [][]llama.Token{g.Choice.Answers[0][0][:1]} },
		"and excludes what chooses toke": func(g *generation.Request) { g.Grammar = "root ::= [a-z]+" },
		"completion, and excludes what":  func(g *generation.Request) { g.Least = 1 },
	} {
		g := chosen(t, m, prompt, false, "yes", "no")
		change(&g)
		if _, err := generate(t.Context(), e, g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	g := chosen(t, m, prompt, true, "yes", "yes") // whole answers may begin with each other, and must differ
	if _, err := generate(t.Context(), e, g); err == nil || !strings.Contains(err.Error(), "begins with") {
		t.Errorf("equal whole answers: %v", err)
	}
}

func TestCancelledChoiceFreesItsSequences(t *testing.T) {
	m := testModel(t, "qwen3")
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	e := newTestEngine(t, setup{wrap: func(b backend) backend { return &leaveAfter{b, &steps, cancel} }})
	g := chosen(t, m, tokenize(t, m, story[:60]), true, strings.Repeat("go to the hall ", 6), strings.Repeat("go to the attic ", 6))
	if _, err := generate(ctx, e, g); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// The engine's invariants, which it checks when it is idle, find what leaks.
	mustGenerate(t, e, greedy(tokenize(t, m, story[:40]), 1, 3))
}

func TestPausedChoiceHasNoChances(t *testing.T) {
	m := testModel(t, "qwen3")
	e, pauses := pausedEach(t, setup{batch: 512}, 6, true)
	g := chosen(t, m, tokenize(t, m, story[:60]), true, strings.Repeat("go to the hall ", 6), strings.Repeat("go to the attic ", 6))
	r := mustGenerateSome(t, e, g)
	if c := r.Completions[0]; !r.Paused() || !errors.Is(c.Err, generation.ErrPaused) || c.Chances != nil || pauses.Load() == 0 {
		t.Errorf("%+v after %d pauses", c, pauses.Load())
	}
	e.Resume()
	g = chosen(t, m, tokenize(t, m, story[:60]), false, "A", "B")
	if c := mustGenerateSome(t, e, g).Completions[0]; c.Chances == nil {
		t.Errorf("%+v", c)
	}
}

// leaveAfter cancels at the fifth step.
type leaveAfter struct {
	backend
	steps  *int
	cancel context.CancelFunc
}

func (s *leaveAfter) Decode(rows []core.Row) error {
	if *s.steps++; *s.steps == 5 {
		s.cancel()
	}
	return s.backend.Decode(rows)
}
