package core

import (
	"cmp"
	"slices"
)

// prefixTree mirrors the unified KV cache, because llama.cpp does not report how many
// cells are free. A node is a run of cells that the same sequences share, with the tokens
// in them. A sequence is the path from the root to its leaf. It is a radix tree with one
// exception: siblings may begin with the same token, since tokens that were computed twice
// occupy cells twice.
type prefixTree struct {
	root node
	// used counts the cells in use, active those that a running sequence needs. The rest of
	// the used cells can be evicted.
	used, active int
}

type node struct {
	parent   *node
	children []*node
	// ends are the sequences that end at the end of this node.
	ends   []*sequence
	tokens []Token // one for each cell
	start  int     // position of tokens[0]
	// refs counts the sequences through this node, running the running ones of them.
	refs, running int
	// place is the node's number in the tree, the root's being 0; see order.
	place int
}

func (n *node) end() int { return n.start + len(n.tokens) }

// private reports whether only one sequence uses the cells of the node.
func (n *node) private() bool { return n.parent != nil && n.refs == 1 }

// attach makes s, which is empty, end at n.
func (t *prefixTree) attach(s *sequence, n *node) {
	t.detachEnd(s)
	s.leaf, s.length = n, n.end()
	n.ends = append(n.ends, s)
	for ; n.parent != nil; n = n.parent {
		n.refs++
	}
	if s.state == seqRunning {
		t.activate(s)
	}
}

// detach empties s and removes nodes that no other sequence uses.
func (t *prefixTree) detach(s *sequence) {
	if s.state == seqRunning {
		t.deactivate(s)
	}
	t.unref(s.leaf, &t.root)
	t.detachEnd(s)
	s.leaf, s.length = &t.root, 0
}

// extend appends tokens to s in new cells. more is the expected number of further tokens, for
// one allocation.
func (t *prefixTree) extend(s *sequence, tokens []Token, more int) {
	t.used += len(tokens)
	if s.state == seqRunning {
		t.active += len(tokens)
	}
	s.length += len(tokens)
	if s.leaf.private() {
		s.leaf.tokens = append(s.leaf.tokens, tokens...)
		return
	}
	n := &node{parent: s.leaf, start: s.leaf.end(), refs: 1}
	if s.state == seqRunning {
		n.running = 1
	}
	n.tokens = append(make([]Token, 0, len(tokens)+more), tokens...)
	s.leaf.children = append(s.leaf.children, n)
	t.detachEnd(s)
	s.leaf = n
	n.ends = append(n.ends, s)
}

// trim removes the positions of s from length on. s must not run.
func (t *prefixTree) trim(s *sequence, length int) {
	n := t.at(s, length)
	t.unref(s.leaf, n)
	t.detachEnd(s)
	s.leaf, s.length = n, length
	n.ends = append(n.ends, s)
}

// activate counts the cells of s as active.
func (t *prefixTree) activate(s *sequence) {
	for n := s.leaf; n.parent != nil; n = n.parent {
		if n.running++; n.running == 1 {
			t.active += len(n.tokens)
		}
	}
}

// deactivate is the inverse of activate.
func (t *prefixTree) deactivate(s *sequence) {
	for n := s.leaf; n.parent != nil; n = n.parent {
		if n.running--; n.running == 0 {
			t.active -= len(n.tokens)
		}
	}
}

// match returns the sequence through n with the longest prefix in common with target that ok accepts,
// and the length of that prefix. whole: only sequences that are themselves a prefix of target.
func (n *node) match(target []Token, whole bool, ok func(*sequence, int) bool) (best *sequence, length int) {
	common := commonPrefixLen(n.tokens, target[n.start:])
	if common == len(n.tokens) && n.end() < len(target) {
		for _, child := range n.children {
			if child.tokens[0] != target[n.end()] {
				continue
			}
			if s, l := child.match(target, whole, ok); l > length {
				best, length = s, l
			}
		}
	}
	here := n.start + common
	if best != nil || here == 0 {
		return best, length
	}
	if !whole {
		best = n.find(here, ok)
	} else if common == len(n.tokens) {
		best = firstUsable(n.ends, here, ok)
	}
	if best == nil {
		return nil, 0
	}
	return best, here
}

// find returns a sequence through n that ok accepts for length.
func (n *node) find(length int, ok func(*sequence, int) bool) *sequence {
	if s := firstUsable(n.ends, length, ok); s != nil {
		return s
	}
	for _, child := range n.children {
		if s := child.find(length, ok); s != nil {
			return s
		}
	}
	return nil
}

func firstUsable(list []*sequence, length int, ok func(*sequence, int) bool) *sequence {
	for _, s := range list {
		if ok(s, length) {
			return s
		}
	}
	return nil
}

// order sorts running sequences by their leaves, so that those which share cells lie side by
// side. Attention computes neighbouring rows together: on a GPU 8 rows read the cells that any
// of them sees. Sequences with the same leaf keep their order.
func (t *prefixTree) order(list []*sequence) {
	if len(list) < 3 {
		return
	}
	last := 0
	t.root.number(&last)
	slices.SortStableFunc(list, func(a, b *sequence) int { return cmp.Compare(a.leaf.place, b.leaf.place) })
}

// number gives the running nodes below n their places, parents first.
func (n *node) number(last *int) {
	for _, child := range n.children {
		if child.running > 0 {
			*last++
			child.place = *last
			child.number(last)
		}
	}
}

// tokens returns a copy of the tokens of s.
func (t *prefixTree) tokens(s *sequence) []Token {
	list := make([]Token, s.length)
	for n := s.leaf; n.parent != nil; n = n.parent {
		copy(list[n.start:], n.tokens)
	}
	return list
}

// inactive counts the cells among the first length ones of s that no running sequence needs.
func (t *prefixTree) inactive(s *sequence, length int) int {
	cells := 0
	for n := s.leaf; n.parent != nil; n = n.parent {
		if n.running == 0 && n.start < length {
			cells += min(n.end(), length) - n.start
		}
	}
	return cells
}

// at returns the node on the path of s that ends at length. If necessary, it moves the upper part of a node into a new
// parent. The node stays the lower part, with its children, its ends and its spare capacity.
func (t *prefixTree) at(s *sequence, length int) *node {
	n := s.leaf
	for n.parent != nil && n.start >= length {
		n = n.parent
	}
	if n.end() == length {
		return n
	}
	k := length - n.start
	up := &node{
		parent: n.parent, children: []*node{n}, tokens: n.tokens[:k:k], start: n.start,
		refs: n.refs, running: n.running,
	}
	n.parent.children[slices.Index(n.parent.children, n)] = up
	n.parent, n.tokens, n.start = up, n.tokens[k:], length
	return up
}

// unref removes one sequence from the nodes between n and top, excluding top.
func (t *prefixTree) unref(n, top *node) {
	for n != top {
		parent := n.parent
		if n.refs--; n.refs == 0 {
			t.used -= len(n.tokens)
			i := slices.Index(parent.children, n)
			parent.children = slices.Delete(parent.children, i, i+1)
		}
		n = parent
	}
}

func (t *prefixTree) detachEnd(s *sequence) {
	if i := slices.Index(s.leaf.ends, s); i >= 0 {
		s.leaf.ends = slices.Delete(s.leaf.ends, i, i+1)
	}
}

// sharedCells counts the cells at the beginning of a and b that both use.
func sharedCells(a, b *sequence) int {
	m, n := a.leaf, b.leaf
	for m != n {
		if m.end() >= n.end() {
			m = m.parent
		} else {
			n = n.parent
		}
	}
	return m.end()
}

func commonPrefixLen(a, b []Token) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
