// Package agent turns inputs into decisions of one model. The full-history agent shows the model
// the whole history of an interaction. The history-summarized agent lets the model summarize a
// history that exceeds a budget first. Both share everything else.
//
// [Agent.Prepare] validates the inputs of a request, and [Agent.Run] makes their candidates. Each
// input is rendered once (package format), tokenized once (package tokens), and generated as one request with N
// completions by a [Generator]. Each completion is parsed into a decision, which is appended to
// the memory (package memory). A correction from coaching replaces the model's decision.
//
// The agent has no state of interactions, which is all in the request. It imports neither
// llama.cpp nor the scheduler. [ModelAPI], [Vocabulary] and [Generator] are its whole view of a
// model, so its tests need none.
package agent
