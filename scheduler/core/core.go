package core

import "slices"

// Core is the state machine. It is not safe for concurrent use.
type Core struct {
	cfg   Config
	asks  bool // cfg.Usable was given
	width int  // the most sequences that run at once
	tree  tree
	host  *hostCache // nil: none
	worth *worth     // nil: nothing is kept
	seqs  []sequence
	free  []*sequence // a stack

	// jobs holds the live jobs in their order of arrival.
	jobs []*job
	byID map[JobID]*job
	// running holds the running sequences in the order in which they started.
	running []*sequence
	dying   []*sequence

	tick uint64 // plans so far
	// limit is the most rows of the next step: BatchTokens, less after NoSlot.
	limit int
	// hold stops admission after a sequence had to be parked, until one ends.
	hold bool
	// overbooked: a prompt lost the donor it waited for, so that more cells may be
	// reserved than there are, until no sequence runs.
	overbooked bool

	lengths lengths

	// changes counts what may change which waiting job is closest; choice is the last
	// one that was chosen, and when.
	changes uint64
	choice  struct {
		job     *job
		changes uint64
	}

	plan      Plan
	delivered bool // plan.Ops were handed out
	inFlight  bool // plan.Rows were handed out and not committed
	fed       []fed
	events    []Event
	scratch   []Token     // a completion with its prompt
	guesses   []Token     // of the step in flight
	decodes   []*sequence // scratch of fill
	prefills  []*sequence // scratch of fill
	shares    []share     // scratch of feedPrompts
	order     []*sequence // the same
	stats     Stats
}

// job is one prompt and its candidates.
type job struct {
	Job
	lengths *lengths
	cands   []candidate
	left    int // candidates that have not ended
	// started: its prompt has a sequence, or was sampled. sampled: the candidates
	// have their first tokens.
	started, sampled bool
	// passed is how many later jobs have started before it.
	passed int
	// waiting lists the live candidates without a sequence, once sampled.
	waiting []int
	// trunk is the sequence whose beginning is the whole prompt, to fork from.
	trunk   *sequence
	running int // sequences that run for it
	cached  int // prompt tokens not computed for it
}

// candidate is one completion. Of a live one the last pending tokens are not yet
// decoded: those of its last choice that were not guessed.
type candidate struct {
	tokens  []Token
	pending int
	ended   bool
	sampled [repeatTimes]int // how many tokens there were with each of the newest sampled ones
	// reach is how many of its next tokens are worth guessing, 0: it is not known yet. None
	// of the last wrong guesses began rightly, and the next rest steps have none.
	reach, wrong, rest int
}

// fed is what one sequence has in the step in flight.
type fed struct {
	seq     *sequence
	tokens  []Token
	prefill int // so many of them are not the next tokens of a candidate
	samples int
	sample  int     // the first of them in the plan
	drafts  []Token // guesses that are decoded behind them
}

// share is how many rows of a step one prompt has.
type share struct {
	seq  *sequence
	rows int
}

// New returns an idle core for an empty context.
func New(cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = cfg.MaxOutputs
	}
	if cfg.MinWait == 0 {
		cfg.MinWait = MinWait
	}
	if cfg.EvictLeast == 0 {
		cfg.EvictLeast = EvictLeast
	}
	if cfg.HostBlock == 0 {
		cfg.HostBlock = HostBlock
	}
	if cfg.HostLeast == 0 {
		cfg.HostLeast = HostLeast
	}
	if cfg.PrefixBlock == 0 {
		cfg.PrefixBlock = PrefixBlock
	}
	asks := cfg.Usable != nil
	if !asks {
		cfg.Usable = func(SeqID, int) bool { return true }
	}
	c := &Core{
		cfg:   cfg,
		asks:  asks,
		host:  newHostCache(&cfg),
		worth: newWorth(&cfg, asks || !cfg.PartialCopy),
		width: min(cfg.MaxSequences, cfg.MaxRunning),
		seqs:  make([]sequence, cfg.MaxSequences),
		byID:  make(map[JobID]*job),
		limit: cfg.BatchTokens,
	}
	c.lengths.used = cfg.Overcommit
	for i := len(c.seqs) - 1; i >= 0; i-- {
		c.seqs[i] = sequence{id: SeqID(i), leaf: &c.tree.root}
		c.free = append(c.free, &c.seqs[i])
	}
	return c, nil
}

// Submit queues a job. It fails with an *OverflowError when the job could never
// run, and with ErrDuplicate, ErrEmpty or ErrCount.
func (c *Core) Submit(j Job) error {
	switch {
	case c.byID[j.ID] != nil:
		return ErrDuplicate
	case len(j.Prompt) == 0:
		return ErrEmpty
	case j.N < 1 || j.MaxNew < 1:
		return ErrCount
	case j.MaxNew > c.cfg.Cells || len(j.Prompt)+j.MaxNew > c.cfg.Cells:
		return &OverflowError{Prompt: len(j.Prompt), MaxNew: j.MaxNew, Limit: c.cfg.Cells}
	}
	n := &job{Job: j, lengths: &c.lengths, cands: make([]candidate, j.N), left: j.N}
	if n.Blocks == nil && c.worth != nil {
		n.Blocks = Blocks(j.Prompt, c.cfg.PrefixBlock)
	}
	c.worth.arrived(n.Blocks)
	c.changes++
	c.jobs = append(c.jobs, n)
	c.byID[j.ID] = n
	c.stats.PromptTokens += uint64(len(j.Prompt))
	c.check()
	return nil
}

// Cancel ends a job in any state, also between Plan and Commit, without events.
// The next plan frees its sequences. It reports whether the job was alive.
func (c *Core) Cancel(id JobID) bool {
	j := c.byID[id]
	if j == nil {
		return false
	}
	c.stats.Cancelled++
	c.abandon(j)
	c.check()
	return true
}

// abandon ends a job early: its running sequences die, the cached ones stay.
func (c *Core) abandon(j *job) {
	if j.running > 0 {
		c.hold = false // there is room again
	}
	for i := len(c.running) - 1; i >= 0; i-- {
		if s := c.running[i]; s.job == j {
			c.halt(s, dying)
			c.dying = append(c.dying, s)
		}
	}
	c.remove(j)
}

// remove forgets a job.
func (c *Core) remove(j *job) {
	c.changes++
	delete(c.byID, j.ID)
	i := slices.Index(c.jobs, j)
	c.jobs = slices.Delete(c.jobs, i, i+1)
	for i := range c.seqs {
		s := &c.seqs[i]
		if s.job != j {
			continue
		}
		c.disown(s)
		if c.cfg.NoReuse && s.state == cached {
			s.state = dying
			c.dying = append(c.dying, s)
		}
	}
}

// Lost says that the context no longer holds s as it should. Its tokens will be
// computed again where they are needed. Not between Plan and Commit.
func (c *Core) Lost(id SeqID) {
	s := &c.seqs[id]
	s.broken = s.state != free
	switch s.state {
	case running:
		c.park(s)
	case cached:
		c.evict(s, 0)
	}
	c.check()
}

// Length returns how many tokens the context must hold for s.
func (c *Core) Length(id SeqID) int { return c.seqs[id].length }

// Idle says that no job is alive and no memory operation is left for a plan.
func (c *Core) Idle() bool {
	return len(c.jobs) == 0 && len(c.dying) == 0 && (c.delivered || len(c.plan.Ops) == 0)
}

// op adds a memory operation to the next plan.
func (c *Core) op(o Op) {
	c.freshPlan()
	c.plan.Ops = append(c.plan.Ops, o)
}

// freshPlan drops the operations that were handed out already.
func (c *Core) freshPlan() {
	if c.delivered {
		c.delivered = false
		c.plan.Ops = c.plan.Ops[:0]
	}
}

// copyPrefix makes dst, which is empty or was just taken for it, a copy of the first n tokens of src.
func (c *Core) copyPrefix(dst, src *sequence, n int) {
	if dst.kept < n {
		c.op(Op{Kind: OpCopy, Seq: dst.id, Src: src.id, Pos: dst.kept, End: n})
	}
	c.tree.attach(dst, c.tree.at(src, n))
	dst.kept = 0
	dst.touched = true
	src.lastUse = c.tick
}

// park takes the sequence of a candidate, or of a whole prompt, away. What it
// was to compute is computed again, from the best prefix, when there is room.
func (c *Core) park(s *sequence) {
	c.stats.Parked++
	j, cand := s.job, s.cand
	c.halt(s, dying)
	c.save(s, s.length-s.own())
	c.release(s)
	if cand == allCandidates {
		j.started = false
		return
	}
	j.waiting = slices.Insert(j.waiting, 0, cand)
}
