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
// N. Branches that it has set aside are taken up again while they can hold a better outcome
// than the N-th one, for a limited number of expansions. Tree.Exact tells whether none is left.
package search

import (
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
	// ExtraShare, without Sample, limits those behind the first N outcomes to a share of those
	// before.
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
	aside bool // the beam has passed it over
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
	cfg        Config
	open       []*Node // neither expanded nor ended
	live       []*Node // the last answer of Select
	outcomes   []*Outcome
	failed     []*Node
	expansions int
	// limit of the expansions, also of those behind the first N outcomes once these are there.
	limit   int
	extra   bool // limit is that of the extra ones
	dropped bool // open branches were forgotten
}

// maxOpen bounds the branches that are remembered. The better half stays.
const maxOpen = 1 << 16

// New makes a tree with its root to expand.
func New(cfg Config) *Tree {
	root := &Node{Token: -1, noise: mix(uint64(cfg.Seed))}
	if cfg.Sample {
		root.value = root.gumbel()
	}
	return &Tree{cfg: cfg, open: []*Node{root}, limit: cfg.MaxExpansions}
}

// Expand replaces a branch by its children. Without children the branch is dropped.
func (t *Tree) Expand(n *Node, children []Child) {
	t.remove(n)
	t.expansions++
	first, best := len(t.open), math.Inf(-1)
	for _, c := range children {
		if !(c.Logprob > math.Inf(-1)) {
			continue
		}
		k := &Node{Parent: n, Token: c.Token, Logprob: n.Logprob + c.Logprob, noise: mix(n.noise ^ uint64(uint32(c.Token)))}
		k.value = k.Logprob
		if t.cfg.Sample {
			k.value += k.gumbel()
		}
		best = max(best, k.value)
		t.open = append(t.open, k)
	}
	if t.cfg.Sample {
		for _, k := range t.open[first:] {
			k.value = condition(k.value, best, n.value)
		}
	}
	if len(t.open) > maxOpen {
		slices.SortFunc(t.open, better)
		clear(t.open[maxOpen/2:])
		t.open, t.dropped = t.open[:maxOpen/2], true
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

// remove removes an open branch.
func (t *Tree) remove(n *Node) {
	i := slices.Index(t.open, n)
	last := len(t.open) - 1
	t.open[i] = t.open[last]
	t.open[last] = nil
	t.open = t.open[:last]
}

// Select returns the branches to compute next, best first; none: the search has ended. The
// answer is valid until the next call.
func (t *Tree) Select() []*Node {
	t.live = t.live[:0]
	if t.expansions >= t.limit {
		return nil
	}
	t.pick(func(n *Node) bool { return !n.aside })
	if t.cfg.Sample {
		return t.live
	}
	if len(t.live) > 0 {
		for _, n := range t.open {
			n.aside = n.aside || !slices.Contains(t.live, n)
		}
		return t.live
	}
	if len(t.outcomes) >= t.cfg.N && !t.extra {
		t.extra = true
		t.limit = int(min(float64(t.limit), float64(t.expansions)*(1+t.cfg.ExtraShare)))
		if t.expansions >= t.limit {
			return nil
		}
	}
	t.pick(func(*Node) bool { return true })
	for _, n := range t.live {
		n.aside = false
	}
	return t.live
}

// pick fills live with those of the N best that are not outcomes yet.
func (t *Tree) pick(from func(*Node) bool) {
	for _, n := range t.open {
		if !from(n) {
			continue
		}
		if len(t.live) == t.cfg.N && better(n, t.live[t.cfg.N-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(t.live, n, better)
		t.live = slices.Insert(t.live, at, n)
		t.live = t.live[:min(len(t.live), t.cfg.N)]
	}
	t.sortOutcomes()
	for i, n := range t.live { // the i branches before it are better
		ended := 0
		for ended < len(t.outcomes) && t.outcomes[ended].value >= n.value {
			ended++
		}
		if i+ended >= t.cfg.N {
			t.live = t.live[:i]
			return
		}
	}
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

// Exhausted reports whether no branch is left: there are no other outcomes.
func (t *Tree) Exhausted() bool { return len(t.open) == 0 && !t.dropped }

// Exact reports whether no branch that is left can hold one of the N outcomes. Behind an ended
// search with Config.Sample it is false only if MaxExpansions was reached.
func (t *Tree) Exact() bool {
	if t.Exhausted() {
		return true
	}
	if t.dropped || len(t.outcomes) < t.cfg.N {
		return false
	}
	t.sortOutcomes()
	least := t.outcomes[t.cfg.N-1].value
	return !slices.ContainsFunc(t.open, func(n *Node) bool { return n.value > least })
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
