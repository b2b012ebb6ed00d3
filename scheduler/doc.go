// Package scheduler runs generations on llama contexts. It has a bounded queue, continuous
// batching, chunked prefill, one prefill for all candidates of a prompt, and a prefix cache
// of all sequences. ARCHITECTURE.md follows a request through it.
//
// The policies of a context are in package core, which has no clock, goroutine or llama.cpp.
// An Engine has one worker for each context: a goroutine, locked to its OS thread, that runs
// plan, decode, sample, commit. Callers tokenize on their own goroutines before, and
// detokenize after. Several threads sample.
//
// # Health
//
//	             worker                                 engine
//	ready ---------------> step failed --------> Err in the generations of that step,
//	  ^                        |                 or a retry on another context
//	  |                        v
//	  |            cells may be non-finite: no new work until running requests have
//	  |            ended and the context is cleared
//	  |                        |
//	  +---- cleared <----------+---- repeated --> paused, longer each time, while another
//	                           |                  context is up
//	                           +---- llama.ErrLost --> lost for good
//
// A grammar that allows no token, or non-finite logits, end one candidate. A failed computation
// affects the generations of that step and drops their cache. A failed memory operation affects
// the whole context, which is cleared. Affected generations start again on a context that they
// have not tried, or end with ErrModel. None of these ends the engine.
package scheduler
