package scheduler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
	"agentd/scheduler/search"
)

// A request with generation.Params.Distinct or Choice is a tree of branches (package search). Each live
// branch is a request of the core. After a step the best child of a branch continues it in
// place. Its other children start as forks, whose prefix is the branch's own. So the core
// needs no other policy for them.

// trees are the searches of a worker's requests with Distinct or Choice. The worker calls start for such a request;
// expand, event and commit in each step; and cancel.
type trees struct {
	vocab    *llama.Vocab
	branches map[core.RequestID]*branch // the branches in the core
	changed  []*tree                    // trees that changed in this step
	children []search.Child             // scratch space of expand
	found    uint64                     // number of completions of all ended searches
}

// tree is the search of a request.
type tree struct {
	request  *request
	since    int // core.Request.Since of its branches
	search   *search.Tree
	branches []*branch // live
	expanded []*branch // in this step; their samplers are still open
	found    bool      // there are outcomes that the request has not recorded

	// For generation.Params.Choice: fields of generation.Chances so far.
	best    bool
	rows    int
	omitted []float64 // logarithms of probabilities
}

// branch is a node of a tree that is or was computed.
type branch struct {
	tree    *tree
	node    *search.Node
	id      core.RequestID // 0: not in the core
	tokens  []core.Token   // the completion so far
	first   int            // index in tokens of the node's own tokens
	sampler *llama.Sampler // nil when closed
	spelled spelled        // for generation.Params.Choice, which has no sampler
}

// extraShare is the share of additional expansions with which a search may look for better completions
// than its beam found.
const extraShare = 0.05

// start begins the search of a request. Its branches become requests of c.
func (s *trees) start(c *core.Core, r *request, since int) error {
	g := &r.gen
	limits := search.Config{N: g.N, MaxExpansions: g.N * g.MaxTokens, ExtraShare: extraShare}
	if g.Choice != nil {
		limits = search.Config{N: math.MaxInt, MaxExpansions: math.MaxInt} // all, see spellings
	}
	t := &tree{request: r, since: since, search: search.New(limits)}
	r.tree = t
	root := &branch{tree: t, node: t.search.Select()[0], id: r.id}
	root.node.Data = root
	if g.Choice != nil {
		root.spelled.hi = len(r.spellings.answers)
	} else {
		var err error
		if root.sampler, err = r.samplers[0].Clone(); err != nil {
			return err
		}
	}
	t.branches = append(t.branches, root)
	s.submit(c, root, false)
	return nil
}

// submit submits a branch, which has an id, to the core.
func (s *trees) submit(c *core.Core, b *branch, fork bool) {
	r := b.tree.request
	s.branches[b.id] = b
	part := core.Request{ID: b.id, Request: r.gen, Since: b.tree.since, Branch: true, Fork: fork}
	part.Prompt, part.N, part.MaxTokens = slices.Concat(r.gen.Prompt, b.tokens), 1, r.gen.MaxTokens-len(b.tokens)
	c.Submit(part)
}

// expand adds the children of the step's branches to their trees, and sets the choices of these branches.
func (s *trees) expand(c *core.Core, tasks []sampleTask, choices []core.Choice) {
	for i := range tasks {
		task := &tasks[i]
		b := task.branch
		if b == nil {
			continue
		}
		t := b.tree
		s.change(t)
		if b.node.Parent == nil {
			t.request.cached = c.Cached(b.id)
		}
		t.remove(b)
		t.expanded = append(t.expanded, b)
		if task.err != nil {
			t.fail(b.node, failed(b.tokens, public(task.err)))
			fail(&choices[i], task.err)
			continue
		}
		s.children = s.children[:0]
		for _, next := range task.children {
			s.children = append(s.children, search.Child{Token: next.Token, Logprob: float64(next.Logprob)})
		}
		t.search.Expand(b.node, s.children, task.skipped)
		if t.rows++; task.skipped > 0 {
			t.omitted = append(t.omitted, b.node.Logprob+math.Log(task.skipped))
		}
	}
	for _, t := range s.changed {
		s.selectBranches(c, t)
	}
	for i := range tasks {
		if b := tasks[i].branch; b != nil && choices[i].Verdict == core.Continue {
			choices[i] = s.continueBranch(b)
		}
	}
	for _, t := range s.changed {
		for _, b := range t.expanded {
			b.close()
		}
		t.expanded = t.expanded[:0]
	}
}

// change notes that a tree changes in this step.
func (s *trees) change(t *tree) {
	if !slices.Contains(s.changed, t) {
		s.changed = append(s.changed, t)
	}
}

// continueBranch returns the tokens of the best live child of b, which continues the sequence of b. Without
// a live child the choice ends b.
func (s *trees) continueBranch(b *branch) core.Choice {
	for _, child := range b.tree.branches {
		if child.id != 0 || child.node.Parent != b.node {
			continue
		}
		child.id = b.id
		s.branches[b.id] = child
		choice := core.Choice{Tokens: child.tokens[child.first:]}
		for i := 1; i < len(choice.Tokens); i++ {
			choice.Forced = append(choice.Forced, i)
		}
		return choice
	}
	return core.Choice{Verdict: core.Stop}
}

// selectBranches makes branches of the nodes that the search selects, and drops the others. Where a branch ends at
// once, it selects again. It returns false if the search has ended.
func (s *trees) selectBranches(c *core.Core, t *tree) bool {
	var live []*search.Node
	for made := true; made; {
		live, made = t.search.Select(), false
		for _, n := range live {
			if !slices.ContainsFunc(t.branches, func(b *branch) bool { return b.node == n }) {
				s.makeBranch(t, n)
				made = true
			}
		}
	}
	for _, b := range slices.Clone(t.branches) {
		if slices.Contains(live, b.node) {
			continue
		}
		t.remove(b)
		b.close()
		if b.id != 0 {
			c.Cancel(b.id)
			delete(s.branches, b.id)
		}
	}
	return len(live) > 0
}

// makeBranch makes a branch of a node, with the tokens that the grammar forces after it. These may end the completion.
func (s *trees) makeBranch(t *tree, n *search.Node) {
	r, parent := t.request, n.Parent.Data.(*branch)
	b := &branch{tree: t, node: n, first: len(parent.tokens), tokens: slices.Clone(parent.tokens)}
	if r.spellings != nil {
		if a := r.spellings.extend(b, parent); a != nil {
			n.Data = a
			t.search.End(n, strconv.Itoa(a.index))
			return
		}
		n.Data = b
		t.branches = append(t.branches, b)
		return
	}
	end := generation.Completion{StopToken: -1}
	done, err := s.extend(b, parent, &end)
	switch {
	case err != nil:
		end.Finish, end.Err = generation.FinishError, public(err)
	case len(b.tokens) > r.gen.MaxTokens || len(b.tokens) == r.gen.MaxTokens && !done:
		b.tokens = b.tokens[:r.gen.MaxTokens]
		end.Finish, end.StopToken = generation.FinishLength, -1
	case done:
		end.Finish = generation.FinishStop
	default:
		n.Data = b
		t.branches = append(t.branches, b)
		return
	}
	b.close()
	end.Tokens = b.tokens
	if end.Finish == generation.FinishStop {
		if key, ok := r.gen.Distinct.Key(s.vocab.Detokenize(end.Tokens, true)); ok {
			n.Data = end
			t.search.End(n, key)
			t.found = true
			return
		}
	}
	t.fail(n, end)
}

// extend appends the token of b's node, and the tokens that the grammar forces after it. If done, the completion
// has ended, and end has its stop.
func (s *trees) extend(b, parent *branch, end *generation.Completion) (done bool, err error) {
	if s.vocab.IsEOG(b.node.Token) {
		end.StopToken = b.node.Token
		return true, nil
	}
	if b.sampler, err = parent.copySampler(); err != nil {
		return false, err
	}
	if err := b.sampler.Accept(b.node.Token); err != nil {
		return false, err
	}
	b.tokens = append(b.tokens, b.node.Token)
	if b.tree.request.forces {
		if b.tokens, end.StopToken, err = b.sampler.Force(b.tokens); err != nil {
			return false, err
		}
	}
	return end.StopToken >= 0, nil
}

// copySampler returns a sampler in the state after b's tokens, also if b's own is closed.
func (b *branch) copySampler() (*llama.Sampler, error) {
	if b.sampler != nil {
		return b.sampler.Clone()
	}
	s, err := b.tree.request.samplers[0].Clone()
	if err != nil {
		return nil, err
	}
	for _, token := range b.tokens {
		if err := s.Accept(token); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

func (b *branch) close() {
	if b.sampler != nil {
		_ = b.sampler.Close() // fails only if closed already
		b.sampler = nil
	}
}

func (t *tree) remove(b *branch) {
	t.branches = slices.DeleteFunc(t.branches, func(o *branch) bool { return o == b })
}

// fail ends a node that has no outcome; end has the error.
func (t *tree) fail(n *search.Node, end generation.Completion) {
	n.Data = end
	t.search.Fail(n)
}

// event handles an event of the core about a branch. It returns false if the whole request has failed.
func (s *trees) event(e *core.Event) bool {
	if e.Kind == core.RequestFailed {
		return false
	}
	b := s.branches[e.Request]
	t := b.tree
	switch {
	case e.Kind == core.RequestFinished:
		delete(s.branches, e.Request)
	case e.Finish == generation.FinishRepeat && slices.Contains(t.branches, b):
		t.remove(b)
		b.close()
		t.fail(b.node, generation.Completion{
			Tokens: b.tokens, StopToken: -1, Finish: e.Finish, Repeated: describeRepeat(s.vocab, e.Tokens, e.Repeated),
		})
		s.change(t)
	}
	return true
}

// commit submits the new branches of the step's trees. It returns the requests whose search has ended.
func (s *trees) commit(c *core.Core, newID func() core.RequestID, now time.Time) (ended []*request) {
	for _, t := range s.changed {
		if t.request.tree != t {
			continue // the request has failed
		}
		goesOn := s.selectBranches(c, t) // a branch may have ended by a repetition
		for _, b := range t.branches {
			if b.id == 0 {
				b.id = newID()
				s.submit(c, b, true)
			}
		}
		switch {
		case !goesOn:
			s.collect(t)
			ended = append(ended, t.request)
		case t.found:
			t.request.record(-1, t.outcomes(false), t.request.cached, now)
			t.found = false
		}
	}
	clear(s.changed)
	s.changed = s.changed[:0]
	return ended
}

// outcomes returns the completions of a tree, most probable first.
func (t *tree) outcomes(exact bool) (list []generation.Completion) {
	if t.request.spellings != nil {
		return nil
	}
	for _, o := range t.search.Outcomes() {
		c := o.Node.Data.(generation.Completion)
		c.Branch = &generation.Branch{Logprob: o.Logprob, Paths: o.Paths, Exact: exact}
		list = append(list, c)
	}
	return list
}

// collect sets the completions of the request of an ended search.
func (s *trees) collect(t *tree) {
	r := t.request
	if r.spellings != nil {
		if r.candidates[0] = t.chances(); len(t.search.Failed()) > 0 {
			r.candidates[0] = t.search.Failed()[0].Data.(generation.Completion)
		}
		s.found++
		return
	}
	outcomes := t.outcomes(t.search.Exact())
	i := copy(r.candidates, outcomes)
	others := t.search.Failed()
	for _, n := range others[:min(len(others), r.gen.N-i)] {
		r.candidates[i] = n.Data.(generation.Completion)
		i++
	}
	reason := fmt.Sprintf("the model can give no more than %d", len(outcomes))
	switch p := t.search.Omitted(); {
	case !t.search.Exhausted():
		reason = fmt.Sprintf("%d were found with the limit of %d sampled tokens", len(outcomes), r.gen.N*r.gen.MaxTokens)
	case p > 0:
		reason = fmt.Sprintf("%d were found, and any other has a probability of at most %.1g", len(outcomes), p)
	}
	for ; i < r.gen.N; i++ {
		r.candidates[i] = failed(nil, fmt.Errorf("%w: %s", generation.ErrFewer, reason))
	}
	s.found += uint64(len(outcomes))
}

// cancel ends the search of a request.
func (s *trees) cancel(c *core.Core, r *request) {
	t := r.tree
	r.tree = nil
	for _, id := range slices.Sorted(maps.Keys(s.branches)) {
		if s.branches[id].tree == t {
			c.Cancel(id)
			delete(s.branches, id)
		}
	}
	for _, b := range slices.Concat(t.branches, t.expanded) {
		b.close()
	}
}
