// Package llama runs language models with llama.cpp: backends, models, contexts,
// KV cache operations, vocabularies, samplers, grammars and chat templates. It
// knows nothing of HTTP, agents or JSON contracts.
//
// The Go files are a binding. C++ in llama/native replaces parts of llama.cpp that are
// slow for many short generations with a shared prompt: attention over shared cells on
// the CPU, the matcher of grammars, and sampling.
//
// # Failure
//
// A failed assertion in C ends the process, and a C++ exception must not cross
// into Go. So Go checks every value before it hands it over, and C++ turns every
// exception into an error. A handle may be closed any number of times. The first
// Close releases it; every later use returns [ErrClosed].
//
// # Ownership
//
// Any number of goroutines may use a [Model] and its [Vocab]. A [Model] counts what
// was made from it and can't be freed before that is closed. A [Context] belongs to
// one goroutine. It should be locked to its OS thread, because the
// threads of a computation belong to the thread that starts it. Only [Context.Abort]
// may come from elsewhere. Each method of a [Context] takes a lock, so that a Close
// from another goroutine waits. A [Sampler] has one user at a time, but different
// samplers run in parallel.
package llama
