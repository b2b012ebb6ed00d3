// Package llama runs language models with llama.cpp: backends, models, contexts, KV cache operations, vocabularies,
// samplers, grammars and chat templates. It does not depend on HTTP, agents or the JSON protocol.
//
// The Go files are a binding. C++ in llama/native replaces parts of llama.cpp that are slow for many short generations
// with a shared prompt: attention over shared cells on the CPU, grammar matching, and sampling.
//
// # Failure
//
// A failed assertion in C ends the process, and a C++ exception must not reach Go. So Go checks every value before it
// passes it to C, and C++ turns every exception into an error. A handle may be closed any number of times. The first
// Close releases it; every later use returns [ErrClosed].
//
// # Ownership
//
// Any number of goroutines may use a [Model] and its [Vocab]. A [Model] can't be freed before all contexts, samplers,
// templates and adapters made from it are closed. A [Context] belongs to one goroutine, which should be locked to its
// OS thread, because the threads of a computation belong to the thread that starts it. Other goroutines may call
// [Context.Abort], and Close, which waits for the method in progress. A [Sampler] may be used by one goroutine at a
// time; different samplers can run in parallel.
package llama
