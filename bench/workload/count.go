package workload

import "slices"

// Counts are sums over rendered turns.
type Counts struct {
	Turns      int `json:"turns"`
	Candidates int `json:"candidates"`
	// PromptTokens counts the tokens that a server without a prefix cache computes.
	PromptTokens int `json:"prompt_tokens"`
	// UniqueTokens is the number of nodes in the trie of all prompts. A prefix cache that
	// evicts nothing computes as many, and needs as many KV cells. A server computes the
	// last token of a cached prompt again for its logits; that token counts once.
	UniqueTokens int `json:"unique_tokens"`
}

// Count sums over turns. UniqueTokens leaves out prefixes that the warm-up turns have.
func Count(turns, warmup []Turn) Counts {
	c := Counts{Turns: len(turns)}
	known := prompts(warmup)
	all := slices.Clone(known)
	for i := range turns {
		c.Candidates += turns[i].Candidates
		c.PromptTokens += len(turns[i].Tokens)
	}
	c.UniqueTokens = unique(append(all, prompts(turns)...)) - unique(known)
	return c
}

func prompts(turns []Turn) [][]int32 {
	list := make([][]int32, len(turns))
	for i := range turns {
		list[i] = turns[i].Tokens
	}
	return list
}

// unique is the number of different nonempty prefixes, and sorts the sequences. In
// sorted order a sequence shares its longest prefix with the one before it.
func unique(sequences [][]int32) int {
	slices.SortFunc(sequences, slices.Compare[[]int32])
	n := 0
	var before []int32
	for _, s := range sequences {
		n += len(s) - shared(before, s)
		before = s
	}
	return n
}

// shared is the length of the common prefix.
func shared(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
