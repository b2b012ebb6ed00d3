// Package search finds the N most probable outcomes in a tree of completions. It is pure: the
// probabilities and ends of branches go in, the branches to compute next come out.
//
// It is a beam search of width N. Completions with equal keys are one outcome, and an outcome takes
// a place in the beam. Once there are N outcomes, free places go to the best branches that the beam
// has set aside, while these can still hold a better outcome than the N-th. Such extra branches are
// a limited share of the expansions. Tree.Exact reports whether the N outcomes are proven best.
package search

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"agentd/scheduler/generation"
)

// Config of a tree.
type Config struct {
	N int // outcomes, at least 1
	// MaxExpansions is the limit of calls of Expand.
	MaxExpansions int
	// ExtraShare limits the expansions of branches that the beam has set aside to a share of the
	// others. There is no limit while the beam is empty and outcomes are missing.
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

	hash  uint64 // of its tokens; it orders branches with equal probabilities
	extra bool   // it, or a branch before it, was taken up after the beam had set it aside
}

// Outcome is what completions with one key have in common.
type Outcome struct {
	Key     string
	Node    *Node   // of the first completion
	Logprob float64 // of all its completions together
	Paths   int     // number of its completions
	best    float64 // logprob of the most probable completion
	paths   []float64
}

// sum sets Logprob. The order in which completions ended changes no bit of it.
func (o *Outcome) sum() {
	slices.Sort(o.paths)
	o.Logprob = LogSum(o.paths)
}

// LogSum returns the logarithm of the sum of e^x over a sorted list.
func LogSum(sorted []float64) float64 {
	if len(sorted) == 0 || math.IsInf(sorted[len(sorted)-1], -1) {
		return math.Inf(-1)
	}
	sum, largest := 0.0, sorted[len(sorted)-1]
	for _, x := range sorted {
		sum += math.Exp(x - largest)
	}
	return largest + math.Log(sum)
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
	omitted            float64 // highest logprob of a child that was left out of an Expand
}

const (
	// maxAside bounds the branches that are set aside. The better half stays.
	maxAside = 1 << 16
	// leastOdds is the natural logarithm of the probability at which a branch hardly becomes
	// one of a few outcomes.
	leastOdds = -13
	// maxSkipped limits the error of probabilities.
	maxSkipped = 1e-2
)

// New makes a tree with its root to expand.
func New(cfg Config) *Tree {
	return &Tree{cfg: cfg, beam: []*Node{{Token: -1}}, omitted: math.Inf(-1)}
}

// Skippable returns the probability mass that Expand may skip, as a share of the branch: that of
// children with odds below leastOdds, or below the N-th outcome. It only reads, so several threads
// may call it.
func (t *Tree) Skippable(n *Node) float64 {
	return min(maxSkipped, math.Exp(max(t.bound(), leastOdds)-n.Logprob))
}

// Expand replaces a branch of the last answer of Select by its children. Without children the
// branch is dropped. skipped is an upper bound of the probability mass that children lack, as a
// share of the branch.
func (t *Tree) Expand(n *Node, children []Child, skipped float64) {
	t.remove(n)
	t.expansions++
	if skipped > 0 {
		t.omitted = max(t.omitted, n.Logprob+math.Log(skipped))
	}
	if n.extra {
		t.extras++
	}
	for _, c := range children {
		if c.Logprob > math.Inf(-1) { // not for NaN either
			t.beam = append(t.beam, &Node{
				Parent: n, Token: c.Token, Logprob: n.Logprob + c.Logprob, hash: mix(n.hash ^ uint64(uint32(c.Token))), extra: n.extra,
			})
		}
	}
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// End marks a branch as a completion. Equal keys are the same outcome.
func (t *Tree) End(n *Node, key string) {
	t.remove(n)
	i := slices.IndexFunc(t.outcomes, func(o *Outcome) bool { return o.Key == key })
	if i < 0 {
		i = len(t.outcomes)
		t.outcomes = append(t.outcomes, &Outcome{Key: key, Node: n, best: n.Logprob})
	}
	o := t.outcomes[i]
	o.Paths++
	o.best = max(o.best, n.Logprob)
	o.paths = append(o.paths, n.Logprob)
}

// Fail marks a branch as ended without an outcome.
func (t *Tree) Fail(n *Node) {
	t.remove(n)
	t.failed = append(t.failed, n)
}

// remove removes a branch from the beam.
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
	t.narrow()
	if len(t.beam) == 0 && len(t.outcomes) < t.cfg.N { // the best branches that were set aside go on
		for len(t.aside) > 0 && len(t.beam) < t.places(t.aside[0]) {
			t.resume(false)
		}
	}
	t.fill()
	t.live = append(t.live, t.beam...)
	return t.live
}

// places returns how many places the beam has for n and worse branches: better outcomes take places
// too.
func (t *Tree) places(n *Node) int {
	ended := 0
	for ended < len(t.outcomes) && t.outcomes[ended].best >= n.Logprob {
		ended++
	}
	return t.cfg.N - ended
}

// narrow keeps the best branches of the beam and sets the others aside. Extra branches have no
// place of their own in it: fill may choose them again.
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

// fill gives free places of the beam to extra branches, as far as their share allows. Before there
// are N outcomes, it is not known which of them matter.
func (t *Tree) fill() {
	if len(t.outcomes) < t.cfg.N {
		return
	}
	most := int(t.cfg.ExtraShare*float64(t.expansions-t.extras)) - t.extras
	for ; most > 0 && len(t.beam) < t.cfg.N && len(t.aside) > 0 && t.aside[0].Logprob > t.bound(); most-- {
		t.resume(true)
	}
}

// resume moves the best branch that was set aside into the beam.
func (t *Tree) resume(extra bool) {
	n := heap.Pop(&t.aside).(*Node)
	n.extra = extra
	t.beam = append(t.beam, n)
}

// bound is the best logprob of the N-th outcome. No branch below it matters.
func (t *Tree) bound() float64 {
	if len(t.outcomes) < t.cfg.N {
		return math.Inf(-1)
	}
	return t.outcomes[t.cfg.N-1].best
}

// setAside adds a branch to aside, unless it does not matter.
func (t *Tree) setAside(n *Node) {
	if n.Logprob <= t.bound() {
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
	slices.SortStableFunc(t.outcomes, func(a, b *Outcome) int { return cmp.Compare(b.best, a.best) })
}

// Outcomes returns the N most probable outcomes, or fewer. They are sorted by probability, highest
// first.
func (t *Tree) Outcomes() []*Outcome {
	t.sortOutcomes()
	list := slices.Clone(t.outcomes[:min(len(t.outcomes), t.cfg.N)])
	for _, o := range list {
		o.sum()
	}
	slices.SortStableFunc(list, func(a, b *Outcome) int { return cmp.Compare(b.Logprob, a.Logprob) })
	return list
}

// Failed returns the branches that have ended without an outcome, in the order of Fail.
func (t *Tree) Failed() []*Node { return t.failed }

// Exhausted reports whether every branch has ended, except those below the limit of Omitted.
func (t *Tree) Exhausted() bool { return len(t.beam) == 0 && len(t.aside) == 0 && !t.dropped }

// Omitted is an upper bound of the probability of an outcome that was never among the children.
func (t *Tree) Omitted() float64 { return math.Exp(t.omitted) }

// Exact reports whether the N outcomes are proven best: no other branch can hold one of them.
func (t *Tree) Exact() bool {
	if t.Exhausted() {
		return true
	}
	if t.dropped || len(t.outcomes) < t.cfg.N {
		return false
	}
	t.sortOutcomes()
	holds := func(n *Node) bool { return n.Logprob > t.bound() }
	return t.omitted <= t.bound() && !slices.ContainsFunc(t.beam, holds) && !slices.ContainsFunc(t.aside, holds)
}

// better compares branches: higher probability first, then by hash.
func better(a, b *Node) int {
	return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(b.hash, a.hash))
}
