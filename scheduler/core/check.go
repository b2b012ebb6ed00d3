package core

import (
	"fmt"
	"slices"
)

// check panics if an invariant does not hold. It takes longer than a step, so only tests enable it (Config.Check).
func (c *Core) check() {
	if c.cfg.Check {
		if err := c.Verify(); err != nil {
			panic("core: " + err.Error())
		}
	}
}

// Verify checks the counts of cells and ids, and all other invariants. It walks the whole tree.
func (c *Core) Verify() error {
	counted := map[*node]int{}
	busy := map[*node]int{}
	states := map[state]int{}
	compared := map[*node]*group{}
	free := map[*sequence]bool{}
	for _, s := range c.freeSeqs {
		free[s] = true
	}
	for i := range c.seqs {
		s := &c.seqs[i]
		states[s.state]++
		if free[s] != (s.state == seqFree) {
			return fmt.Errorf("sequence %d: the free list differs from its state", i)
		}
		if err := c.verifySequence(s, compared); err != nil {
			return fmt.Errorf("sequence %d: %w", i, err)
		}
		for n := s.leaf; n.parent != nil; n = n.parent {
			counted[n]++
			if s.state == seqRunning {
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
	case states[seqFree] != len(c.freeSeqs) || states[seqRunning] != len(c.running) || states[seqFreeing] != len(c.freeing):
		return fmt.Errorf("sequence lists differ from the states")
	case len(c.running) > c.maxRunning:
		return fmt.Errorf("%d sequences run, at most %d may", len(c.running), c.maxRunning)
	}
	if err := c.host.verify(); err != nil {
		return err
	}
	booked := 0
	for _, s := range c.running {
		booked += s.maxFutureCells()
	}
	if !c.overcommitted && !c.cfg.Overcommit && active+booked > c.cfg.Cells {
		return fmt.Errorf("%d cells active and %d reserved of %d", active, booked, c.cfg.Cells)
	}
	for _, g := range c.groups {
		if err := c.verifyGroup(g); err != nil {
			return fmt.Errorf("request %d: %w", g.ID, err)
		}
	}
	return nil
}

func (c *Core) verifySequence(s *sequence, compared map[*node]*group) error {
	switch {
	case s.length != s.leaf.end():
		return fmt.Errorf("length %d, its path has %d", s.length, s.leaf.end())
	case s.keptPrefix > 0:
		return fmt.Errorf("the context still holds %d positions of its former tokens", s.keptPrefix)
	case s.state == seqFree && s.length > 0:
		return fmt.Errorf("free, but not empty")
	case s.length > 0 && (!slices.Contains(s.leaf.ends, s) || !s.inContext):
		return fmt.Errorf("not at the end of its path")
	case s.state != seqRunning:
		return nil
	case s.numRemaining() < 1 || s.numRemaining() > len(s.target):
		return fmt.Errorf("%d of %d target tokens pending", s.numRemaining(), len(s.target))
	case s.adapter != c.turn.adapter || s.adapter != s.group.Adapter:
		return fmt.Errorf("runs with adapter %d, its request with %d, in the turn of %d", s.adapter, s.group.Adapter, c.turn.adapter)
	case s.leader != nil && (s.leader.state != seqRunning || s.length > 0):
		return fmt.Errorf("waits for a leader that does not run")
	}
	return c.verifyContent(s, compared)
}

// verifyContent compares the tokens of a running sequence with its candidate's. compared has the nodes of prompts that
// were compared already.
func (c *Core) verifyContent(s *sequence, compared map[*node]*group) error {
	want := s.group.Prompt
	if s.cand != promptOnly {
		want = slices.Concat(want, s.group.candidates[s.cand].tokens)
	}
	for n := s.leaf; n.parent != nil && compared[n] != s.group; n = n.parent {
		if n.end() > len(want) || !slices.Equal(n.tokens, want[n.start:n.end()]) {
			return fmt.Errorf("tokens differ from its candidate's at position %d", n.start)
		}
		if n.end() <= len(s.group.Prompt) {
			compared[n] = s.group
		}
	}
	if got := s.base + len(s.target); got != len(want) {
		return fmt.Errorf("target ends at %d tokens, its candidate has %d", got, len(want))
	}
	return nil
}

func (h *hostCache) verify() error {
	if h == nil {
		return nil
	}
	used, blocks := 0, h.order.Len()
	for e := h.order.Front(); e != nil; e = e.Next() {
		b := e.Value.(*hostBlock)
		used += b.cells()
		if b.cells() < 1 || b.place != e || !slices.Contains(h.byHash[b.hash], b) || !slices.Contains(h.starts, b.start) {
			return fmt.Errorf("host block %d of %d cells at %d is not indexed", b.id, b.cells(), b.start)
		}
	}
	for _, list := range h.byHash {
		blocks -= len(list)
	}
	if used != h.used || used > h.limit || blocks != 0 {
		return fmt.Errorf("host blocks have %d cells, counted %d of %d; %d blocks are not indexed", used, h.used, h.limit, blocks)
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

func (c *Core) verifyGroup(g *group) error {
	left, runs := 0, 0
	seen := make([]int, g.N)
	for i := range g.candidates {
		if !g.candidates[i].ended {
			left++
		}
	}
	for _, i := range g.waiting {
		seen[i]++
	}
	for _, s := range c.running {
		if s.group == g {
			runs++
			if s.cand != promptOnly {
				seen[s.cand]++
			}
		}
	}
	if left != g.unfinished || runs != g.running || left == 0 {
		return fmt.Errorf("%d candidates left and %d sequences, counted %d and %d", left, runs, g.unfinished, g.running)
	}
	for i, n := range seen {
		if alive := g.sampled && !g.candidates[i].ended; alive && n != 1 || !alive && n != 0 {
			return fmt.Errorf("candidate %d runs or waits %d times", i, n)
		}
	}
	if !g.sampled && (g.started != (runs == 1) || runs > 1) {
		return fmt.Errorf("started is %t with %d sequences", g.started, runs)
	}
	return nil
}
