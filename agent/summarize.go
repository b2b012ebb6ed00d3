package agent

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"unicode/utf8"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/protocol"
)

// Summary is when and how the history-summarized agent summarizes.
type Summary struct {
	// Budget bounds a prompt; beyond it the history is summarized first.
	// DefaultSummaryBudget when 0.
	Budget int
	// Characters: the budget counts these (Unicode code points), not tokens.
	Characters bool
	// MaxTokens bounds a summary, which ends there; DefaultSummaryMaxTokens when 0.
	MaxTokens int
	// Keep is how many entries of the history stay behind the summary, the newest
	// ones, as far as the budget allows.
	Keep int
	// Count counts the tokens of a prompt. Of one that certainly has more than limit
	// it may return another number above limit.
	Count func(ctx context.Context, prompt []format.Segment, limit int) (int, error)
}

// historySummarized replaces a history by a summary when a prompt exceeds its budget.
// The model writes it, as the answer to a prompt that begins like the commander's: so
// the prefix cache has most of it.
type historySummarized struct {
	*Agent
	grammar string // of a summary; "" is no constraint
}

func newHistorySummarized(a *Agent) (*historySummarized, error) {
	h := &historySummarized{Agent: a}
	if a.cfg.Constrain == ConstrainOn {
		var err error
		if h.grammar, err = a.format.ChatGrammar(nil); err != nil {
			return nil, fmt.Errorf("the grammar of summaries: %w", err)
		}
	}
	return h, nil
}

func (h *historySummarized) corrects() bool { return false }

// sequences counts a summary wherever there is a history: what its prompt measures is
// only known once it is rendered, which an admission must not wait for.
func (h *historySummarized) sequences(j *job) int { return min(1, len(j.memory.History)) }

// look asks for a summary of a history whose prompt exceeds the budget: one for all
// candidates of the input, decoded as they are.
func (h *historySummarized) look(ctx context.Context, requestID string, t *task) (*shortening, *failure) {
	size, err := h.measure(ctx, t.prompt)
	if err != nil {
		code, component := classify(err)
		return nil, &failure{code, component, err}
	}
	j := t.job
	switch budget := h.cfg.Summary.Budget; {
	case size <= budget:
		return nil, nil
	case len(j.memory.History) == 0:
		return nil, h.overBudget("the prompt has %s without any history that could be summarized", size)
	}
	input := j.input(0, h.format.ShowsResults())
	input.Summarize = true
	prompt, err := h.format.Render(input)
	if err != nil {
		return nil, &failure{CodeModelError, ComponentSummarizer, err}
	}
	// The seed behind those of the candidates, which so are those of the full-history agent.
	all := seeds(h.cfg.Seed, requestID, j.in.ID, j.sequences()+1)
	return &shortening{prompt: prompt, generation: Generation{
		Prompt: prompt.Segments, N: 1, MaxTokens: h.cfg.Summary.MaxTokens, Greedy: j.greedy, Sampling: h.cfg.Sampling,
		Seeds: all[len(all)-1:], Grammar: h.grammar, SuppressControl: h.format.SuppressControl(), StopRepeats: !h.cfg.KeepRepeating,
	}}, nil
}

// shorten reads the summary, puts it into the memory and makes the prompt anew. Of
// the messages to keep there are fewer where the budget would be exceeded again.
func (h *historySummarized) shorten(ctx context.Context, t *task, result Result, err error) *failure {
	summary, failed := h.read(t, result, err)
	if failed != nil {
		return failed
	}
	long := t.job.memory
	// The less stays, the shorter is the prompt.
	most := min(h.cfg.Summary.Keep, len(long.History))
	fits := false
	gone := sort.Search(most, func(gone int) bool {
		if failed == nil {
			fits, failed = h.replace(ctx, t, long, summary, most-gone)
		}
		return failed != nil || fits
	})
	if failed == nil {
		fits, failed = h.replace(ctx, t, long, summary, most-gone)
	}
	if failed == nil && !fits {
		failed = h.overBudget("the prompt has %s with a summary in place of the history", t.shortening.size)
	}
	return failed
}

// replace puts a summary in place of all but the last keep entries of a memory, or
// fewer, and makes the prompt anew. It tells whether that is within the budget.
func (h *historySummarized) replace(ctx context.Context, t *task, long *memory.Memory, summary string, keep int) (bool, *failure) {
	for first := len(long.History) - keep; keep > 0 && first > 0 && !mayBegin(long.History, first, h.format.ShowsResults()); first++ {
		keep-- // a result never stands without its call
	}
	short, problems := memory.Parse(long.Summarized(summary, keep), h.format.StateKey())
	if len(problems) > 0 {
		return false, &failure{CodeModelError, ComponentSummarizer, fmt.Errorf("the memory with its summary can't be read: %w", problems)}
	}
	t.job.memory = short
	prompt, err := h.format.Render(t.job.input(0, h.format.ShowsResults()))
	if err != nil {
		return false, &failure{CodeModelError, ComponentCommander, err}
	}
	size, err := h.measure(ctx, prompt)
	if err != nil {
		code, component := classify(err)
		return false, &failure{code, component, err}
	}
	t.prompt, t.generation.Prompt = prompt, prompt.Segments
	t.shortening.size = size
	return size <= h.cfg.Summary.Budget, nil
}

// read is the summary that was generated. Its internal step is kept in any case.
func (h *historySummarized) read(t *task, result Result, err error) (string, *failure) {
	fail := func(code string, err error) (string, *failure) {
		return "", &failure{code, ComponentSummarizer, fmt.Errorf("the history could not be summarized: %w", err)}
	}
	s := t.shortening
	if err == nil && len(result.Completions) != 1 {
		err = ModelError{fmt.Errorf("%d completions came back where 1 was asked for", len(result.Completions))}
	}
	if err != nil {
		code, _ := classify(err)
		return fail(code, err)
	}
	c := &result.Completions[0]
	summary, invalid := "", c.Err
	if c.Err == nil {
		summary, invalid = format.ReadSummary(h.format, c.Text)
	}
	if c.Err == nil || c.Tokens > 0 { // else nothing was said
		step := newStep(t.job, s.prompt, 0, ComponentSummarizer, protocol.OriginModel)
		t.steps = []protocol.Raw{step.model(&result, c, s.generation.Seeds[0], nil)}
		h.log.write(ComponentSummarizer, s.prompt.Text, c.Text+c.Stop, invalid)
	}
	switch {
	case c.Err != nil:
		code, _ := classify(c.Err)
		return fail(code, c.Err)
	// What there is of it counts. If it did not, the next turn would ask for the same summary again.
	case (c.Finish == FinishLength || c.Finish == FinishRepeat) && invalid == nil:
	case c.Finish == FinishRepeat:
		return fail(CodeTruncated, repeatedError(c.Repeated))
	case c.Finish != FinishStop:
		return fail(CodeTruncated, fmt.Errorf("the summary ended after %d tokens (%s) before there was a text that can be used; --summary-max-tokens bounds it", c.Tokens, c.Finish))
	case invalid != nil:
		return fail(CodeInvalidOutput, invalid)
	}
	return summary, nil
}

// measure is the size of a prompt in the budget's unit.
func (h *historySummarized) measure(ctx context.Context, prompt *format.Prompt) (int, error) {
	if h.cfg.Summary.Characters {
		return utf8.RuneCountInString(prompt.Text), nil
	}
	return h.cfg.Summary.Count(ctx, prompt.Segments, h.cfg.Summary.Budget)
}

// overBudget says that no summary brings a prompt within the budget.
func (h *historySummarized) overBudget(what string, size int) *failure {
	unit := "tokens"
	if h.cfg.Summary.Characters {
		unit = "characters"
	}
	what = fmt.Sprintf(what, fmt.Sprintf("%d %s", size, unit))
	return &failure{CodeContextBudget, ComponentContextBudget, errors.New(what + fmt.Sprintf(
		", and its budget is %d: raise --summary-budget, or send a shorter instruction, fewer tools, rules or attributes", h.cfg.Summary.Budget))}
}
