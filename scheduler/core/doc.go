// Package core decides what a llama context computes next. It is a pure state machine:
// requests, cancellations and step results go in, the plan of the next step comes out. It
// has no clock, goroutine, randomness or native code. The same calls always give the same
// plans.
//
// The caller's loop is
//
//	plan := c.Plan()
//	apply plan.Ops in order, then decode plan.Rows in one batch
//	choose the next tokens for each of plan.Samples
//	events := c.Commit(status, choices)
//
// # Life of a request
//
//  1. Submit queues a request: one prompt, N candidates.
//  2. Plan admits it when there is room (admission.go): by priority, then by turns of clients. For
//     a higher priority, running sequences are preempted (preemption.go). Its sequence starts as a copy of the
//     longest cached prefix, or follows another prompt in prefill until their common part is
//     there (prefixcache.go). Cells for the first wave of candidates are reserved: the worst
//     case, or the usual number with Config.Overcommit.
//  3. The rest of the prompt is prefilled in chunks beside the decode rows of other sequences
//     (prefill.go).
//  4. The logits of the last prompt token are sampled once for each candidate, then the
//     sequence is forked. Candidates beyond the first wave wait with their first token.
//  5. Each candidate decodes one row per step until it stops (commit.go). Forced tokens after
//     its last one take rows of the same step, and so do speculative tokens when few
//     candidates decode (speculation.go). All rows of a step have the same adapter of the
//     weights; adapters take turns (adapters.go).
//  6. Its sequence stays cached until its cells or its id are needed (eviction.go). Evicted
//     cells may be kept in host memory (hostcache.go).
//
// Interrupt ends a request early and returns its tokens. Request.Begun continues it, here or with other
// weights: its candidates wait as preempted ones do.
//
// # Life of a sequence
//
//	           allocate                   stop
//	+------+              +---------+  (last token)  +--------+
//	| free | -----------> | running | -------------> | cached |
//	+------+              +---------+                +--------+
//	 ^    ^                    |    ^  allocate as last   |
//	 |    |  next plan         |    |  resort             |
//	 |    |                    |    +---------------------+
//	 |    |  +---------+       |                          |
//	 |    +--| freeing | <-----+ Cancel, failed step      |
//	 |       +---------+       |                          |
//	 |                         | preempt                  | evict
//	 +-------------------------+--------------------------+
//
// # Memory
//
// The KV cache is unified: sequences share cells by reference. A radix tree whose nodes are
// runs of cells mirrors it, since llama.cpp does not report how many cells are free
// (prefixtree.go).
package core
