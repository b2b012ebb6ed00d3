// Package llama is a small binding of llama.cpp: backends, models, contexts,
// memory (KV cache) operations, vocabularies, samplers, grammars and chat
// templates. It knows nothing of HTTP, agents or JSON contracts.
//
// The names follow go-llama.cpp where the idea is the same (New, SetContext,
// SetGPULayers, Free).
//
// # Failure
//
// A failed assertion in C ends the process, and a C++ exception must not cross
// into Go. So every value is checked in Go before it is handed over, and every
// call that can throw goes through a shim that turns exceptions into errors.
// A handle may be closed any number of times; the first Close releases it, and
// every later use answers [ErrClosed].
//
// # Ownership
//
// A [Model] and its [Vocab] may be used by any number of goroutines. A [Model]
// counts what was made from it and refuses to be freed before that is closed.
// A [Context] and its [Batch] belong to one goroutine, which should be locked
// to its OS thread, because the threads of a computation belong to the thread
// that starts it; only [Context.Abort] may come from elsewhere. Each method of
// a [Context] takes a lock, so that a Close from another goroutine waits
// instead of crashing. A [Sampler] has one user at a time, but different
// samplers run in parallel.
package llama
