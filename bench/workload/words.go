package workload

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// vocabulary is the vocabulary of synthetic texts: common words, one token each in
// most models.
var vocabulary = strings.Fields(`
	the a this that each every some any no one two three four five six seven eight nine ten first last next other
	robot arm gripper wheel sensor camera battery charger station dock map path route corner corridor room hall door
	window wall floor ramp lift stairs gate yard shelf table rack tray box crate pallet basket drawer cabinet cart
	belt line cell bench tool part bolt screw plate panel cable hose valve pump tank pipe motor switch lamp button
	cup bottle plate bowl book towel paper bag key card label parcel order list person worker visitor guest child
	red blue green white black yellow grey small large long short heavy light empty full open closed warm cold wet dry
	clean dirty old new left right upper lower front back near far safe slow fast early late ready busy free
	is are was has had can may must should will does did goes went comes came takes took gives gave puts finds found
	moves moved turns turned opens closed lifts carries holds held drops dropped pushes pulls waits waited stops
	stopped starts started checks checked looks sees saw hears reports reported asks answers knows needs keeps leaves
	left follows followed reaches reached returns returned works charges loads unloads sorts counts measures
	and or but then when while because before after until if so again still already only also not never always often
	now here there inside outside above below behind beside between across along around through over under from to
	with without for at by of in on into onto up down out off away back together alone about almost exactly
	time minute hour day morning evening shift task step plan goal rule place area side end edge middle level speed
	weight size number name state value range limit error signal message request result change reason problem`)

// text is n random words as sentences. It starts with first unless that is "".
func text(r *rand.Rand, n int, first string) string {
	var b strings.Builder
	left := 0 // words of the current sentence
	for i := range n {
		word := vocabulary[r.IntN(len(vocabulary))]
		if i == 0 && first != "" {
			word = first
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if left == 0 {
			left = 6 + r.IntN(9)
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
		if left--; left == 0 || i == n-1 {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// sentences cuts a text into its sentences.
func sentences(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.SplitAfter(text, ". ")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

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
