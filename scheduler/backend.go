package scheduler

import (
	"agentd/llama"
	"agentd/scheduler/core"
)

// backend is what the engine's goroutine needs of a llama context. Tests put
// faults between the two.
type backend interface {
	// Copy makes the positions [from, to) of src also those of dst, which ends at from.
	Copy(src, dst core.SeqID, from, to int) error
	// Remove drops the positions of s that begin at from.
	Remove(s core.SeqID, from int) error
	// Save copies what the positions [from, to) of s hold to host memory; Load appends
	// those of a block to s; Drop frees a block.
	Save(s core.SeqID, from, to int, block core.BlockID) error
	Load(block core.BlockID, s core.SeqID, from, to int) error
	Drop(block core.BlockID)
	// Clear drops everything; Forget does too, and leaves what the cells hold. Blocks
	// are dropped by Clear only.
	Clear() error
	Forget() error
	// Decode computes the rows; errors are those of llama.Context.Decode.
	Decode(rows []core.Row) error
	// Logits is a view of the logits after the i-th row, until the next Decode.
	Logits(i int) ([]float32, error)
	// Team is how many threads SampleTogether uses, those that compute the rows; 0: none.
	Team() int
	// SetThreads changes how many threads compute and sample, from the next step on.
	SetThreads(n int) error
	SampleTogether(samplers []*llama.Sampler, rows [][]float32, out []llama.Sampled)
	// Range returns the first and the last position of s, -1 if it is empty.
	Range(s core.SeqID) (first, last int)
	// Abort ends a Decode in progress; any goroutine may call it.
	Abort()
	Close() error
}

// apply does one memory operation of a plan.
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

// contextBackend is the backend over a real context.
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

// scratch is the context's last sequence, which no core is given when blocks are kept.
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
