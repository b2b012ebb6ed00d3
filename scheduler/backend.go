package scheduler

import (
	"agentd/llama"
	"agentd/scheduler/core"
)

// backend is a llama context as its worker sees it. Tests inject faults.
type backend interface {
	// Copy adds the positions [from, to) of src to dst, which ends at from.
	Copy(src, dst core.SeqID, from, to int) error
	// Remove removes the positions of s from from on.
	Remove(s core.SeqID, from int) error
	// Save copies the positions [from, to) of s to host memory. Load appends positions of a
	// block to s. Drop frees a block.
	Save(s core.SeqID, from, to int, block core.BlockID) error
	Load(block core.BlockID, s core.SeqID, from, to int) error
	Drop(block core.BlockID)
	// Clear removes all sequences and blocks, and zeroes the cells. Forget only removes the
	// sequences.
	Clear() error
	Forget() error
	// Decode computes the rows. Errors are those of llama.Context.Decode.
	Decode(rows []core.Row) error
	// Logits returns a view of the logits of the i-th row, valid until the next Decode.
	Logits(i int) ([]float32, error)
	// SamplerThreads is the number of threads of SampleBatch, those that compute the rows; 0: none.
	SamplerThreads() int
	// SetThreads sets the number of compute and sample threads from the next step on.
	SetThreads(n int) error
	// SetBriefWaits sets how the threads of a step wait for each other. It is safe for
	// concurrent use.
	SetBriefWaits(on bool) error
	// ThreadIDs returns the kernel's ids of the threads that compute the next step.
	ThreadIDs() []int
	SampleBatch(samplers []*llama.Sampler, rows [][]float32, out []llama.Sampled)
	// SetAdapter applies an adapter to the rows of the next steps; nil: none.
	SetAdapter(a *llama.Adapter) error
	// Range returns the first and the last position of s, or -1 if it is empty.
	Range(s core.SeqID) (first, last int)
	// Abort ends a Decode in progress. It is safe for concurrent use.
	Abort()
	Close() error
}

// apply executes one memory operation of a plan.
func apply(b backend, o core.Op) error {
	switch o.Kind {
	case core.OpCopy:
		return b.Copy(o.Src, o.Seq, o.Pos, o.End)
	case core.OpSave:
		return b.Save(o.Seq, o.Pos, o.End, o.Block)
	case core.OpLoad:
		return b.Load(o.Block, o.Seq, o.Pos, o.End)
	case core.OpDrop:
		b.Drop(o.Block)
		return nil
	default:
		return b.Remove(o.Seq, o.Pos)
	}
}

// contextBackend implements backend with a llama context.
type contextBackend struct {
	*llama.Context
	batch  *llama.Batch
	blocks map[core.BlockID]*llama.State
}

func newContextBackend(c *llama.Context) *contextBackend {
	return &contextBackend{Context: c, batch: llama.NewBatch(c.BatchSize()), blocks: map[core.BlockID]*llama.State{}}
}

func (b *contextBackend) Copy(src, dst core.SeqID, from, to int) error {
	return b.Memory().Copy(llama.SeqID(src), llama.SeqID(dst), llama.Pos(from), llama.Pos(to))
}

func (b *contextBackend) Remove(s core.SeqID, from int) error {
	return b.Memory().Remove(llama.SeqID(s), llama.Pos(from), -1)
}

// scratch is the context's last sequence. Config.complete reserves it for Save and Load.
func (b *contextBackend) scratch() llama.SeqID { return llama.SeqID(b.MaxSequences() - 1) }

func (b *contextBackend) Save(s core.SeqID, from, to int, block core.BlockID) error {
	state, err := b.Memory().Save(llama.SeqID(s), b.scratch(), llama.Pos(from), llama.Pos(to))
	if err == nil {
		b.blocks[block] = state
	}
	return err
}

func (b *contextBackend) Load(block core.BlockID, s core.SeqID, from, to int) error {
	return b.Memory().Load(b.blocks[block], llama.SeqID(s), b.scratch(), llama.Pos(from), llama.Pos(to))
}

func (b *contextBackend) Drop(block core.BlockID) {
	b.blocks[block].Free()
	delete(b.blocks, block)
}

func (b *contextBackend) dropAll() {
	for id := range b.blocks {
		b.Drop(id)
	}
}

func (b *contextBackend) Clear() error {
	b.dropAll()
	return b.Memory().Clear()
}

func (b *contextBackend) Forget() error { return b.Memory().Forget() }

func (b *contextBackend) Decode(rows []core.Row) error {
	b.batch.Reset()
	for _, r := range rows {
		if err := b.batch.Add(r.Token, llama.Pos(r.Pos), llama.SeqID(r.Seq), r.Output); err != nil {
			return err
		}
	}
	return b.Context.Decode(b.batch)
}

func (b *contextBackend) Range(s core.SeqID) (first, last int) {
	m := b.Memory()
	return int(m.PosMin(llama.SeqID(s))), int(m.PosMax(llama.SeqID(s)))
}

func (b *contextBackend) Close() error {
	b.dropAll()
	b.batch.Free()
	return b.Context.Close()
}
