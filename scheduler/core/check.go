package core

import (
	"fmt"
	"slices"
)

// check panics when an invariant does not hold. It costs more than a step, so
// that only tests switch it on (Config.Check).
func (c *Core) check() {
	if !c.cfg.Check {
		return
	}
	if err := c.Verify(); err != nil {
		panic("core: " + err.Error())
	}
}

// Verify checks the conservation of cells and ids and everything else that must
// always hold. It walks the whole tree.
func (c *Core) Verify() error {
	counted := map[*node]int{}
	busy := map[*node]int{}
	states := map[state]int{}
	for i := range c.seqs {
		s := &c.seqs[i]
		states[s.state]++
		if err := c.verifySequence(s); err != nil {
			return fmt.Errorf("sequence %d: %w", i, err)
		}
		for n := s.leaf; n.parent != nil; n = n.parent {
			counted[n]++
			if s.state == running {
				busy[n]++
			}
		}
	}
	used, active, err := verifyNode(&c.tree.root, counted, busy)
	switch {
	case err != nil:
		return err
	case used != c.tree.used || active != c.tree.active:
		return fmt.Errorf("%d cells used and %d active, counted %d and %d", used, active, c.tree.used, c.tree.active)
	case used > c.cfg.Cells:
		return fmt.Errorf("%d cells used of %d", used, c.cfg.Cells)
	case states[free] != len(c.free) || states[running] != len(c.running) || states[dying] != len(c.dying):
		return fmt.Errorf("sequence lists do not agree with the states")
	case len(c.running) > c.width:
		return fmt.Errorf("%d sequences run, at most %d may", len(c.running), c.width)
	}
	if err := c.host.verify(); err != nil {
		return err
	}
	if _, booked := c.booked(); !c.overbooked && !c.cfg.Overcommit && active+booked > c.cfg.Cells {
		return fmt.Errorf("%d cells active and %d reserved of %d", active, booked, c.cfg.Cells)
	}
	for _, j := range c.jobs {
		if err := c.verifyJob(j); err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
	}
	return nil
}

func (c *Core) verifySequence(s *sequence) error {
	switch {
	case s.length != s.leaf.end():
		return fmt.Errorf("length %d, its path has %d", s.length, s.leaf.end())
	case s.kept > 0:
		return fmt.Errorf("the context still has %d positions of what it was", s.kept)
	case s.state == free && (s.length > 0 || !slices.Contains(c.free, s)):
		return fmt.Errorf("free, but not empty or not listed")
	case s.length > 0 && (!slices.Contains(s.leaf.ends, s) || !s.touched):
		return fmt.Errorf("not at the end of its path")
	case s.state != running:
		return nil
	case s.pending() < 1 || s.pending() > len(s.target):
		return fmt.Errorf("%d of %d target tokens pending", s.pending(), len(s.target))
	case s.donor != nil && (s.donor.state != running || s.length > 0):
		return fmt.Errorf("waits for a sequence that does not run")
	}
	return c.verifyContent(s)
}

// verifyContent compares the tokens on the path of a running sequence with what
// its candidate has.
func (c *Core) verifyContent(s *sequence) error {
	want := s.job.Prompt
	if s.cand != allCandidates {
		want = slices.Concat(want, s.job.cands[s.cand].tokens)
	}
	for n := s.leaf; n.parent != nil; n = n.parent {
		if n.end() > len(want) || !slices.Equal(n.tokens, want[n.start:n.end()]) {
			return fmt.Errorf("holds other tokens than its candidate at position %d", n.start)
		}
	}
	if got := s.base + len(s.target); got != len(want) {
		return fmt.Errorf("is to hold %d tokens, its candidate has %d", got, len(want))
	}
	return nil
}

func (h *hostCache) verify() error {
	if h == nil {
		return nil
	}
	used, blocks := 0, 0
	for e := h.order.Front(); e != nil; e = e.Next() {
		b := e.Value.(*block)
		used, blocks = used+b.cells(), blocks+1
		if b.cells() < 1 || b.place != e || !slices.Contains(h.byHash[b.hash], b) || !slices.Contains(h.starts, b.start) {
			return fmt.Errorf("host block %d of %d cells at %d is not listed", b.id, b.cells(), b.start)
		}
	}
	for _, list := range h.byHash {
		blocks -= len(list)
	}
	if used != h.used || used > h.limit || blocks != 0 {
		return fmt.Errorf("host blocks have %d cells, counted %d of %d, and %d more than are listed", used, h.used, h.limit, blocks)
	}
	return nil
}

func verifyNode(n *node, counted, busy map[*node]int) (used, active int, err error) {
	if n.parent != nil {
		used = len(n.tokens)
		if n.running > 0 {
			active = used
		}
		switch {
		case n.refs != counted[n] || n.running != busy[n] || n.refs == 0:
			return 0, 0, fmt.Errorf("node at %d: %d references, %d running, counted %d and %d",
				n.start, n.refs, n.running, counted[n], busy[n])
		case used == 0 || n.start != n.parent.end():
			return 0, 0, fmt.Errorf("node at %d: empty, or not where its parent ends", n.start)
		}
	}
	for _, child := range n.children {
		if child.parent != n {
			return 0, 0, fmt.Errorf("node at %d: a child has another parent", n.start)
		}
		u, a, err := verifyNode(child, counted, busy)
		if err != nil {
			return 0, 0, err
		}
		used, active = used+u, active+a
	}
	return used, active, nil
}

func (c *Core) verifyJob(j *job) error {
	left, runs := 0, 0
	seen := make([]int, j.N)
	for i := range j.cands {
		if !j.cands[i].ended {
			left++
		}
	}
	for _, i := range j.waiting {
		seen[i]++
	}
	for _, s := range c.running {
		if s.job == j {
			runs++
			if s.cand != allCandidates {
				seen[s.cand]++
			}
		}
	}
	if left != j.left || runs != j.running || left == 0 {
		return fmt.Errorf("%d candidates left and %d sequences, counted %d and %d", left, runs, j.left, j.running)
	}
	for i, n := range seen {
		if alive := j.sampled && !j.cands[i].ended; alive && n != 1 || !alive && n != 0 {
			return fmt.Errorf("candidate %d has %d places", i, n)
		}
	}
	if !j.sampled && (j.started != (runs == 1) || runs > 1) {
		return fmt.Errorf("started is %t with %d sequences", j.started, runs)
	}
	return nil
}
