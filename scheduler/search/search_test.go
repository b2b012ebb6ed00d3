package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a random tree of completions. Some have equal keys.
type model struct {
	children [][]Child // by node; none: a completion
	next     [][]int   // nodes of the children
	key      []string
}

// randomModel makes a tree of a depth up to most. Each completion has one of so many keys.
func randomModel(r *rand.Rand, most, keys int) *model {
	m := &model{}
	var grow func(depth int) int
	grow = func(depth int) int {
		id := len(m.children)
		m.children, m.next, m.key = append(m.children, nil), append(m.next, nil), append(m.key, "")
		if depth == most || depth > 1 && r.IntN(3) == 0 {
			m.key[id] = fmt.Sprint(r.IntN(keys))
			return id
		}
		weights, sum := make([]float64, 1+r.IntN(3)), 0.0
		for i := range weights {
			weights[i] = math.Exp(2 * r.NormFloat64())
			sum += weights[i]
		}
		for i, w := range weights {
			m.children[id] = append(m.children[id], Child{Token: int32(i), Logprob: math.Log(w / sum)})
			to := grow(depth + 1)
			m.next[id] = append(m.next[id], to)
		}
		return id
	}
	grow(0)
	return m
}

// exact returns the probability of each key, and that of its most probable completion.
func (m *model) exact() (all, best map[string]float64) {
	all, best = map[string]float64{}, map[string]float64{}
	var walk func(id int, p float64)
	walk = func(id int, p float64) {
		if k := m.key[id]; k != "" {
			all[k] += p
			best[k] = max(best[k], p)
		}
		for i, c := range m.children[id] {
			walk(m.next[id][i], p*math.Exp(c.Logprob))
		}
	}
	walk(0, 1)
	return all, best
}

// run searches the tree. Each round computes a random part of the selected branches, as steps
// with a limit of rows do.
func (m *model) run(r *rand.Rand, cfg Config) *Tree {
	t := New(cfg)
	for {
		live := slices.Clone(t.Select())
		if len(live) == 0 {
			return t
		}
		if len(live) > cfg.N {
			panic("more branches than outcomes")
		}
		for i, n := range live {
			if i > 0 && r.IntN(4) == 0 {
				continue
			}
			id := m.node(n)
			if m.key[id] != "" {
				t.End(n, m.key[id])
			} else {
				t.Expand(n, m.children[id], 0)
			}
		}
	}
}

func (m *model) node(n *Node) int {
	if n.Parent == nil {
		return 0
	}
	return m.next[m.node(n.Parent)][n.Token]
}

const plenty = 1 << 20

func TestMostProbableEqualBruteForce(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := randomModel(r, 5, 9)
		_, best := m.exact()
		n := 1 + r.IntN(5)
		tree := m.run(r, Config{N: n, MaxExpansions: plenty, ExtraShare: plenty})
		var want []float64
		for _, p := range best {
			want = append(want, p)
		}
		slices.SortFunc(want, func(a, b float64) int { return cmp.Compare(b, a) })
		want = want[:min(n, len(want))]
		var got []float64
		for _, o := range tree.Outcomes() {
			got = append(got, best[o.Key])
		}
		slices.SortFunc(got, func(a, b float64) int { return cmp.Compare(b, a) })
		if !slices.Equal(got, want) || !tree.Exact() {
			t.Fatalf("seed %d: %v instead of %v, exact %v", seed, got, want, tree.Exact())
		}
	}
}

func TestBeamWithoutExtraTellsWhetherExact(t *testing.T) {
	claims := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := randomModel(r, 5, 9)
		_, best := m.exact()
		tree := m.run(r, Config{N: 2, MaxExpansions: plenty})
		if !tree.Exact() {
			continue
		}
		claims++
		out := tree.Outcomes()
		least := math.Inf(1)
		for _, o := range out {
			least = min(least, best[o.Key])
		}
		better := 0
		for _, p := range best {
			if p > least {
				better++
			}
		}
		if better >= len(out) && len(out) > 0 {
			t.Fatalf("seed %d: %d keys are better than the last of %d", seed, better, len(out))
		}
	}
	if claims == 0 || claims == 300 {
		t.Fatalf("%d of 300 searches were exact; the test shows nothing", claims)
	}
}

func TestAllOutcomesFoundWhenFewerThanN(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := randomModel(r, 4, 4)
		all, _ := m.exact()
		tree := m.run(r, Config{N: 50, MaxExpansions: plenty})
		out := tree.Outcomes()
		if len(out) != len(all) || !tree.Exhausted() || !tree.Exact() {
			t.Fatalf("%d of %d outcomes", len(out), len(all))
		}
		for i, o := range out {
			if got, want := math.Exp(o.Logprob), all[o.Key]; math.Abs(got-want) > 1e-9 {
				t.Errorf("key %s has %g instead of %g", o.Key, got, want)
			}
			if i > 0 && o.Logprob > out[i-1].Logprob {
				t.Error("the outcomes are not sorted by probability")
			}
		}
	}
}

func TestFailedBranchesMakeRoomForOthers(t *testing.T) {
	tree := New(Config{N: 2, MaxExpansions: plenty})
	tree.Expand(tree.Select()[0], []Child{{1, math.Log(0.7)}, {2, math.Log(0.2)}, {3, math.Log(0.06)}, {4, math.Log(0.04)}}, 0)
	failed := 0
	for live := tree.Select(); len(live) > 0; live = tree.Select() {
		if n := live[0]; n.Token <= 2 {
			tree.Fail(n)
			failed++
		} else {
			tree.End(n, fmt.Sprint(n.Token))
		}
	}
	if n := len(tree.Outcomes()); n != 2 || failed != len(tree.Failed()) {
		t.Errorf("%d outcomes, %d failed", n, failed)
	}
}

func TestSearchEndsAtLimitOfExpansions(t *testing.T) {
	tree := New(Config{N: 3, MaxExpansions: 10})
	n := 0
	for live := tree.Select(); len(live) > 0; live = tree.Select() {
		tree.Expand(live[0], []Child{{1, math.Log(0.5)}, {2, math.Log(0.5)}}, 0)
		n++
	}
	if n != 10 || tree.Exact() || tree.Exhausted() {
		t.Errorf("%d expansions, exact %v, exhausted %v", n, tree.Exact(), tree.Exhausted())
	}
}

func TestManyBranchesAreForgottenExceptThoseComputed(t *testing.T) {
	tree := New(Config{N: 2, MaxExpansions: plenty})
	children := make([]Child, maxAside/8)
	for i := range children {
		children[i] = Child{Token: int32(i), Logprob: math.Log(1 / float64(len(children)))}
	}
	forgot := false
	for range 20 {
		live := tree.Select()
		last := live[len(live)-1]
		tree.Expand(last, children, 0)
		forgot = forgot || tree.dropped
		for _, n := range tree.Select() { // a branch that is computed is still there
			if len(tree.outcomes) < 1 && tree.dropped {
				tree.End(n, "end")
			}
		}
	}
	if !forgot || tree.Exact() || tree.Exhausted() {
		t.Errorf("forgot %v, exact %v, exhausted %v", forgot, tree.Exact(), tree.Exhausted())
	}
}

// Two of three places are free, since two outcomes are better than what is left of the beam.
func TestFreePlacesGoToBranchesSetAside(t *testing.T) {
	tree := New(Config{N: 3, MaxExpansions: plenty, ExtraShare: 2})
	tree.Expand(tree.Select()[0], []Child{{1, math.Log(0.5)}, {2, math.Log(0.2)}, {3, math.Log(0.15)}, {4, math.Log(0.1)}, {5, math.Log(0.05)}}, 0)
	live := slices.Clone(tree.Select())
	if len(live) != 3 || live[0].Token != 1 {
		t.Fatalf("%+v", live)
	}
	tree.Expand(live[0], []Child{{6, math.Log(0.9)}, {7, math.Log(0.06)}, {8, math.Log(0.04)}}, 0)
	tree.End(live[1], "b")
	tree.End(live[2], "c")
	if live = slices.Clone(tree.Select()); len(live) != 1 || live[0].Token != 6 {
		t.Fatalf("without N outcomes: %+v", live)
	}
	tree.Expand(live[0], []Child{{9, math.Log(0.95)}, {10, math.Log(0.05)}}, 0)
	live = slices.Clone(tree.Select())
	tree.End(live[0], "a")
	// The third outcome has 0.15. Only the node of 0.1 and others below it are left.
	if live = tree.Select(); len(live) > 0 || !tree.Exact() {
		t.Errorf("%+v, exact %v", live, tree.Exact())
	}
	tree = New(Config{N: 2, MaxExpansions: plenty, ExtraShare: 2})
	tree.Expand(tree.Select()[0], []Child{{1, math.Log(0.4)}, {2, math.Log(0.3)}, {3, math.Log(0.2)}}, 0)
	live = slices.Clone(tree.Select())
	tree.Expand(live[0], []Child{{4, math.Log(0.3)}, {5, math.Log(0.3)}, {6, math.Log(0.01)}}, 0)
	tree.Expand(live[1], []Child{{7, math.Log(0.5)}, {8, math.Log(0.5)}}, 0)
	for _, n := range slices.Clone(tree.Select()) {
		tree.End(n, fmt.Sprint(n.Token)) // of 0.15 each
	}
	if live = tree.Select(); len(live) != 1 || live[0].Token != 3 || !live[0].extra || tree.Exact() {
		t.Errorf("the branch of 0.2 is not taken up: %+v", live)
	}
}

// The share of the expansions that extra branches get is bounded, however many are left.
func TestExtraBranchesKeepToTheirShare(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := randomModel(r, 6, 40)
		tree := m.run(r, Config{N: 2, MaxExpansions: plenty, ExtraShare: 0.25})
		if most := (tree.expansions - tree.extras) / 4; tree.extras > most {
			t.Fatalf("seed %d: %d of %d expansions are extra", seed, tree.extras, tree.expansions)
		}
		if !tree.Exact() && tree.extras < (tree.expansions-tree.extras)/4 {
			t.Fatalf("seed %d: the search ended inexact before its share was used", seed)
		}
	}
}

func TestMissingChildrenMakeASearchInexact(t *testing.T) {
	for name, c := range map[string]struct {
		rest float64
		want bool
	}{
		"none missing":                      {0, true},
		"less likely than the last outcome": {0.2, true},
		"more likely than the last outcome": {0.3, false},
	} {
		tree := New(Config{N: 2, MaxExpansions: 10})
		tree.Expand(tree.Select()[0], []Child{{1, math.Log(0.5)}, {2, math.Log(0.25)}, {3, math.Log(0.25)}}, c.rest)
		for _, n := range slices.Clone(tree.Select()) {
			tree.End(n, fmt.Sprint(n.Token))
		}
		if live := tree.Select(); len(live) > 0 || tree.Exact() != c.want || math.Abs(tree.Omitted()-c.rest) > 1e-9 {
			t.Errorf("%s: %d live branches, exact %v, omitted %g", name, len(live), tree.Exact(), tree.Omitted())
		}
	}
}

func TestSkippableGrowsWithLessProbableBranches(t *testing.T) {
	tree := New(Config{N: 2, MaxExpansions: 10})
	root := tree.Select()[0]
	if got := tree.Skippable(root); math.Abs(math.Log(got)-leastOdds) > 1e-9 {
		t.Errorf("share %g of the root", got)
	}
	tree.Expand(root, []Child{{1, math.Log(0.9)}, {2, math.Log(0.0009)}, {3, -15}}, 0)
	live := slices.Clone(tree.Select())
	likely, rare := tree.Skippable(live[0]), tree.Skippable(live[1])
	if likely <= tree.Skippable(root) || rare <= likely || rare > maxSkipped {
		t.Errorf("share %g of a likely branch, %g of a rare one", likely, rare)
	}
	tree.End(live[0], "a")
	tree.End(live[1], "b")
	if live = tree.Select(); len(live) > 0 {
		t.Fatalf("%d live branches", len(live))
	}
	if got := tree.Skippable(root); math.Abs(got-0.0009) > 1e-9 {
		t.Errorf("share %g of the root; no child below the last outcome matters", got)
	}
}

func TestOrderInWhichCompletionsEndChangesNoBit(t *testing.T) {
	sums := map[float64]bool{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		tree := New(Config{N: plenty, MaxExpansions: plenty})
		children := make([]Child, 20)
		for i := range children {
			children[i] = Child{Token: int32(i), Logprob: math.Log(0.9 / float64(3+i*i))}
		}
		r.Shuffle(len(children), func(i, k int) { children[i], children[k] = children[k], children[i] })
		tree.Expand(tree.Select()[0], children, 0)
		live := slices.Clone(tree.Select())
		r.Shuffle(len(live), func(i, k int) { live[i], live[k] = live[k], live[i] })
		for _, n := range live {
			tree.End(n, "one")
		}
		sums[tree.Outcomes()[0].Logprob] = true
	}
	if len(sums) != 1 {
		t.Errorf("%d different sums", len(sums))
	}
}
