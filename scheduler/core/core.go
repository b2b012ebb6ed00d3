package core

import (
	"cmp"
	"slices"
)

// Core plans the steps of one context, see the package's doc. It is not safe for concurrent use.
type Core struct {
	cfg        Config
	tune       tuning
	maxRunning int // limit of running sequences
	tree       prefixTree
	host       *hostCache // nil: none
	seqs       []sequence
	freeSeqs   []*sequence // a stack

	// groups holds the live requests in the order in which they start, see Submit and sortClasses.
	groups  []*group
	classes []class // of groups, as of the last sortClasses
	second  int     // see Tick
	byID    map[RequestID]*group
	turn    turn
	// running holds the running sequences in the order in which they started.
	running []*sequence
	freeing []*sequence

	step uint64 // number of plans so far
	// rowLimit is the row limit of the next step: BatchTokens, less after StepNoSlot.
	rowLimit int
	// scoreRows is how many more rows of prompts may have logits in the step, besides one for each sequence.
	scoreRows int
	// admissionPaused is set by a preemption until a sequence ends.
	admissionPaused bool
	// overcommitted is set when a prompt loses its prefill leader. More cells may be
	// reserved than exist until no sequence runs.
	overcommitted bool

	lengths lengthEstimate

	// version counts changes that can affect which waiting request has the longest cached
	// prefix. choice caches the last answer.
	version uint64
	choice  struct {
		group   *group
		version uint64
	}

	plan         Plan
	opsDelivered bool // Plan returned plan.Ops
	inFlight     bool // Plan returned plan.Rows, and Commit has not been called
	scheduled    []scheduledRows
	drafts       []Token // speculative tokens of the step in flight
	events       []Event
	stats        Stats
	times        stepTimes

	// Scratch space.
	scratch     []Token     // a completion with its prompt
	decodes     []*sequence // of schedule
	prefills    []*sequence // of schedule
	byRemaining []*sequence // of schedulePrefills
}

// group is a request with its candidates (vLLM: sequence group).
type group struct {
	Request
	lengths    *lengthEstimate
	arrival    uint64 // its number in the order of Submit, from 1
	turn       uint64 // number of its client's candidates before it, see Submit
	candidates []candidate
	unfinished int // candidates that have not ended
	// started: the prompt has a sequence, or was sampled. sampled: the candidates have
	// their first tokens.
	started, sampled bool
	// level is the priority plus the waiting time when it started. Only a higher rank preempts it.
	level int
	ran   int // the second, see Tick, in which its first running sequence started
	// passed counts later requests that started before it.
	passed int
	// waiting lists the live candidates without a sequence, once sampled.
	waiting []int
	// promptSeq is the sequence that begins with the whole prompt. Candidates fork from it.
	promptSeq *sequence
	running   int // running sequences
	cached    int // prompt tokens that were not computed for this request
}

// candidate is one completion. The last pending tokens of a live candidate are not decoded yet: the tokens of its last
// choice, without accepted speculative tokens.
type candidate struct {
	tokens  []Token
	pending int
	ended   bool
	// sampled has the index after each of the newest sampled tokens, in order.
	sampled [repeatTimes]int
	// draftLen is the number of speculative tokens to propose; 0 before the first draft. rejections counts consecutive
	// drafts without an accepted token. For the next cooldown steps, no draft is proposed.
	draftLen, rejections, cooldown int
}

// New returns an idle core for an empty context.
func New(cfg Config) *Core {
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, cfg.MaxOutputs)
	c := &Core{
		cfg:        cfg,
		tune:       tuned,
		host:       newHostCache(cfg.HostCells),
		maxRunning: min(cfg.MaxSequences, cfg.MaxRunning),
		seqs:       make([]sequence, cfg.MaxSequences),
		byID:       make(map[RequestID]*group),
		rowLimit:   cfg.BatchTokens,
	}
	c.lengths.enabled = cfg.Overcommit
	if c.host != nil {
		c.tune.minEvict = hostBlockCells / 2 // evicted cells can come back, and larger blocks load faster
	}
	for i := len(c.seqs) - 1; i >= 0; i-- {
		c.seqs[i] = sequence{id: SeqID(i), leaf: &c.tree.root}
		c.freeSeqs = append(c.freeSeqs, &c.seqs[i])
	}
	return c
}

// Submit queues a request. Its id must be new, and its prompt must not be empty and must fit the cells together with
// MaxTokens tokens.
//
// Requests wait in the order of priority and age (see sortClasses), then of turns, then of arrival. The turn of a
// request is the number of live candidates for which its client asked before. A client without any gets the turn of the
// next waiting request. So a client with few requests does not wait for all requests of another one. A fork precedes
// requests that have not started.
func (c *Core) Submit(r Request) {
	if c.byID[r.ID] != nil || len(r.Prompt) == 0 || min(r.N, r.MaxTokens+r.ScoreFrom) < 1 || r.MaxTokens > c.cfg.Cells-len(r.Prompt) {
		panic("core: Submit of a request that cannot run")
	}
	c.turn.arrivals++
	c.version++
	g := &group{Request: r, arrival: c.turn.arrivals, lengths: &c.lengths, candidates: make([]candidate, r.N), unfinished: r.N}
	if r.Begun != nil {
		g.begin()
	}
	if !r.Fork {
		c.stats.PromptTokens += uint64(len(r.Prompt))
	}
	waits := false
	for _, o := range c.groups {
		switch {
		case o.Fork || o.Priority != g.Priority:
		case o.Client == g.Client:
			g.turn = max(g.turn, o.turn+uint64(o.N))
		case !o.started && !waits:
			g.turn, waits = max(g.turn, o.turn), true
		}
	}
	at := len(c.groups)
	for i, o := range c.groups { // one priority is a block
		if o.Priority != g.Priority {
			continue
		}
		if at = i + 1; !o.started && !o.Fork && (g.Fork || o.turn > g.turn) {
			at = i
			break
		}
	}
	c.groups = slices.Insert(c.groups, at, g)
	c.byID[r.ID] = g
	c.check()
}

// Cancel ends a request in any state, without events. It may be called between Plan and Commit. The next plan
// frees the sequences. Cancel reports whether the request was alive.
func (c *Core) Cancel(id RequestID) bool {
	g := c.byID[id]
	if g == nil {
		return false
	}
	if !g.Fork {
		c.stats.Cancelled++
	}
	c.end(g, false)
	c.check()
	return true
}

// begin sets the candidates to the tokens of Request.Begun. They wait like preempted ones.
func (g *group) begin() {
	g.sampled = true
	for i, tokens := range g.Begun {
		if tokens == nil {
			g.candidates[i].ended = true
			g.unfinished--
			continue
		}
		g.candidates[i].tokens, g.candidates[i].pending = slices.Clone(tokens), min(1, len(tokens))
		if len(g.Forced) > 0 {
			g.candidates[i].setSampled(g.Forced[i])
		}
		g.waiting = append(g.waiting, i)
	}
}

// Started reports whether a request has a sequence or had one, or has ended.
func (c *Core) Started(id RequestID) bool {
	g := c.byID[id]
	return g == nil || g.started
}

// Interrupt ends a live request like Cancel, but its sequences stay in the prefix cache. It returns the tokens of
// its candidates in the form of Request.Begun. It must not be called between Plan and Commit.
func (c *Core) Interrupt(id RequestID) (begun [][]Token) {
	g := c.byID[id]
	c.stats.Paused++
	begun = make([][]Token, g.N)
	for i := range g.candidates {
		if cand := &g.candidates[i]; !cand.ended {
			begun[i] = append([]Token{}, cand.tokens...)
		}
	}
	c.end(g, true)
	c.check()
	return begun
}

// Invalidate marks a sequence whose contents in the context are lost. Its tokens are computed
// again where they are needed. It must not be called between Plan and Commit.
func (c *Core) Invalidate(id SeqID) {
	s := &c.seqs[id]
	s.invalid = s.state != seqFree
	switch s.state {
	case seqRunning:
		c.preempt(s, false)
	case seqCached:
		c.evict(s, 0)
	}
	c.check()
}

// Length returns how many tokens of a sequence the context holds.
func (c *Core) Length(id SeqID) int { return c.seqs[id].length }

// Cached returns how many prompt tokens of a live request were not computed for it.
func (c *Core) Cached(id RequestID) int { return c.byID[id].cached }

// Idle reports whether no request is alive and no memory operation is left for a plan.
func (c *Core) Idle() bool {
	return len(c.groups) == 0 && len(c.freeing) == 0 && (c.opsDelivered || len(c.plan.Ops) == 0)
}

// end ends a request. Its running sequences are freed, or with keep cached; cached ones stay.
func (c *Core) end(g *group, keep bool) {
	if g.running > 0 {
		c.admissionPaused = false
	}
	for i := len(c.running) - 1; i >= 0; i-- {
		switch s := c.running[i]; {
		case s.group != g:
		case keep && s.length > 0:
			c.stop(s, seqCached)
		default:
			c.stop(s, seqFreeing)
			c.freeing = append(c.freeing, s)
		}
	}
	c.version++
	delete(c.byID, g.ID)
	i := slices.Index(c.groups, g)
	c.groups = slices.Delete(c.groups, i, i+1)
	for i := range c.seqs {
		s := &c.seqs[i]
		if s.group != g {
			continue
		}
		c.detach(s)
		if c.cfg.NoPrefixCache && s.state == seqCached {
			s.state = seqFreeing
			c.freeing = append(c.freeing, s)
		}
	}
}

// addOp adds a memory operation to the next plan.
func (c *Core) addOp(o Op) {
	c.dropDeliveredOps()
	c.plan.Ops = append(c.plan.Ops, o)
}

// dropDeliveredOps removes the operations that Plan has already returned.
func (c *Core) dropDeliveredOps() {
	if c.opsDelivered {
		c.opsDelivered = false
		c.plan.Ops = c.plan.Ops[:0]
	}
}
