package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Kinds of agents, which differ in how they handle a growing history. Each can continue the other's memory.
const (
	FullHistory       = "full-history"       // shows the model the whole history
	HistorySummarized = "history-summarized" // lets the model summarize the history when the prompt exceeds a budget
)

// shortening is the generation of a summary, before the candidates'.
type shortening struct {
	request generation.Request
	prompt  *format.Prompt
	size    int // of the candidates' prompt afterwards, in the budget's unit
	cut     int // messages left out of the history without a summary
}

// SummaryCounts counts the outcomes of a request's summaries.
type SummaryCounts struct {
	Whole, Truncated, Failed int // summaries. Truncated: one reached its token limit or repeated itself.
	Cut                      int // histories whose oldest messages were left out without a summary
}

// errNoCorrections: an edit of the memory would not repair a summary.
var errNoCorrections = errors.New("the " + HistorySummarized + " agent takes no corrections, see coaching_resume of /v1/info: leave extra_keys.coaching out, or use a server with the " + FullHistory + " agent")

// fillKind sets the defaults of the kind of agent and validates its settings.
func (c *Config) fillKind() error {
	s := &c.Summary
	switch c.Kind {
	case "", FullHistory:
		c.Kind = FullHistory
		if s.Budget != 0 || s.MaxTokens != 0 || s.Keep != 0 || s.Characters {
			return fmt.Errorf("a summary is for the %s agent, and this is %s", HistorySummarized, FullHistory)
		}
		return nil
	case HistorySummarized:
	default:
		return fmt.Errorf("agent is %q; it must be %s or %s", c.Kind, FullHistory, HistorySummarized)
	}
	if s.Budget == 0 {
		s.Budget = DefaultSummaryBudget
		if s.Characters {
			s.Budget *= CharactersPerToken
		}
	}
	s.MaxTokens = cmp.Or(s.MaxTokens, DefaultSummaryMaxTokens)
	var errs []error
	bad := func(msg string, args ...any) { errs = append(errs, fmt.Errorf(msg, args...)) }
	if s.Budget < 0 || s.MaxTokens < 0 || s.Keep < 0 {
		bad("the summary's budget is %d, its tokens %d, the messages kept %d; none can be negative", s.Budget, s.MaxTokens, s.Keep)
	}
	if c.HistoryMaxMessages > 0 {
		bad("history_max_messages hides messages that a summary would have to hold; leave it out with the %s agent", HistorySummarized)
	}
	if c.IgnoreEnd {
		bad("answers of a fixed length are not summaries; use the %s agent for benchmarks", FullHistory)
	}
	return errors.Join(errs...)
}

// Summary configures the history-summarized agent.
type Summary struct {
	Budget     int  // the size of a prompt above which the history is summarized; DefaultSummaryBudget when 0
	Characters bool // Budget counts Unicode code points instead of tokens
	MaxTokens  int  // the token limit of a summary; DefaultSummaryMaxTokens when 0
	Keep       int  // the newest history entries that stay beside the summary, if the budget allows
}

// historySummarized lets the model replace the history by a summary when a prompt exceeds the
// budget. The prompt for the summary shares most of its prefix with prompts in the prefix cache.
type historySummarized struct {
	*Agent
	grammar string // of a summary, GBNF; "": no constraint
}

// shortening returns the generation of a summary for all candidates if the prompt exceeds the budget, else nil.
func (h *historySummarized) shortening(ctx context.Context, requestID string, in *inputRun) (*shortening, *failure) {
	size, err := h.measure(ctx, in.prompt)
	if err != nil {
		return nil, failed(err)
	}
	switch budget := h.cfg.Summary.Budget; {
	case size <= budget:
		return nil, nil
	case len(in.memory.History) == 0:
		return nil, h.overBudget("the prompt has %s without any history that could be summarized", size)
	}
	prompt, err := h.rendered(in, true) // both prompts are text from here on
	if err != nil {
		return nil, &failure{CodeModelError, ComponentSummarizer, err}
	}
	// The seed follows the candidates' seeds, which are thus the full-history agent's.
	all := seeds(h.cfg.Seed, requestID, in.input.ID, in.completions()+1)
	return &shortening{prompt: prompt, request: generation.Request{Params: generation.Params{
		N: 1, MaxTokens: h.cfg.Summary.MaxTokens, Sampling: h.sampling(in.greedy), Seeds: all[len(all)-1:],
		Scores: in.returns.scores(), Masks: in.returns.masks, Adapter: in.adapter.ID, Priority: in.priority,
		Grammar: h.grammar, SuppressControl: h.format.SuppressControl(), StopRepeats: !h.cfg.KeepRepeating,
	}}}, nil
}

// shorten puts the summary into the memory and renders the prompt again, with as many of the newest messages as the
// budget allows. If the summary is unusable or does not fit, the oldest messages are left out instead: to try again in
// the next turn would give the same summary.
func (h *historySummarized) shorten(ctx context.Context, in *inputRun, result *generation.Result, err error) *failure {
	long, s := in.memory, in.shortening
	summary, failed := h.read(in, result, err)
	if failed == nil {
		in.counts.Whole = 1
		if result.Completions[0].Finish != generation.FinishStop {
			in.counts.Whole, in.counts.Truncated = 0, 1
		}
		if fits, failed := h.fit(ctx, in, long, summary, min(h.cfg.Summary.Keep, len(long.History))); fits || failed != nil {
			return failed
		}
	} else {
		in.counts.Failed = 1
		if !slices.Contains([]string{CodeTruncated, CodeInvalidOutput, CodeContextOverflow}, failed.code) {
			return failed // another try may succeed
		}
	}
	note := strings.TrimSpace(strings.TrimSpace(strings.TrimSuffix(long.Summary, cutNote)) + "\n\n" + cutNote)
	for _, summary := range []string{note, cutNote} {
		if fits, failed := h.fit(ctx, in, long, summary, len(long.History)-1); failed != nil {
			return failed
		} else if fits {
			in.counts.Cut, s.cut = 1, len(long.History)-len(in.memory.History)
			return nil
		}
	}
	return h.overBudget("the prompt has %s with a summary in place of the history", s.size)
}

// cutNote is the summary where messages were left out without one.
const cutNote = "Earlier messages are missing here. They were too long, and no summary of them could be used."

// fit keeps the summary and as many of the newest messages as fit the budget, up to most. false: not even 0 fit.
func (h *historySummarized) fit(ctx context.Context, in *inputRun, long *memory.Memory, summary string, most int) (fits bool, failed *failure) {
	// Fewer messages make a shorter prompt, so a binary search finds the most that fit.
	gone := sort.Search(most, func(gone int) bool {
		if failed == nil {
			fits, failed = h.replace(ctx, in, long, summary, most-gone)
		}
		return failed != nil || fits
	})
	if failed == nil {
		fits, failed = h.replace(ctx, in, long, summary, most-gone)
	}
	return fits, failed
}

// replace puts the summary before at most the last keep entries, renders the prompt, and reports whether it fits.
func (h *historySummarized) replace(ctx context.Context, in *inputRun, long *memory.Memory, summary string, keep int) (bool, *failure) {
	for first := len(long.History) - keep; keep > 0 && first > 0 && !h.mayBegin(long.History, first); first++ {
		keep--
	}
	short, problems := memory.Parse(long.Summarized(summary, keep), h.format.StateKey())
	if len(problems) > 0 {
		return false, &failure{CodeModelError, ComponentSummarizer, fmt.Errorf("the memory with its summary can't be read: %w", problems)}
	}
	in.memory = short
	prompt, err := h.rendered(in, false)
	if err != nil {
		return false, &failure{CodeModelError, ComponentCommander, err}
	}
	size, err := h.measure(ctx, prompt)
	if err != nil {
		return false, failed(err)
	}
	in.prompt = prompt
	in.shortening.size = size
	return size <= h.cfg.Summary.Budget, nil
}

// read returns the generated summary and sets its internal step, also for an output that is unusable.
func (h *historySummarized) read(in *inputRun, result *generation.Result, err error) (string, *failure) {
	fail := func(f *failure) (string, *failure) {
		return "", &failure{f.code, ComponentSummarizer, fmt.Errorf("the history could not be summarized: %w", f.err)}
	}
	s := in.shortening
	if err = complete(result, 1, err); err != nil {
		return fail(failed(err))
	}
	c := &result.Completions[0]
	summary, invalid := "", c.Err
	if c.Err == nil {
		summary, invalid = format.ReadSummary(h.format, c.Text)
	}
	if c.Err == nil || len(c.Tokens) > 0 { // else there is no output
		step := newStep(in, s.prompt, 0, ComponentSummarizer, protocol.OriginModel, s.request.Prompt)
		in.steps = []protocol.Raw{step.model(result, c, s.request.Seeds[0], &format.Decision{}, -1)}
		h.log.write(ComponentSummarizer, s.prompt.Text, c.Text+c.Stop, invalid)
	}
	switch {
	case c.Err != nil:
		return fail(failed(c.Err))
	// A truncated summary is used. Without it the next turn would ask for the same summary again.
	case (c.Finish == generation.FinishLength || c.Finish == generation.FinishRepeat) && invalid == nil:
	case c.Finish == generation.FinishRepeat:
		return fail(&failure{code: CodeTruncated, err: repeatedError(c.Repeated)})
	case c.Finish != generation.FinishStop:
		return fail(&failure{code: CodeTruncated, err: fmt.Errorf("the summary ended after %d tokens (%s) before it had usable text; "+
			"raise max-tokens of summary on the server", len(c.Tokens), c.Finish)})
	case invalid != nil:
		return fail(&failure{code: CodeInvalidOutput, err: invalid})
	}
	return summary, nil
}

// measure returns a prompt's size in the budget's unit. Above the budget it may be a lower bound that is above it, too.
func (h *historySummarized) measure(ctx context.Context, prompt *format.Prompt) (int, error) {
	if h.cfg.Summary.Characters {
		return utf8.RuneCountInString(prompt.Text), nil
	}
	if least := h.tokenizer.AtLeast(prompt.Text); least > h.cfg.Summary.Budget {
		return least, nil
	}
	ids, err := h.tokenizer.Tokens(ctx, prompt.Segments)
	return len(ids), err
}

// overBudget returns the failure of a prompt that exceeds the budget even with a summary.
func (h *historySummarized) overBudget(what string, size int) *failure {
	unit := "tokens"
	if h.cfg.Summary.Characters {
		unit = "characters"
	}
	what = fmt.Sprintf(what, fmt.Sprintf("%d %s", size, unit))
	return &failure{CodeContextBudget, ComponentContextBudget, errors.New(what + fmt.Sprintf(
		", and its budget is %d: raise budget of summary on the server, or send a shorter instruction, fewer tools, rules or attributes", h.cfg.Summary.Budget))}
}
