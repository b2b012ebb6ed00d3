package decide

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/agent/format"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// fake gives each answer a probability by its text or by its place in the prompt.
type fake struct {
	chance func(prompt, answer string) float64
	refuse string // in a prompt

	mu      sync.Mutex
	prompts []string
	whole   []bool
}

func (f *fake) Choice(_ context.Context, c *format.Chat, answers []protocol.AgentDecision, whole bool) (*generation.Request, error) {
	last := c.Messages[len(c.Messages)-1].Text
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != "" && strings.Contains(last, f.refuse) {
		return nil, errors.New("refused")
	}
	f.prompts, f.whole = append(f.prompts, last), append(f.whole, whole)
	chances := &generation.Chances{Best: true, Rows: 1}
	for _, a := range answers {
		chances.Logprobs = append(chances.Logprobs, math.Log(f.chance(last, a.Say)))
	}
	return &generation.Request{Params: generation.Params{N: 1, Resume: &generation.Result{
		PromptTokens: 10, CachedTokens: 4, Completions: []generation.Completion{{Chances: chances}},
	}}}, nil
}

func (f *fake) GenerateAll(_ context.Context, list []generation.Request, _ func()) (results []*generation.Result, err error) {
	for i := range list {
		results = append(results, list[i].Resume)
	}
	return results, nil
}

func named(names ...string) (options []Option) {
	for _, n := range names {
		options = append(options, Option{Name: n})
	}
	return options
}

var hall = &format.Chat{Messages: []format.ChatMessage{{Text: "The robot is in the hall."}}}

func TestQuestionsFollowTheStateWithLabelledOptions(t *testing.T) {
	for name, c := range map[string]struct {
		q    Question
		want string
	}{
		"yes or no":      {Question{Kind: YesNo, Instructions: "Is it lit?", Options: make([]Option, 2)}, "Question: Is it lit?\nyes\nno\nAnswer with yes or no only."},
		"described":      {Question{Kind: YesNo, Options: []Option{{Description: "lit"}, {}}}, "yes: lit\nno\nAnswer with yes or no only."},
		"letters":        {Question{Kind: Letters, Instructions: "Where?", Options: []Option{{Name: "hall", Description: "big"}, {Name: "attic"}}}, "Question: Where?\nA: hall - big\nB: attic\nAnswer with the letter of one option only."},
		"levels":         {Question{Kind: Levels, Instructions: "How full?", Options: named("empty", "half", "full")}, "Question: How full?\n0: empty\n1: half\n2: full\nAnswer with the number of one level only."},
		"whole answers":  {Question{Kind: Whole, Instructions: "Go on.", Options: named("", "")}, "Go on."},
		"eleven levels":  {Question{Kind: Levels, Options: named(strings.Split("abcdefghijk", "")...)}, "00: a\n01: b\n02: c\n03: d\n04: e\n05: f\n06: g\n07: h\n08: i\n09: j\n10: k\nAnswer with the number of one level only."},
		"second in turn": {Question{Kind: Letters, Options: named("x", "y")}, "A: x\nB: y\nAnswer with the letter of one option only."},
	} {
		m := &fake{chance: func(_, _ string) float64 { return 0.1 }}
		if _, err := Ask(t.Context(), m, hall, []Question{c.q}, generation.Params{}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"The robot is in the hall.\n\n" + c.want}; !slices.Equal(m.prompts, want) || m.whole[0] != (c.q.Kind == Whole) {
			t.Errorf("%s: %q", name, m.prompts)
		}
	}
}

func TestLabelsOfManyOptionsDifferAndNoneBeginsAnother(t *testing.T) {
	for n := 1; n <= MaxOptions; n++ {
		for _, kind := range []Kind{Letters, Levels} {
			q := Question{Kind: kind, Options: make([]Option, n)}
			seen := map[string]bool{}
			for i := range n {
				label := q.label(i, i)
				if seen[label] || len(label) != len(q.label(0, 0)) {
					t.Fatalf("%d options: %q", n, label)
				}
				seen[label] = true
			}
		}
	}
}

func TestProbabilitiesAreRenormalisedAndMassIsTheSum(t *testing.T) {
	m := &fake{chance: func(_, a string) float64 { return map[string]float64{"A": 0.1, "B": 0.3, "C": 0}[a] }}
	got, err := Ask(t.Context(), m, hall, []Question{{Kind: Letters, Options: named("x", "y", "z")}}, generation.Params{})
	if err != nil {
		t.Fatal(err)
	}
	a := got[0]
	if math.Abs(a.Probabilities[0]-0.25) > 1e-12 || math.Abs(a.Probabilities[1]-0.75) > 1e-12 || a.Probabilities[2] != 0 || math.Abs(a.Mass-0.4) > 1e-12 || a.Top() != 1 || !a.Best || a.Input != 10 || a.Cached != 4 || a.Output != 1 {
		t.Errorf("%+v", a)
	}
}

// A model that only likes the first place gives every option the same probability, once all orders are averaged.
func TestOrderOfOptionsIsAveragedOut(t *testing.T) {
	m := &fake{chance: func(_, a string) float64 { return map[string]float64{"A": 0.8, "B": 0.1, "C": 0.05}[a] }}
	for orders, even := range map[int]bool{1: false, 2: false, 3: true, 16: true} {
		got, err := Ask(t.Context(), m, hall, []Question{{Kind: Letters, Options: named("x", "y", "z"), Orders: orders}}, generation.Params{})
		if err != nil {
			t.Fatal(err)
		}
		sum, equal := 0.0, true
		for _, p := range got[0].Probabilities {
			sum += p
			equal = equal && math.Abs(p-1.0/3) < 1e-12
		}
		if math.Abs(sum-1) > 1e-12 || equal != even || math.Abs(got[0].Mass-0.95) > 1e-12 || got[0].Input != 10*min(orders, 3) {
			t.Errorf("%d orders: %+v", orders, got[0])
		}
	}
	// What an option is does not move with its place.
	knows := &fake{chance: func(prompt, label string) float64 {
		if strings.Contains(prompt, "\n"+label+": y\n") {
			return 0.7
		}
		return 0.1
	}}
	got, err := Ask(t.Context(), knows, hall, []Question{{Kind: Letters, Options: named("x", "y", "z"), Orders: 3}}, generation.Params{})
	if err != nil || math.Abs(got[0].Probabilities[1]-7.0/9) > 1e-12 {
		t.Errorf("%+v, %v", got, err)
	}
	levels := Question{Kind: Levels, Options: named("a", "b", "c"), Orders: 9}
	if orders := levels.orders(); len(orders) != 2 || !slices.Equal(orders[1], []int{2, 1, 0}) {
		t.Errorf("levels are shown in %v", orders)
	}
}

func TestAnswerWithoutProbabilityHasNone(t *testing.T) {
	m := &fake{chance: func(_, _ string) float64 { return 0 }}
	got, err := Ask(t.Context(), m, hall, []Question{{Kind: YesNo, Options: make([]Option, 2)}}, generation.Params{})
	if err != nil || got[0].Probabilities != nil || got[0].Mass != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrorNamesItsQuestion(t *testing.T) {
	m := &fake{chance: func(_, _ string) float64 { return 0.1 }, refuse: "second"}
	questions := []Question{
		{Kind: YesNo, Instructions: "first", Options: make([]Option, 2)}, {Kind: YesNo, Instructions: "second", Options: make([]Option, 2)},
	}
	var wrong *Error
	if _, err := Ask(t.Context(), m, hall, questions, generation.Params{}); !errors.As(err, &wrong) || wrong.Question != 1 {
		t.Error(err)
	}
	answered := &format.Chat{Messages: []format.ChatMessage{{Text: "a"}, {Model: true, Text: "b"}}}
	if _, err := Ask(t.Context(), m, answered, []Question{{Kind: Whole, Options: named("x", "y")}}, generation.Params{}); !errors.As(err, &wrong) {
		t.Error(err)
	}
}

func TestStateForManyQuestionsCountsInTheBudget(t *testing.T) {
	share := budget.New(1 << 20).Share()
	defer share.Release()
	m := &fake{chance: func(_, _ string) float64 { return 0.1 }}
	state := &format.Chat{Messages: []format.ChatMessage{{Text: strings.Repeat("x", 1<<12)}}}
	var questions []Question
	for i := range 200 {
		questions = append(questions, Question{Kind: YesNo, Instructions: fmt.Sprint(i), Options: make([]Option, 2)})
	}
	if _, err := Ask(budget.With(t.Context(), share), m, state, questions, generation.Params{}); err == nil || len(m.prompts) > 0 {
		t.Errorf("%d prompts were made, %v", len(m.prompts), err)
	}
}
