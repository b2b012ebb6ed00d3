// Package core decides what a llama context computes next. It is a pure state
// machine: jobs, cancellations and the results of steps go in, the plan of the
// next step comes out. It has no clock, no goroutine, no randomness and no
// native code, so the same calls always give the same plans.
//
// The caller's loop is
//
//	plan := c.Plan()
//	apply plan.Ops in their order, then decode plan.Rows in one batch
//	choose the next tokens for each of plan.Samples
//	events := c.Commit(result, choices)
//
// # The life of a job
//
//  1. Submit queues a job: one prompt, N candidates. A job that can never fit
//     is refused there, with the numbers.
//  2. Plan admits it when there is room: a sequence that starts as a copy of
//     the longest known prefix, or that follows another prompt in prefill until
//     the part they share is there. Room for its first wave of candidates is
//     reserved: in the worst case, so that what runs never has to stop for space,
//     or with Config.Overcommit for what candidates usually need, and the youngest
//     is parked where that was too little.
//  3. The rest of the prompt is prefilled in chunks beside the decode rows of
//     the other sequences.
//  4. The logits of the last prompt token are sampled once for each candidate,
//     then the sequence is forked. Candidates beyond the first wave wait with
//     their first token in hand.
//  5. Each candidate decodes one row a step until it stops, and with it, in the same
//     step, the rows of the tokens that were forced behind its last one, and of
//     guesses where few candidates decode: see draft. Its sequence
//     stays cached, tokens and all, until the cells or the sequence id are needed.
//
// # Memory
//
// The KV cache is unified: sequences share cells by reference. A tree whose
// nodes are runs of cells mirrors who shares what, since llama.cpp does not say
// how many cells are free. See tree.
package core
