// Package search chooses which branches of a tree of completions are computed, so that N
// different outcomes come out. It is pure: probabilities and ends go in, the branches to
// compute next come out.
//
// # Sampling without replacement
//
// With Config.Sample the search is a stochastic beam search (Kool, van Hoof and Welling 2019,
// "Stochastic Beams and Where to Find Them"). Each completion has a value: the logarithm of
// its probability plus noise of the standard Gumbel distribution. The N largest values are a
// sample without replacement in the order of the draws. The value of a branch is the largest
// value below it. It is drawn before that of its children, which are then drawn under this
// condition. So the best branches lead to the best completions, and no others are computed.
//
// Completions with equal keys are one outcome. The largest of their values has the Gumbel
// distribution of their common probability. So outcomes, too, are drawn without replacement.
//
// The noise of a branch is a function of the seed and its tokens. It does not depend on the
// order in which branches are computed.
//
// # The most probable ones
//
// Without Config.Sample the value is the logarithm of the probability: a beam search of width
// N. Outcomes take places of the beam. Once there are N of them, free places go to the best of
// the branches that the beam has set aside, while these can hold a better outcome than the N-th
// one, for a limited share of the expansions. Tree.Exact tells whether none is left.
package search

import (
	"container/heap"
	"math"
	"slices"

	"agentd/scheduler/generation"
)

// Config of a tree.
type Config struct {
	N      int    // outcomes, at least 1
	Sample bool   // draw; false: the most probable ones
	Seed   uint32 // of the draws
	// MaxExpansions is the limit of calls of Expand.
	MaxExpansions int
	// ExtraShare, without Sample, limits the expansions of branches that the beam has set aside
	// to a share of the others. There is no limit while the beam is empty and outcomes are
	// missing.
	ExtraShare float64
}

// Child is a token that may follow a branch.
type Child struct {
	Token   generation.Token
	Logprob float64 // natural logarithm of its probability
}

// Node is a branch: the tokens from the root to it.
type Node struct {
	Parent *Node // nil: the root
	Token  generation.Token
	// Logprob is the natural logarithm of the probability of the branch.
	Logprob float64
	// Data is the caller's.
	Data any

	value float64
	noise uint64
	extra bool // it, or a branch before it, was taken up after the beam had set it aside
}

// Outcome is what completions with one key have in common.
type Outcome struct {
	Key     string
	Node    *Node   // of the first completion
	Logprob float64 // of all its completions together
	Paths   int     // number of its completions
	value   float64
}

// Tree is the state of a search.
type Tree struct {
	cfg Config
	// beam holds the last answer of Select and the children of its branches, without those
	// that were expanded or have ended. aside holds the other open branches.
	beam     []*Node
	aside    branches
	live     []*Node // the last answer of Select
	outcomes []*Outcome
	failed   []*Node
	// expansions is the number of all calls of Expand, extras that of extra branches.
	expansions, extras int
	dropped            bool    // open branches were forgotten
	omitted            float64 // highest value that a child can have which no Expand had
}

// maxAside bounds the branches that are set aside. The better half stays.
const maxAside = 1 << 16

// New makes a tree with its root to expand.
func New(cfg Config) *Tree {
	root := &Node{Token: -1, noise: mix(uint64(cfg.Seed))}
	if cfg.Sample {
		root.value = root.gumbel()
	}
	return &Tree{cfg: cfg, beam: []*Node{root}, omitted: math.Inf(-1)}
}

// Share is the share of the probability of a branch that Expand can do without. With
// Config.Sample it is negligible. Else it is that of children without leastOdds, or below the
// N-th outcome. It only reads, so branches may be listed at the same time.
func (t *Tree) Share(n *Node) float64 {
	if t.cfg.Sample {
		return negligible
	}
	return min(maxShare, math.Exp(max(t.bound(), leastOdds)-n.value))
}

const (
	negligible = 1e-5
	// leastOdds is the natural logarithm of the probability at which a branch hardly becomes
	// one of a few outcomes.
	leastOdds = -13
	// maxShare limits the error of probabilities.
	maxShare = 1e-2
)

// Expand replaces a branch of the last answer of Select by its children. Without children the
// branch is dropped. rest is the share of the probability that children lack, at most.
func (t *Tree) Expand(n *Node, children []Child, rest float64) {
	t.remove(n)
	t.expansions++
	if rest > 0 {
		t.omitted = max(t.omitted, n.value+math.Log(rest))
	}
	if n.extra {
		t.extras++
	}
	first, best := len(t.beam), math.Inf(-1)
	for _, c := range children {
		if !(c.Logprob > math.Inf(-1)) {
			continue
		}
		k := &Node{Parent: n, Token: c.Token, Logprob: n.Logprob + c.Logprob, noise: mix(n.noise ^ uint64(uint32(c.Token))), extra: n.extra}
		k.value = k.Logprob
		if t.cfg.Sample {
			k.value += k.gumbel()
		}
		best = max(best, k.value)
		t.beam = append(t.beam, k)
	}
	if t.cfg.Sample {
		for _, k := range t.beam[first:] {
			k.value = condition(k.value, best, n.value)
		}
	}
}

// End says that a branch is a completion. Equal keys are the same outcome.
func (t *Tree) End(n *Node, key string) {
	t.remove(n)
	for _, o := range t.outcomes {
		if o.Key == key {
			o.Paths++
			o.Logprob = addLog(o.Logprob, n.Logprob)
			o.value = max(o.value, n.value)
			return
		}
	}
	t.outcomes = append(t.outcomes, &Outcome{Key: key, Node: n, Logprob: n.Logprob, Paths: 1, value: n.value})
}

// Fail says that a branch has ended without an outcome.
func (t *Tree) Fail(n *Node) {
	t.remove(n)
	t.failed = append(t.failed, n)
}

// remove removes a branch of the beam.
func (t *Tree) remove(n *Node) {
	i := slices.Index(t.beam, n)
	last := len(t.beam) - 1
	t.beam[i] = t.beam[last]
	t.beam[last] = nil
	t.beam = t.beam[:last]
}

// Select returns the branches to compute next; none: the search has ended. The answer is valid
// until the next call.
func (t *Tree) Select() []*Node {
	t.live = t.live[:0]
	if t.expansions >= t.cfg.MaxExpansions {
		return nil
	}
	t.sortOutcomes()
	if t.cfg.Sample {
		for _, n := range t.beam {
			t.setAside(n)
		}
		clear(t.beam)
		t.beam = t.beam[:0]
		t.takeUp()
	} else {
		t.narrow()
		if len(t.beam) == 0 && len(t.outcomes) < t.cfg.N {
			t.takeUp()
		}
		t.fill()
	}
	t.live = append(t.live, t.beam...)
	return t.live
}

// places returns how many branches of the value of n may be computed beside better ones:
// outcomes that are better take their places.
func (t *Tree) places(n *Node) int {
	ended := 0
	for ended < len(t.outcomes) && t.outcomes[ended].value >= n.value {
		ended++
	}
	return t.cfg.N - ended
}

// narrow sets all branches of the beam aside but the best ones. Extra branches have no place of
// their own in it: fill may choose them again.
func (t *Tree) narrow() {
	best := t.live[:0] // at most N, best first
	for _, n := range t.beam {
		if n.extra || len(best) == t.cfg.N && better(n, best[t.cfg.N-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, n, better)
		best = slices.Insert(best, at, n)
		best = best[:min(len(best), t.cfg.N)]
	}
	for i, n := range best {
		if i >= t.places(n) {
			best = best[:i]
			break
		}
	}
	for _, n := range t.beam {
		if !slices.Contains(best, n) {
			t.setAside(n)
		}
	}
	clear(t.beam)
	t.beam, t.live = append(t.beam[:0], best...), best[:0]
}

// takeUp fills the beam with the best of the branches that were set aside.
func (t *Tree) takeUp() {
	for len(t.aside) > 0 && len(t.beam) < t.places(t.aside[0]) {
		n := heap.Pop(&t.aside).(*Node)
		n.extra = false
		t.beam = append(t.beam, n)
	}
}

// fill fills free places of the beam with extra branches, as far as their share allows. Before
// there are N outcomes, nothing tells which of them matter.
func (t *Tree) fill() {
	if len(t.outcomes) < t.cfg.N {
		return
	}
	most := int(t.cfg.ExtraShare*float64(t.expansions-t.extras)) - t.extras
	for ; most > 0 && len(t.beam) < t.cfg.N && len(t.aside) > 0 && t.aside[0].value > t.bound(); most-- {
		n := heap.Pop(&t.aside).(*Node)
		n.extra = true
		t.beam = append(t.beam, n)
	}
}

// bound is the value of the N-th outcome. No branch below it matters.
func (t *Tree) bound() float64 {
	if len(t.outcomes) < t.cfg.N {
		return math.Inf(-1)
	}
	return t.outcomes[t.cfg.N-1].value
}

// setAside adds a branch to aside, unless it does not matter.
func (t *Tree) setAside(n *Node) {
	if n.value <= t.bound() {
		return
	}
	heap.Push(&t.aside, n)
	if len(t.aside) > maxAside {
		slices.SortFunc(t.aside, better) // a sorted list is a heap
		clear(t.aside[maxAside/2:])
		t.aside, t.dropped = t.aside[:maxAside/2], true
	}
}

// branches is a heap, best first.
type branches []*Node

func (b branches) Len() int           { return len(b) }
func (b branches) Less(i, j int) bool { return better(b[i], b[j]) < 0 }
func (b branches) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *branches) Push(n any)        { *b = append(*b, n.(*Node)) }
func (b *branches) Pop() any {
	last := len(*b) - 1
	n := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return n
}

func (t *Tree) sortOutcomes() {
	slices.SortStableFunc(t.outcomes, func(a, b *Outcome) int { return descending(a.value, b.value) })
}

// Outcomes returns at most N outcomes: those drawn first, or the most probable ones. They are
// sorted by probability, highest first.
func (t *Tree) Outcomes() []*Outcome {
	t.sortOutcomes()
	list := slices.Clone(t.outcomes[:min(len(t.outcomes), t.cfg.N)])
	slices.SortStableFunc(list, func(a, b *Outcome) int { return descending(a.Logprob, b.Logprob) })
	return list
}

// Failed returns the branches that have ended without an outcome, in the order of Fail.
func (t *Tree) Failed() []*Node { return t.failed }

// Exhausted reports whether no branch is left that may hold a further outcome, apart from those
// that Omitted bounds.
func (t *Tree) Exhausted() bool { return len(t.beam) == 0 && len(t.aside) == 0 && !t.dropped }

// Omitted is the probability that an outcome can have which was never a child, at most. With
// Config.Sample it is 0.
func (t *Tree) Omitted() float64 {
	if t.cfg.Sample {
		return 0
	}
	return math.Exp(t.omitted)
}

// Exact reports whether no branch that is left can hold one of the N outcomes. Behind an ended
// search with Config.Sample it is false only if MaxExpansions was reached, or if more branches
// were set aside than are remembered.
func (t *Tree) Exact() bool {
	if t.Exhausted() {
		return true
	}
	if t.dropped || len(t.outcomes) < t.cfg.N {
		return false
	}
	t.sortOutcomes()
	if !t.cfg.Sample && t.omitted > t.bound() {
		return false
	}
	holds := func(n *Node) bool { return n.value > t.bound() }
	return !slices.ContainsFunc(t.beam, holds) && !slices.ContainsFunc(t.aside, holds)
}

// better orders branches: higher value first, then by noise, which no two of a tree share.
func better(a, b *Node) int {
	if c := descending(a.value, b.value); c != 0 {
		return c
	}
	switch {
	case a.noise > b.noise:
		return -1
	case a.noise < b.noise:
		return 1
	}
	return 0
}

func descending(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}
