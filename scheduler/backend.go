package scheduler

import (
	"agentd/llama"
	"agentd/scheduler/core"
)

// backend is a worker's llama context. It is an interface so that tests can inject faults.
type backend interface {
	// Apply applies one memory operation of a plan.
	Apply(o core.Op) error
	// Clear removes all sequences and blocks. With zero it also overwrites the cells with zeros.
	Clear(zero bool) error
	// Decode computes the rows. Errors are llama.Context.Decode's.
	Decode(rows []core.Row) error
	// Logits returns a view of the logits of the i-th row, valid until the next Decode.
	Logits(i int) ([]float32, error)
	// SamplerThreads returns the number of threads of SampleBatch, which are those that compute the rows; 0 if
	// SampleBatch can't be used.
	SamplerThreads() int
	SampleBatch(samplers []*llama.Sampler, rows [][]float32, out []llama.Sampled)
	// UseThreads sets the number of compute and sampler threads from the next step on. ids are the thread
	// ids (tid) of those that compute.
	UseThreads(n int) (ids []int, err error)
	// SetBriefWaits sets whether threads of a step that wait for each other spin briefly and then sleep, or spin long.
	// It is safe for concurrent use.
	SetBriefWaits(on bool) error
	// SetAdapter applies an adapter to the rows of the next steps; nil: none.
	SetAdapter(a *llama.Adapter) error
	// Range returns the first and the last position of s; both are -1 if it is empty.
	Range(s core.SeqID) (first, last int)
	// Abort ends a Decode in progress. It is safe for concurrent use.
	Abort()
	Close() error
}

// contextBackend implements backend with a llama context.
type contextBackend struct {
	*llama.Context
	rows   []llama.Row // of the last Decode
	blocks map[core.BlockID]*llama.State
}

func newContextBackend(c *llama.Context) *contextBackend {
	return &contextBackend{Context: c, rows: make([]llama.Row, 0, c.BatchSize()), blocks: map[core.BlockID]*llama.State{}}
}

func (b *contextBackend) Apply(o core.Op) (err error) {
	m, s, from, to := b.Memory(), llama.SeqID(o.Seq), llama.Pos(o.Pos), llama.Pos(o.End)
	scratch := llama.SeqID(b.MaxSequences() - 1) // Config.complete reserves it for saving and loading
	switch o.Kind {
	case core.OpCopy:
		return m.Copy(llama.SeqID(o.Src), s, from, to)
	case core.OpSave:
		var state *llama.State
		if state, err = m.Save(s, scratch, from, to); err == nil {
			b.blocks[o.Block] = state
		}
		return err
	case core.OpLoad:
		return m.Load(b.blocks[o.Block], s, scratch, from, to)
	case core.OpDrop:
		b.blocks[o.Block].Free()
		delete(b.blocks, o.Block)
		return nil
	default:
		return m.Remove(s, from, -1)
	}
}

func (b *contextBackend) dropAll() {
	for _, state := range b.blocks {
		state.Free()
	}
	clear(b.blocks)
}

func (b *contextBackend) Clear(zero bool) error {
	b.dropAll()
	return b.Memory().Clear(zero)
}

func (b *contextBackend) Decode(rows []core.Row) error {
	b.rows = b.rows[:0]
	for _, r := range rows {
		b.rows = append(b.rows, llama.Row{Token: r.Token, Pos: llama.Pos(r.Pos), Seq: llama.SeqID(r.Seq), Output: r.Output})
	}
	return b.Context.Decode(b.rows)
}

func (b *contextBackend) UseThreads(n int) ([]int, error) {
	err := b.SetThreads(n)
	return b.ThreadIDs(), err
}

func (b *contextBackend) Range(s core.SeqID) (first, last int) {
	from, to := b.Memory().Range(llama.SeqID(s))
	return int(from), int(to)
}

func (b *contextBackend) Close() error {
	b.dropAll()
	return b.Context.Close()
}
