// Package agent is the full-history agent: it gives one model the whole history
// of an interaction and lets it decide the next reply or tool calls. As the
// history-summarized agent it has the model summarize a history that exceeds a budget
// first; what the two do about memory is behind one interface.
//
// [Agent.Prepare] checks the inputs of a request, [Agent.Run] makes their
// candidates with a [Generator]. For each input a prompt is rendered once
// (package format), all its candidates are asked for in one [Generation], each
// completion is read back into a decision, and the decision is appended to the
// memory (package memory). Corrections from coaching take the model's place.
//
// The agent holds no interaction state: everything is in the request. It knows
// neither llama.cpp nor the scheduler; what it needs of a loaded model comes
// through [ModelAPI] and Generator.
package agent
