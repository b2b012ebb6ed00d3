// Package scheduler places generations on llama contexts: a bounded queue,
// continuous batching, chunked prefill, one prefill for all candidates of a
// prompt, and a prefix cache over everything that was computed.
//
// The policies of a context are in package core, which knows no clock, no goroutine
// and no llama.cpp. An Engine has one goroutine for each context, locked to its OS
// thread, that owns it and runs plan, decode, sample, commit. Callers tokenize before and
// detokenize after it on their own goroutines; sampling is spread over several.
//
// # The way of a generation
//
//  1. Admit counts the candidates of a whole request against the bounded queue,
//     or refuses with *QueueFullError before any work is done.
//  2. Ticket.Submit checks the generations of the request, makes their samplers
//     and gives each job to the context on which it is done soonest, all at once and
//     in order.
//  3. The context's goroutine submits it to its core, which plans it into steps.
//  4. When the last candidate has ended, Pending.Wait turns tokens into text.
//
// Behind each sampled token, the goroutine that sampled it appends what the grammar
// leaves no choice about (llama.Sampler.Force). Those tokens are decoded together
// with the sampled one; an end that is forced takes no step at all. Where few candidates
// decode, steps are filled with guesses of what these say next, and where one is right
// the goroutine goes on with the row behind it.
//
// A caller whose context ends gets its error at once; the sequences of its
// generation are freed in the next plan, wherever it was.
//
// # Failure
//
// A grammar that admits nothing, or logits that are not numbers, end the
// candidate. A failed computation concerns the generations that were in that step,
// and drops what they had in the cache; a failed memory operation all of the
// context, which is cleared. They begin again on another context that they have not
// tried, or end with ErrModel. A context whose steps keep failing is left out for a
// while, as long as there is another one, and one whose device is lost
// (llama.ErrLost) for good. None of these ends the engine.
package scheduler
