package suite

import (
	"context"
	"errors"
	"fmt"

	"agentd/bench/ceiling"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// check asks a real llama-server in every way in which the harness can ask it, and
// holds the answers and counters against what they must be. A llama.cpp that answers
// otherwise would be measured wrongly without any error. It serves the default model,
// which is fast and has a grammar.
func check(ctx context.Context, options *Options) (err error) {
	s := &session{Options: options, Workload: &Workload{Name: "check", Trace: workload.Defaults(workload.Household), FixedTokens: checkTokens}}
	s.Trace.Agents, s.Trace.Groups, s.Trace.Turns = 1, 1, 1
	if s.file, err = s.model(); err != nil {
		return fmt.Errorf("the default model: %w", err)
	}
	if s.trace, err = s.rendered(ctx, s.Trace); err != nil {
		return err
	}
	s.longest = len(s.trace.Turns[0].Tokens) + checkTokens
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("it took longer than %s", runLimit))
	defer cancel()
	setting := Setting{Slots: s.Trace.Candidates, Mode: target.ModeN, Cache: ceiling.Cache{FlashAttention: "auto"}}
	server, err := start(ctx, armServer, s.LlamaServer, s.serverArgs(s.Options, setting))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, mode := range []target.Mode{target.ModeN, target.ModeSeparate} {
		t, err := target.NewLlamaServer(server.url, mode)
		if err != nil {
			return err
		}
		for _, o := range []target.Options{
			{FixedTokens: checkTokens}, {FixedTokens: checkTokens, Stream: true}, {FixedTokens: checkTokens, Greedy: true},
			{MaxTokens: checkTokens}, {MaxTokens: checkTokens, Stream: true},
		} {
			if err := s.ask(ctx, t, o); err != nil {
				return errors.Join(fmt.Errorf("llama-server, mode %s, %+v: %w", mode, o, err), t.Close())
			}
		}
		if err := t.Close(); err != nil {
			return err
		}
	}
	return nil
}

// checkTokens of each candidate.
const checkTokens = 8

// ask asks the first turn and checks the answer.
func (s *session) ask(ctx context.Context, t target.Target, o target.Options) error {
	before, err := t.Counters(ctx)
	if err != nil {
		return err
	}
	turn := &s.trace.Turns[0]
	a, err := t.Ask(ctx, turn, o)
	if err != nil {
		return err
	}
	after, err := t.Counters(ctx)
	if err != nil {
		return err
	}
	n := turn.Candidates
	most := n * (o.FixedTokens + o.MaxTokens)
	switch generated := after.Generated - before.Generated; {
	case len(a.Candidates) != n || a.PromptTokens != len(turn.Tokens):
		return fmt.Errorf("%d candidates of a prompt of %d tokens, where %d of %d were asked for", len(a.Candidates), a.PromptTokens, n, len(turn.Tokens))
	case o.FixedTokens > 0 && a.OutputTokens != most || a.OutputTokens <= 0 || a.OutputTokens > most:
		return fmt.Errorf("%d tokens of output, where %d were asked for", a.OutputTokens, most)
	case int(generated) != a.OutputTokens:
		return fmt.Errorf("%g tokens were counted as generated, and %d answered", generated, a.OutputTokens)
	case after.Steps <= before.Steps:
		return errors.New("no steps were counted")
	case after.Prefilled-before.Prefilled < 1 || a.ComputedTokens < 1 || a.ComputedTokens > n*len(turn.Tokens):
		return fmt.Errorf("%g prompt tokens were counted as computed, and %d answered", after.Prefilled-before.Prefilled, a.ComputedTokens)
	case a.First <= 0 || a.Queue < 0:
		return fmt.Errorf("the first token came after %s, %s of them in the queue", a.First, a.Queue)
	case o.Stream && len(a.Gaps) != a.OutputTokens-n:
		return fmt.Errorf("%d times between %d tokens of %d candidates", len(a.Gaps), a.OutputTokens, n)
	}
	return nil
}
