package llama

// #include "native/api.h"
import "C"

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Context is a KV cache and compute buffers of a model; the package says who may use it.
//
// The cache is unified: all sequences share its cells, so that Copy makes a fork
// without new cells. Sliding-window models keep all cells, since forks and the reuse
// of prefixes need them.
type Context struct {
	model   *Model
	nctx    int
	batch   int
	seqs    int
	outs    int
	vocab   int
	threads int // that compute batches; 0: there is a GPU

	sampling batchSampling // of SampleBatch
	adapter  *Adapter      // applied to each batch
	reserves bool          // after SetAdapter the next Decode sizes the graph again
	waits    contextWaits

	mu     sync.Mutex
	ptr    *C.struct_agd_context
	memory Memory

	rows    []int32  // as Batch.rows, of the last batch
	nrows   int      // number of rows
	logits  *C.float // base of the rows
	lastPos [MaxSequences]Pos
	seen    [MaxSequences]uint64 // value of serial when the sequence was last in a batch
	serial  uint64

	abortMu  sync.Mutex // guards abortPtr against Close
	abortPtr *C.struct_agd_context
}

// NewContext allocates a context. Without options it has 4096 cells, a batch
// of 2048 tokens and one sequence. ErrIncompatible: shared attention does not work
// with this llama.cpp.
func (m *Model) NewContext(opts ...ContextOption) (*Context, error) {
	o := defaultContextOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if m.vocabOnly {
		return nil, fmt.Errorf("llama: context: the model was loaded without weights (SetVocabOnly)")
	}
	ptr, err := m.acquire()
	if err != nil {
		return nil, err
	}
	params := o.params()
	var cerr *C.char
	if !C.agd_attention_check(&cerr) {
		m.release()
		return nil, native(ErrIncompatible, takeString(cerr))
	}
	m.reserving.Lock()
	cc := C.agd_context_new(ptr, params, C.int32_t(o.failAt), C.int32_t(o.failWith), &cerr)
	m.reserving.Unlock()
	if cc == nil {
		m.release()
		reason := takeString(cerr)
		if text, ok := strings.CutPrefix(reason, C.AGD_INCOMPATIBLE); ok {
			return nil, native(ErrIncompatible, text)
		}
		return nil, native(fmt.Errorf("llama: context of %d tokens", o.size), reason)
	}
	raw := C.agd_context_raw(cc)
	c := &Context{
		model: m,
		ptr:   cc,
		nctx:  int(C.llama_n_ctx(raw)),
		batch: int(C.llama_n_batch(raw)),
		seqs:  o.sequences,
		outs:  o.outputs,
		vocab: m.vocab.Size(),
		rows:  make([]int32, 0, o.batch),

		abortPtr: cc,
	}
	if !bool(C.agd_has_gpu()) {
		c.threads = o.threadsBatch
	}
	c.memory.c = c
	return c, nil
}

// Close frees the context.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return ErrClosed
	}
	c.abortMu.Lock()
	c.abortPtr = nil
	c.abortMu.Unlock()
	c.closeWaits()
	C.agd_context_free(c.ptr)
	if c.adapter != nil {
		c.adapter.users.Add(-1)
		c.adapter = nil
	}
	c.ptr, c.logits, c.nrows, c.rows = nil, nil, 0, nil
	c.model.release()
	return nil
}

// Size is the number of cells. It bounds the tokens of all sequences together, where
// shared cells count once. llama.cpp may round the requested number up.
func (c *Context) Size() int { return c.nctx }

// BatchSize is the largest batch that Decode takes, in tokens.
func (c *Context) BatchSize() int { return c.batch }

// MaxSequences is the number of sequence ids.
func (c *Context) MaxSequences() int { return c.seqs }

// MaxOutputs is the number of tokens of one batch that may have output set.
func (c *Context) MaxOutputs() int { return c.outs }

// SetThreads sets how many CPU threads decode and sample from the next Decode on: 1 to
// MaxThreads. Only the goroutine that calls Decode may call it.
func (c *Context) SetThreads(n int) error {
	if n < 1 || n > MaxThreads {
		return fmt.Errorf("llama: %d threads, must be 1 to %d", n, MaxThreads)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return ErrClosed
	}
	C.llama_set_n_threads(C.agd_context_raw(c.ptr), C.int32_t(n), C.int32_t(n))
	if c.threads > 0 {
		c.threads = n
	}
	return nil
}

// Memory gives the operations on the context's memory.
func (c *Context) Memory() *Memory { return &c.memory }

// Decode computes the tokens of b and appends them to their sequences.
// Afterwards Logits returns the rows of the tokens with output set. Without such
// tokens Decode may return before a device has ended. Errors are
// ErrNoKVSlot, ErrAborted, ErrInvalidBatch, ErrAllocation, ErrCompute, ErrLost,
// ErrIncompatible and ErrClosed; each documents what happened to the KV cache.
func (c *Context) Decode(b *Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	c.logits, c.nrows, c.rows = nil, 0, c.rows[:0]
	switch { // llama.cpp would abort on these and on what follows, or silently compute wrongly
	case b.tokens == nil:
		return ErrClosed
	case b.n == 0:
		return fmt.Errorf("%w: it is empty", ErrInvalidBatch)
	case b.n > c.batch:
		return fmt.Errorf("%w: %d tokens, the context takes %d", ErrInvalidBatch, b.n, c.batch)
	case b.outputs > c.outs:
		return fmt.Errorf("%w: %d outputs, the context takes %d", ErrInvalidBatch, b.outputs, c.outs)
	}
	c.serial++
	for i := range b.n {
		t, p, s := b.tokens[i], b.pos[i], *b.seqs[i]
		switch {
		case int(t) >= c.vocab:
			return fmt.Errorf("%w: token %d of the batch is %d, the vocabulary has %d", ErrInvalidBatch, i, t, c.vocab)
		case int(s) >= c.seqs:
			return fmt.Errorf("%w: token %d of the batch is in sequence %d, the context has %d", ErrInvalidBatch, i, s, c.seqs)
		case c.seen[s] == c.serial && p != c.lastPos[s]+1:
			return fmt.Errorf("%w: token %d of the batch is at position %d of sequence %d, after %d", ErrInvalidBatch, i, p, s, c.lastPos[s])
		}
		c.seen[s], c.lastPos[s] = c.serial, p
	}
	if c.reserves { // llama.cpp first sizes its graph
		c.model.reserving.Lock()
		defer c.model.reserving.Unlock()
	}
	b.c.n_tokens = C.int32_t(b.n)
	if rc := C.agd_decode(c.ptr, b.c); rc != 0 {
		return c.decodeError(rc)
	}
	c.reserves = false
	if b.outputs > 0 {
		if c.logits = C.agd_logits(c.ptr); c.logits == nil {
			return cmp.Or(c.usable(), native(ErrCompute, "the rows could not be read: "+C.GoString(C.agd_context_detail(c.ptr))))
		}
	}
	c.nrows, c.rows = b.outputs, append(c.rows, b.rows[:b.n]...)
	return nil
}

var decodeErrors = map[C.int]error{
	1: ErrNoKVSlot, -1: ErrInvalidBatch, -2: ErrAllocation, -3: ErrCompute, // llama_decode's
	C.AGD_DECODE_POSITION: ErrInvalidBatch, C.AGD_DECODE_INCOMPATIBLE: ErrIncompatible, C.AGD_DECODE_THROWN: ErrCompute,
}

func (c *Context) decodeError(rc C.int) error {
	err, known := decodeErrors[rc]
	switch {
	case rc == 2:
		C.agd_abort(c.ptr, false)
		return ErrAborted
	case rc == C.AGD_DECODE_LOST:
		return c.usable()
	case !known:
		return fmt.Errorf("%w: llama_decode answered %d", ErrCompute, rc)
	case rc <= C.AGD_DECODE_THROWN:
		return native(err, C.GoString(C.agd_context_detail(c.ptr)))
	}
	return err
}

// usable returns why the context can no longer be used, or nil.
func (c *Context) usable() error {
	switch {
	case c.ptr == nil:
		return ErrClosed
	case bool(C.agd_context_lost(c.ptr)):
		return native(ErrLost, C.GoString(C.agd_context_detail(c.ptr)))
	}
	return nil
}

// Abort ends the Decode in progress with ErrAborted, or else the next one. A GPU
// finishes what it has begun. Any goroutine may call Abort, also after Close.
func (c *Context) Abort() {
	c.abortMu.Lock()
	defer c.abortMu.Unlock()
	if c.abortPtr != nil {
		C.agd_abort(c.abortPtr, true)
	}
}

// Logits is the row of the i-th token of the last decoded batch, which must
// have had output set: Vocab().Size() values. It is a view of native memory that is
// valid until the next Decode or Close and must not be changed.
func (c *Context) Logits(i int) ([]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(c.rows) || c.rows[i] < 0 {
		return nil, fmt.Errorf("%w: token %d of a batch of %d", ErrNoLogits, i, len(c.rows))
	}
	all := unsafe.Slice((*float32)(unsafe.Pointer(c.logits)), c.nrows*c.vocab)
	row := int(c.rows[i]) * c.vocab
	return all[row : row+c.vocab : row+c.vocab], nil
}
