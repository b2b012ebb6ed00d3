// Package search finds the N most probable outcomes in a tree of completions. It does no computation
// itself: probabilities and ends of branches go in, the branches to compute next come out.
//
// It is a beam search of width N. Completions with equal keys are one outcome, which takes a place in the beam. Once
// there are N outcomes, free places go to the best branches that the beam has set aside, if these can still beat the
// N-th outcome. Such extra branches may take a limited share of the expansions. Tree.Exact reports whether the N
// outcomes are proven best.
package search

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"agentd/scheduler/generation"
)

// Config configures a Tree.
type Config struct {
	N int // outcomes, at least 1
	// MaxExpansions is the limit of calls of Expand.
	MaxExpansions int
	// ExtraShare limits the expansions of extra branches to a share of the others. It does not apply while
	// the beam is empty and there are fewer than N outcomes.
	ExtraShare float64
}

// Child is a token that may follow a branch.
type Child struct {
	Token   generation.Token
	Logprob float64 // natural logarithm of its probability
}

// Node is a branch, the sequence of tokens from the root to it.
type Node struct {
	Parent *Node // nil: the root
	Token  generation.Token
	// Logprob is the natural logarithm of the probability of the branch.
	Logprob float64
	// Data is for the caller; the search ignores it.
	Data any

	hash  uint64 // of the tokens; orders branches with equal probabilities
	extra bool   // the branch, or one that it begins with, was set aside and then taken back
}

// Outcome is all completions with the same key.
type Outcome struct {
	Key     string
	Node    *Node   // of the first completion
	Logprob float64 // of all its completions together
	Paths   int     // number of its completions
	best    float64 // logprob of the most probable completion
	paths   []float64
}

// LogSum returns the logarithm of the sum of e^x over an ascending list.
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
	// beam holds the branches that Select returned last, and the children of expanded ones, without
	// expanded or ended branches. aside holds all other open branches.
	beam     []*Node
	aside    branches
	live     []*Node // what Select returned last
	outcomes []*Outcome
	failed   []*Node
	// expansions is the number of all calls of Expand, extras that of extra branches.
	expansions, extras int
	dropped            bool    // setAside has dropped open branches
	omitted            float64 // an upper bound of the logprob of children that an Expand lacked
}

const (
	// maxAside bounds the branches that are set aside. When it is exceeded, the worse half is dropped.
	maxAside = 1 << 16
	// leastOdds is the logprob below which a branch will hardly be one of a few best outcomes.
	leastOdds = -13
	// maxSkipped bounds the share of a branch that Expand may lack, and so the error of probabilities.
	maxSkipped = 1e-2
)

// New makes a tree. Its root is the first branch of Select.
func New(cfg Config) *Tree {
	return &Tree{cfg: cfg, beam: []*Node{{Token: -1}}, omitted: math.Inf(-1)}
}

// Skippable returns the share of a branch's probability that may be missing in Expand: that of children below
// leastOdds, or below the N-th outcome. It does not modify the tree, so several threads may call it.
func (t *Tree) Skippable(n *Node) float64 {
	return min(maxSkipped, math.Exp(max(t.bound(), leastOdds)-n.Logprob))
}

// Expand replaces a branch that Select returned by its children; without any, it drops the branch. skipped is an
// upper bound of the share of the branch's probability that is missing in children.
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

// End marks a branch as a completion of the outcome with that key.
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

// Fail marks a branch as ended without an outcome, see Failed.
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

// Select returns the branches to compute next; it is empty if the search has ended. The slice is valid
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

// places returns how many places the beam has for n and worse branches: N, minus the better outcomes.
func (t *Tree) places(n *Node) int {
	ended := 0
	for ended < len(t.outcomes) && t.outcomes[ended].best >= n.Logprob {
		ended++
	}
	return t.cfg.N - ended
}

// narrow keeps the best branches of the beam and sets the others aside. It sets all extra branches
// aside; fill may take them back.
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

// fill fills free places of the beam with extra branches, as far as ExtraShare allows. It does nothing before
// there are N outcomes, since it is not known which branches can still matter.
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

// bound returns the best logprob of the N-th outcome. A branch below it can't lead to one of the N best.
func (t *Tree) bound() float64 {
	if len(t.outcomes) < t.cfg.N {
		return math.Inf(-1)
	}
	return t.outcomes[t.cfg.N-1].best
}

// setAside adds a branch to aside, unless it is below bound.
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
		slices.Sort(o.paths) // the sum must not depend on the order of completions
		o.Logprob = LogSum(o.paths)
	}
	slices.SortStableFunc(list, func(a, b *Outcome) int { return cmp.Compare(b.Logprob, a.Logprob) })
	return list
}

// Failed returns the branches that have ended without an outcome, in the order of Fail.
func (t *Tree) Failed() []*Node { return t.failed }

// Exhausted reports whether no open branch is left. Children that were missing in Expand don't count.
func (t *Tree) Exhausted() bool { return len(t.beam) == 0 && len(t.aside) == 0 && !t.dropped }

// Omitted returns an upper bound of the probability of a single completion that was missing in Expand.
func (t *Tree) Omitted() float64 { return math.Exp(t.omitted) }

// Exact reports whether the N outcomes are proven best: no other branch can lead to a better one.
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
