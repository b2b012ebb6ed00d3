package core

import (
	"cmp"
	"slices"
)

// prefixTree mirrors the unified KV cache, because llama.cpp does not report how many cells are free. A node is a run
// of cells that the same sequences share, with their tokens. A sequence is the path from the root to its leaf. It is a
// radix tree, except that siblings may begin with the same token: tokens that were computed twice occupy cells twice.
type prefixTree struct {
	root node
	// used counts the cells in use, active the cells of running sequences. The other used cells can be evicted.
	used, active int
}

type node struct {
	parent   *node
	children []*node
	// ends are the sequences that end at the end of this node.
	ends   []*sequence
	tokens []Token // one for each cell
	start  int     // position of tokens[0]
	// refs counts the sequences through this node, running the running ones.
	refs, running int
	// place is the node's number in depth-first order, set by order; the root's is 0.
	place int
}

func (n *node) end() int { return n.start + len(n.tokens) }

// private reports whether only one sequence uses the cells of the node.
func (n *node) private() bool { return n.parent != nil && n.refs == 1 }

// share makes s a copy of the first length tokens of src, and activates it if it runs. s must be empty, or src itself
// and not active. If necessary a node is split: its upper part moves to a new parent, and the node keeps the lower
// part, its children, its ends and its spare capacity.
func (t *prefixTree) share(s, src *sequence, length int) {
	n := src.leaf
	for n.parent != nil && n.start >= length {
		n = n.parent
	}
	if k := length - n.start; k < len(n.tokens) {
		up := &node{
			parent: n.parent, children: []*node{n}, tokens: n.tokens[:k:k], start: n.start,
			refs: n.refs, running: n.running,
		}
		n.parent.children[slices.Index(n.parent.children, n)] = up
		n.parent, n.tokens, n.start = up, n.tokens[k:], length
		n = up
	}
	if s == src {
		t.unref(s.leaf, n)
	} else {
		for m := n; m.parent != nil; m = m.parent {
			m.refs++
		}
	}
	t.detachEnd(s)
	s.leaf, s.length = n, length
	n.ends = append(n.ends, s)
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

// extend appends tokens to s in new cells. more is the expected number of further tokens, for which it
// allocates capacity.
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

// match returns a sequence through n that shares the longest prefix with target, and the length of that prefix; ok must
// accept both. With whole, only sequences that are a prefix of target match. If target ends before n, every
// sequence through n has all of it.
func (n *node) match(target []Token, whole bool, ok func(*sequence, int) bool) (best *sequence, length int) {
	here := min(n.start, len(target))
	here += commonPrefixLen(n.tokens, target[here:])
	if here == n.end() && here < len(target) {
		for _, child := range n.children {
			if child.tokens[0] != target[here] {
				continue
			}
			if s, l := child.match(target, whole, ok); l > length {
				best, length = s, l
			}
		}
	}
	if best != nil || here == 0 {
		return best, length
	}
	if here == n.end() || !whole {
		if i := slices.IndexFunc(n.ends, func(s *sequence) bool { return ok(s, here) }); i >= 0 {
			best = n.ends[i]
		}
	}
	for i := 0; best == nil && !whole && i < len(n.children); i++ {
		best, _ = n.children[i].match(target[:here], false, ok)
	}
	if best == nil {
		return nil, 0
	}
	return best, here
}

// order sorts running sequences by their leaves, so that sequences which share cells are adjacent. Attention computes
// adjacent rows together: on a GPU, 8 rows read the cells that any of them sees. Sequences with the same
// leaf keep their order.
func (t *prefixTree) order(list []*sequence) {
	if len(list) < 3 {
		return
	}
	last := 0
	t.root.number(&last)
	slices.SortStableFunc(list, func(a, b *sequence) int { return cmp.Compare(a.leaf.place, b.leaf.place) })
}

// number sets the place of n's running descendants, parents first.
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

// inactive returns how many of the first length cells of s no running sequence needs.
func (t *prefixTree) inactive(s *sequence, length int) int {
	cells := 0
	for n := s.leaf; n.parent != nil; n = n.parent {
		if n.running == 0 && n.start < length {
			cells += min(n.end(), length) - n.start
		}
	}
	return cells
}

// unref removes one sequence from the nodes from n up to top, without top.
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

// sharedCells returns the number of cells at the beginning of a and b that both use.
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
