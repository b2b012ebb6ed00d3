package render

import (
	"fmt"
	"slices"

	"agentd/bench/workload"
)

// Counts are sums over turns.
type Counts struct {
	Turns      int `json:"turns"`
	Candidates int `json:"candidates"`
	// PromptTokens of all turns: what a server without a prefix cache computes.
	PromptTokens int `json:"prompt_tokens"`
	// UniqueTokens of the prompts: the size of the trie of all prompts, a token in it
	// for each different beginning. A server with a perfect prefix cache that forgets
	// nothing computes so many, one for each KV cell that it needs. In fact it also
	// computes the last token of a prompt that it has already, for its logits.
	UniqueTokens int `json:"unique_tokens"`
}

// Ideal counts the turns of a rendered trace for which measured is true, nil being
// all of them. The prompts of the others, the warm-up, are known beforehand: their
// tokens are not counted again. The error is that of a trace that was not rendered.
func Ideal(trace *workload.Trace, measured func(*workload.Turn) bool) (Counts, error) {
	var c Counts
	var known, all [][]int32
	for i := range trace.Turns {
		t := &trace.Turns[i]
		if len(t.Tokens) == 0 {
			return Counts{}, fmt.Errorf("turn %d of agent %d has no tokens: render the trace first", t.Turn, t.Agent)
		}
		all = append(all, t.Tokens)
		if measured != nil && !measured(t) {
			known = append(known, t.Tokens)
			continue
		}
		c.Turns++
		c.Candidates += t.Candidates
		c.PromptTokens += len(t.Tokens)
	}
	c.UniqueTokens = unique(all) - unique(known)
	return c, nil
}

// unique is the number of different nonempty beginnings of some sequences. In
// their order, the new ones of a sequence are those beyond what it shares with the
// one before: any earlier one shares less.
func unique(sequences [][]int32) int {
	sorted := slices.Clone(sequences)
	slices.SortFunc(sorted, slices.Compare[[]int32])
	n := 0
	var before []int32
	for _, s := range sorted {
		n += len(s) - shared(before, s)
		before = s
	}
	return n
}

// shared is the length of the common beginning.
func shared(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
