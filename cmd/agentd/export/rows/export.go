// Package rows makes training data of what agents decided: chat messages, preference pairs and
// tokens with their logprobs. It reads saved exchanges, graphs of magma-gen and corrections of
// people, one after the other, and keeps only an index of them in memory.
package rows

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Kinds of rows.
const (
	Chat     = "chat"     // messages and tools, the decision as the last message
	Pairs    = "pairs"    // a prompt, a chosen and a rejected message
	Rollouts = "rollouts" // token ids with logprobs
)

// Formats of a file.
const (
	JSONL   = "jsonl"
	Parquet = "parquet"
)

// Config says what is written. An empty filter takes everything.
type Config struct {
	Kind   string // Chat, Pairs or Rollouts
	Format string // JSONL or Parquet

	Origins    []string // of the internal step: model, coaching
	Components []string // of the internal step: commander, summarizer
	Statuses   []string // of the candidate: completed, error
	Outcomes   []string // of the candidate: success, failure or any other word; OutcomeUnknown
}

// OutcomeUnknown in a filter takes candidates without an outcome.
const OutcomeUnknown = "unknown"

// Summary counts what was read and written.
type Summary struct {
	Situations int            // inputs with their candidates
	Candidates int            // of all situations
	Filtered   int            // candidates that a filter left out
	Rows       int            // that were written
	Skipped    map[string]int // candidates and steps that cannot be a row, by reason

	Failures int // chat rows whose outcome is Failure
	Equal    int // situations without candidates to prefer or a correction; 0 unless the kind is Pairs

	Corrections int            // among the candidates; 0 unless the kind is Pairs
	Unpaired    map[string]int // corrections that gave no pair, by reason

	seen    map[string]map[string]int // what the filters looked at: by filter, the number of each word
	matched bool                      // a candidate or step passed them
}

// noOutcome is what seen has of candidates with a reward only.
const noOutcome = OutcomeUnknown + " (with a reward)"

// see counts a word that a filter looks at.
func (s *Summary) see(filter, word string) {
	if s.seen[filter] == nil {
		s.seen[filter] = map[string]int{}
	}
	s.seen[filter][word]++
}

// NothingMatches is an error if the filters left nothing. It says what there was.
func (s *Summary) NothingMatches(c Config) error {
	if s.matched || s.Filtered+s.Unpaired[filtered] == 0 {
		return nil
	}
	var text []string
	for _, filter := range []struct {
		name string
		want []string
	}{{"outcome", c.Outcomes}, {"status", c.Statuses}, {"origin", c.Origins}, {"component", c.Components}} {
		if len(filter.want) == 0 {
			continue
		}
		var there []string
		for _, word := range slices.Sorted(maps.Keys(s.seen[filter.name])) {
			there = append(there, fmt.Sprintf("%d %s", s.seen[filter.name][word], word))
		}
		text = append(text, fmt.Sprintf("--%s %s; there were %s", filter.name, strings.Join(filter.want, ","), cmp.Or(strings.Join(there, ", "), "none")))
	}
	return fmt.Errorf("nothing matches the filters: %s", strings.Join(text, ". "))
}

// String is the summary for a person.
func (s *Summary) String() string {
	text := fmt.Sprintf("%d rows of %d candidates of %d inputs; %d filtered", s.Rows, s.Candidates, s.Situations, s.Filtered)
	for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
		text += fmt.Sprintf("\n%d skipped: %s", s.Skipped[reason], reason)
	}
	if s.Failures > 0 {
		text += fmt.Sprintf("\n%d rows are failures; for supervised fine-tuning set outcome to success", s.Failures)
	}
	if s.Equal > 0 {
		text += fmt.Sprintf("\n%d inputs gave no pairs: they have no correction, and no decisions whose outcomes or rewards differ", s.Equal)
	}
	if s.Corrections > 0 {
		paired := s.Corrections
		for _, n := range s.Unpaired {
			paired -= n
		}
		text += fmt.Sprintf("\n%d of %d corrections gave pairs", paired, s.Corrections)
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Unpaired)) {
		text += fmt.Sprintf("\n%d corrections gave none: %s", s.Unpaired[reason], reason)
	}
	return text
}

// Run writes rows of all sources to w. It reads the sources twice: first for keys of backends,
// which no row may hold, and for what corrections replaced.
func Run(ctx context.Context, sources *Sources, c Config, w io.Writer) (*Summary, error) {
	if err := sources.index(ctx, c.Kind == Pairs); err != nil {
		return nil, err
	}
	e := &exporter{config: c, sources: sources, keys: sources.secrets.replacer(), wrote: map[uint64]uint64{}, summary: Summary{Skipped: map[string]int{}, Unpaired: map[string]int{}, seen: map[string]map[string]int{}}}
	var flush func() error
	switch c.Kind {
	case Chat:
		flush = into(w, c.Format, e.keys, &e.chat)
	case Pairs:
		flush = into(w, c.Format, e.keys, &e.pair)
	case Rollouts:
		flush = into(w, c.Format, e.keys, &e.rollout)
	default:
		return nil, fmt.Errorf("Config.Kind: got %q, want %s, %s or %s", c.Kind, Chat, Pairs, Rollouts)
	}
	if flush == nil {
		return nil, fmt.Errorf("Config.Format: got %q, want %s or %s", c.Format, JSONL, Parquet)
	}
	if err := sources.each(ctx, e.summary.Skipped, e.situation); err != nil {
		return nil, err
	}
	if err := flush(); err != nil {
		return nil, fmt.Errorf("writing rows: %w", err)
	}
	return &e.summary, nil
}

// exporter makes rows of situations. One of its writers is set.
type exporter struct {
	config  Config
	sources *Sources
	keys    *strings.Replacer // takes secrets out of texts
	wrote   map[uint64]uint64 // pairs of corrections, with the task of each; 0 is a saved run
	summary Summary
	chat    func(*chatRow) error
	pair    func(*pairRow) error
	rollout func(*rolloutRow) error
}

func (e *exporter) skip(reason string) { e.summary.Skipped[reason]++ }

func (e *exporter) situation(s *Situation) error {
	e.summary.Situations++
	e.summary.Candidates += len(s.Candidates)
	if e.config.Kind == Pairs {
		return e.pairs(s)
	}
	write := e.rollouts
	if e.config.Kind == Chat {
		write = e.chats
	}
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if !e.wants(c) {
			e.summary.Filtered++
			continue
		}
		if err := write(s, c); err != nil {
			return err
		}
	}
	return nil
}

// wants applies the filters of candidates.
func (e *exporter) wants(c *Candidate) bool {
	outcome := cmp.Or(c.Outcome, OutcomeUnknown)
	e.summary.see("status", c.Status)
	if c.Outcome == "" && c.Reward != nil {
		e.summary.see("outcome", noOutcome)
	} else {
		e.summary.see("outcome", outcome)
	}
	return admits(e.config.Statuses, c.Status) && admits(e.config.Outcomes, outcome)
}

// wantsStep applies the filters of internal steps.
func (e *exporter) wantsStep(s *step) bool {
	e.summary.see("origin", s.origin)
	e.summary.see("component", s.component)
	passed := admits(e.config.Origins, s.origin) && admits(e.config.Components, s.component)
	e.summary.matched = e.summary.matched || passed
	return passed
}

func admits(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
