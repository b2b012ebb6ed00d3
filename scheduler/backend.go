package scheduler

import (
	"agentd/llama"
	"agentd/scheduler/core"
)

// backend is what the engine's goroutine needs of a llama context. Tests put
// faults between the two.
type backend interface {
	// Copy makes the first n positions of src also those of the empty dst.
	Copy(src, dst core.SeqID, n int) error
	// Remove drops the positions of s that begin at from.
	Remove(s core.SeqID, from int) error
	// Clear drops everything; Forget does too, and leaves what the cells hold.
	Clear() error
	Forget() error
	// Decode computes the rows; errors are those of llama.Context.Decode.
	Decode(rows []core.Row) error
	// Logits is a view of the logits after the i-th row, until the next Decode.
	Logits(i int) ([]float32, error)
	// Range returns the first and the last position of s, -1 if it is empty.
	Range(s core.SeqID) (first, last int)
	// Abort ends a Decode in progress; any goroutine may call it.
	Abort()
	Close() error
}

// contextBackend is the backend over a real context.
type contextBackend struct {
	*llama.Context
	batch *llama.Batch
}

func newContextBackend(c *llama.Context) *contextBackend {
	return &contextBackend{Context: c, batch: llama.NewBatch(c.BatchSize())}
}

func (b *contextBackend) Copy(src, dst core.SeqID, n int) error {
	return b.Memory().Copy(llama.SeqID(src), llama.SeqID(dst), 0, llama.Pos(n))
}

func (b *contextBackend) Remove(s core.SeqID, from int) error {
	return b.Memory().Remove(llama.SeqID(s), llama.Pos(from), -1)
}

func (b *contextBackend) Clear() error { return b.Memory().Clear() }

func (b *contextBackend) Forget() error { return b.Memory().Forget() }

func (b *contextBackend) Decode(rows []core.Row) error {
	b.batch.Reset()
	for _, r := range rows {
		if err := b.batch.Add(llama.Token(r.Token), llama.Pos(r.Pos), llama.SeqID(r.Seq), r.Output); err != nil {
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
	b.batch.Free()
	return b.Context.Close()
}
