package llama

import (
	"errors"
	"fmt"
	"strings"

	"agentd/internal/base/clip"
)

// Errors that callers distinguish. Returned errors wrap them with details.
var (
	ErrClosed = errors.New("llama: use after close")
	// ErrInUse: contexts, samplers, templates or adapters of the model are still open.
	ErrInUse = errors.New("llama: still in use")

	// ErrNoKVSlot: the free cells do not suffice for the batch. The memory is unchanged. Free
	// sequences or make the batch smaller.
	ErrNoKVSlot = errors.New("llama: no room in the KV cache")
	// ErrAborted: Context.Abort was called (llama_decode returned 2). A part of the batch may
	// be in the KV cache: compare the ranges of its sequences.
	ErrAborted = errors.New("llama: decoding aborted")
	// ErrInvalidBatch: the batch is invalid. The memory is unchanged.
	ErrInvalidBatch = errors.New("llama: invalid batch")
	// ErrAllocation: there is no memory for the computation. A part of the batch may be in the KV cache.
	ErrAllocation = errors.New("llama: allocation failed")
	// ErrCompute: the computation failed (llama_decode returned -3, an exception, or logits that
	// are NaN). A part of the batch may be in the KV cache.
	ErrCompute = errors.New("llama: computation failed")

	// ErrLost: a device failed in a call of the context, where llama.cpp alone would end the process.
	// The context can only be closed, and its memory is not freed. After a GPU has
	// failed, no context or model is freed any more, since that would fail, too.
	ErrLost = errors.New("llama: the device failed")

	// ErrIncompatible: llama.cpp lacks a behaviour on which llama/native relies, see its
	// README.md. The text says what changed and what to do.
	ErrIncompatible = errors.New("llama: this llama.cpp is not compatible")

	// ErrSequence: an invalid sequence or range for the memory operation.
	ErrSequence = errors.New("llama: invalid sequence operation")
	// ErrPartial: this model's memory can't remove or copy a part of a sequence
	// (recurrent and hybrid models).
	ErrPartial = errors.New("llama: the memory can't take a part of a sequence")

	// ErrNoLogits: the token had no Output set in the last decoded batch.
	ErrNoLogits = errors.New("llama: no logits for this token")

	// ErrGrammar: the grammar can't be parsed or exceeds a limit.
	ErrGrammar = errors.New("llama: invalid grammar")
	// ErrGrammarDead: the grammar and the suppressed tokens leave no token here.
	ErrGrammarDead = errors.New("llama: the grammar and the suppressed tokens leave no token")
	// ErrRejected: the grammar does not admit the token given to Accept.
	ErrRejected = errors.New("llama: the grammar rejects the token")

	// ErrIsVision and ErrIsAdapter: the file is not a model.
	ErrIsVision  = errors.New("it is the vision part of a model (mmproj), not a language model")
	ErrIsAdapter = errors.New("it is a LoRA adapter, not a model")

	// ErrAdapter: the file is not a LoRA adapter that fits the model.
	ErrAdapter = errors.New("llama: unusable LoRA adapter")

	// ErrTemplate: the chat template can't be parsed or rendered.
	ErrTemplate = errors.New("llama: chat template")
	// ErrNoTemplate: the model file has no chat template.
	ErrNoTemplate = errors.New("llama: the model has no chat template")
)

// native wraps err with a text from native code, shortened to maxErrorText bytes.
func native(err error, text string) error {
	return fmt.Errorf("%w: %s", err, clip.Text(strings.TrimSpace(text), maxErrorText))
}
