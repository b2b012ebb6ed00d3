package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentd/scheduler/generation"
)

// distinct asks for n completions that differ in their letters. One that begins with "!" is none.
func distinct(n int) *generation.Request {
	r := request(n)
	r.Distinct = &generation.Distinct{Key: func(text string) (string, bool) {
		return strings.ToLower(text), !strings.HasPrefix(text, "!")
	}}
	return r
}

// told is each completion with its branch or its error.
func told(r generation.Result) (list []string) {
	for _, c := range r.Completions {
		switch {
		case errors.Is(c.Err, generation.ErrFewer):
			list = append(list, "fewer")
		case errors.Is(c.Err, context.DeadlineExceeded):
			list = append(list, "late")
		case c.Branch == nil:
			list = append(list, c.Text)
		default:
			list = append(list, fmt.Sprintf("%s %.2f %d", c.Text, c.Branch.Logprob, c.Branch.Paths))
		}
	}
	return list
}

// Each text ends with a token of its own, so one of two letters has three logprobs.
func TestDistinctCompletionsAreDrawnUntilEnoughDiffer(t *testing.T) {
	logprobs := map[string]float32{"aa": -1, "bb": -2, "BB": -2, "cc": -0.5, "!x": -9, "dd": -3}
	for name, test := range map[string]struct {
		n     int
		drawn []string // by seed, the last one again and again
		want  []string
		calls int
	}{
		"all at once":               {3, []string{"aa", "bb", "cc"}, []string{"cc -1.50 1", "aa -3.00 1", "bb -6.00 1"}, 1},
		"repeated ones":             {2, []string{"aa", "aa", "aa", "bb"}, []string{"aa -3.00 1", "bb -6.00 1"}, 2},
		"two texts of one":          {2, []string{"bb", "BB", "bb", "aa"}, []string{"aa -3.00 1", "bb -5.31 2"}, 2},
		"no more than asked for":    {2, []string{"bb", "bb", "aa", "cc"}, []string{"aa -3.00 1", "bb -6.00 1"}, 2},
		"fewer":                     {3, []string{"aa"}, []string{"aa -3.00 1", "fewer", "fewer"}, drawsEach},
		"what is none comes behind": {3, []string{"!x", "aa"}, []string{"aa -3.00 1", "!x", "fewer"}, drawsEach},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			f.reply = func(seed uint32) string { return test.drawn[min(int(seed-100), len(test.drawn)-1)] }
			f.logprob = func(text string) float32 { return logprobs[text] }
			got, err := started(t, f).Generate(t.Context(), distinct(test.n))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(told(got), test.want) || f.count() != test.calls {
				t.Errorf("%q in %d calls, want %q in %d", told(got), f.count(), test.want, test.calls)
			}
		})
	}
}

// llama-server tells no logprob of a token that ends within a character, and SGLang none at all.
func TestDistinctCompletionsNeedLogprobs(t *testing.T) {
	f := newFake(t, APILlamaServer)
	f.reply = func(seed uint32) string { return fmt.Sprint(seed - 90) }
	got, err := started(t, f).Generate(t.Context(), distinct(2))
	if want := []string{"10 -4.00 1", "11 -4.00 1"}; err != nil || !slices.Equal(told(got), want) {
		t.Errorf("%q, %v, want %q", told(got), err, want)
	}
	f.noLogprobs = true
	if _, err := started(t, f).Generate(t.Context(), distinct(2)); err == nil || !strings.Contains(err.Error(), "candidates") {
		t.Errorf("without logprobs: %v", err)
	}
}

func TestDistinctCompletionsNeedTemperature(t *testing.T) {
	r := distinct(2)
	r.Temperature = 0
	f := newFake(t, APIVLLM)
	if _, err := started(t, f).Generate(t.Context(), r); err == nil || f.count() > 0 {
		t.Errorf("error %v, %d calls", err, f.count())
	}
}

func TestDistinctCompletionsDrawnBeforeTheDeadlineStay(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.logprob = func(string) float32 { return -1 }
	late := deadline{t.Context(), make(chan struct{})}
	calls, release := 0, make(chan struct{})
	defer close(release)
	f.intercepts(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != dialectOf(identity{api: APIVLLM}).path() {
			return false
		}
		if calls++; calls == 2 {
			close(late.done)
			<-release
		}
		return false
	})
	got, err := started(t, f).Generate(late, distinct(2))
	if want := []string{"ok -3.00 1", "late"}; err != nil || !slices.Equal(told(got), want) {
		t.Errorf("%q, %v, want %q", told(got), err, want)
	}
}

// deadline is a context whose deadline passes when the test decides.
type deadline struct {
	context.Context
	done chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.done }

func (d deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The oracle sums the probabilities of what an engine can draw.
func TestProbabilityOfDistinctCompletionsSumsTheirPaths(t *testing.T) {
	f := newFake(t, APIVLLM)
	forms := []string{"ab", "aB", "Ab", "AB"}
	f.reply = func(seed uint32) string { return forms[(seed-100)%4] }
	f.logprob = func(text string) float32 { return -float32(1 + slices.Index(forms, text)) }
	got, err := started(t, f).Generate(t.Context(), distinct(2))
	want := 0.0
	for i := range forms {
		want += math.Exp(-3 * float64(1+i))
	}
	if b := got.Completions[0].Branch; err != nil || b == nil || b.Paths != 4 || math.Abs(math.Exp(b.Logprob)-want) > 1e-9 || b.Exact {
		t.Errorf("%+v, %v, want a probability of %g", b, err, want)
	}
}
