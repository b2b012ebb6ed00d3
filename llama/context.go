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

// SeqID identifies a sequence of a context's memory, from 0 to MaxSequences()-1.
type SeqID int32

// Pos is the position of a token in its sequence, from 0.
type Pos int32

// Row is a token of a batch with its position in a sequence. With Output set, Logits returns the logits
// of the next token.
type Row struct {
	Token  Token
	Pos    Pos
	Seq    SeqID
	Output bool
}

// Context is a KV cache with compute buffers for a model. The package's documentation says which goroutines may use it.
//
// The cache is unified: sequences share its cells, so that Copy forks a sequence without new cells. Contexts of
// sliding-window models keep all cells, which forks and the reuse of prefixes need.
type Context struct {
	model   *Model
	nctx    int
	batch   int
	seqs    int
	outs    int
	vocab   int
	threads int // number of threads that compute batches; 0 with a GPU

	sampling batchSampling // arguments of SampleBatch
	adapter  *Adapter      // applied to each batch; may be nil
	reserves bool          // the next Decode sizes the graph again, after SetAdapter
	waits    contextWaits

	mu     sync.Mutex
	ptr    *C.struct_agd_context
	memory Memory
	filled C.struct_llama_batch // the batch that Decode fills, with memory for batch tokens

	rows    []int32  // row in logits of each token of the last batch, -1 without Output
	logits  *C.float // the first row of logits of the last batch
	lastPos [MaxSequences]Pos
	seen    [MaxSequences]uint64 // value of serial when the sequence was last in a batch
	serial  uint64

	abortMu  sync.Mutex // guards abortPtr against Close
	abortPtr *C.struct_agd_context
}

// NewContext allocates a context. Without options it has 4096 cells, a batch size of 2048 tokens and one sequence. The
// error is ErrIncompatible if shared attention does not work with this llama.cpp.
func (m *Model) NewContext(opts ...ContextOption) (*Context, error) {
	// As in llama.cpp's tools.
	o := contextOptions{size: 4096, batch: 2048, microBatch: 512, sequences: 1, threads: 4, kvType: "f16"}
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

		abortPtr: cc,
	}
	c.filled, c.rows = C.llama_batch_init(C.int32_t(c.batch), 0, 1), make([]int32, 0, c.batch)
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
	briefWaits.Lock()
	_ = c.waits.set(false) // never fails
	c.waits.closed = true
	briefWaits.Unlock()
	C.agd_context_free(c.ptr)
	C.llama_batch_free(c.filled)
	if c.adapter != nil {
		c.adapter.users.Add(-1)
		c.adapter = nil
	}
	c.ptr, c.logits, c.rows = nil, nil, nil
	c.model.release()
	return nil
}

// Size returns the number of cells, the limit of tokens of all sequences together, where
// shared cells count once. llama.cpp may round the requested number up.
func (c *Context) Size() int { return c.nctx }

// BatchSize returns the limit of tokens in a batch of Decode.
func (c *Context) BatchSize() int { return c.batch }

// MaxSequences returns the number of sequence ids.
func (c *Context) MaxSequences() int { return c.seqs }

// MaxOutputs returns the limit of rows in a batch that have Output set.
func (c *Context) MaxOutputs() int { return c.outs }

// SetThreads sets the number of CPU threads that decode and sample from the next Decode on, 1 to
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

// Memory returns the context's memory, for operations on it.
func (c *Context) Memory() *Memory { return &c.memory }

// Decode computes a batch of rows and appends their tokens to their sequences. The rows of a sequence must have
// consecutive positions that continue it in the KV cache. Afterwards Logits returns the logits of rows with Output set.
// Without such rows Decode may return before a device has finished. It keeps no reference to rows. Errors are
// ErrNoKVSlot, ErrAborted, ErrInvalidBatch, ErrAllocation, ErrCompute, ErrLost, ErrIncompatible and ErrClosed; the
// documentation of each says what happened to the KV cache.
func (c *Context) Decode(rows []Row) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	c.logits, c.rows = nil, c.rows[:0]
	n, outputs, b, index := len(rows), 0, &c.filled, c.rows
	if n == 0 { // llama.cpp would abort on this and on what follows, or silently compute wrongly
		return fmt.Errorf("%w: it is empty", ErrInvalidBatch)
	} else if n > c.batch {
		return fmt.Errorf("%w: %d tokens, the context takes %d", ErrInvalidBatch, n, c.batch)
	}
	tokens, positions, logits := unsafe.Slice(b.token, n), unsafe.Slice(b.pos, n), unsafe.Slice(b.logits, n)
	seqs, counts := unsafe.Slice(b.seq_id, n), unsafe.Slice(b.n_seq_id, n)
	c.serial++
	for i, r := range rows {
		t, p, s := r.Token, r.Pos, r.Seq
		switch {
		case t < 0:
			return fmt.Errorf("%w: token %d", ErrInvalidBatch, t)
		case p < 0:
			return fmt.Errorf("%w: position %d", ErrInvalidBatch, p)
		case s < 0 || s >= MaxSequences:
			return fmt.Errorf("%w: sequence %d is not from 0 to %d", ErrInvalidBatch, s, MaxSequences-1)
		case int(t) >= c.vocab:
			return fmt.Errorf("%w: token %d of the batch is %d, the vocabulary has %d", ErrInvalidBatch, i, t, c.vocab)
		case int(s) >= c.seqs:
			return fmt.Errorf("%w: token %d of the batch is in sequence %d, the context has %d", ErrInvalidBatch, i, s, c.seqs)
		case c.seen[s] == c.serial && p != c.lastPos[s]+1:
			return fmt.Errorf("%w: token %d of the batch is at position %d of sequence %d, after %d", ErrInvalidBatch, i, p, s, c.lastPos[s])
		}
		c.seen[s], c.lastPos[s] = c.serial, p
		tokens[i], positions[i], counts[i], *seqs[i] = C.llama_token(t), C.llama_pos(p), 1, C.llama_seq_id(s)
		logits[i], index = 0, append(index, -1)
		if r.Output {
			logits[i], index[i] = 1, int32(outputs)
			outputs++
		}
	}
	if outputs > c.outs {
		return fmt.Errorf("%w: %d outputs, the context takes %d", ErrInvalidBatch, outputs, c.outs)
	}
	if c.reserves { // llama.cpp first sizes its graph
		c.model.reserving.Lock()
		defer c.model.reserving.Unlock()
	}
	b.n_tokens = C.int32_t(n)
	if rc := C.agd_decode(c.ptr, *b); rc != 0 {
		return c.decodeError(rc)
	}
	c.reserves = false
	if outputs > 0 {
		if c.logits = C.agd_logits(c.ptr); c.logits == nil {
			return cmp.Or(c.usable(), native(ErrCompute, "the rows could not be read: "+C.GoString(C.agd_context_detail(c.ptr))))
		}
	}
	c.rows = index
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

// usable returns the reason why the context can no longer be used, or nil.
func (c *Context) usable() error {
	switch {
	case c.ptr == nil:
		return ErrClosed
	case bool(C.agd_context_lost(c.ptr)):
		return native(ErrLost, C.GoString(C.agd_context_detail(c.ptr)))
	}
	return nil
}

// Abort ends the Decode in progress, or without one the next Decode, with ErrAborted. A GPU
// finishes what it has begun. Any goroutine may call Abort, also after Close.
func (c *Context) Abort() {
	c.abortMu.Lock()
	defer c.abortMu.Unlock()
	if c.abortPtr != nil {
		C.agd_abort(c.abortPtr, true)
	}
}

// Logits returns the Vocab().Size() logits of the i-th row of the last decoded batch, which must have had Output set.
// It is a view of native memory that is valid until the next Decode or Close and must not be modified.
func (c *Context) Logits(i int) ([]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(c.rows) || c.rows[i] < 0 {
		return nil, fmt.Errorf("%w: token %d of a batch of %d", ErrNoLogits, i, len(c.rows))
	}
	row := (*float32)(unsafe.Add(unsafe.Pointer(c.logits), int(c.rows[i])*c.vocab*C.sizeof_float))
	return unsafe.Slice(row, c.vocab), nil
}
