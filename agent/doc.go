// Package agent turns inputs into decisions of one model. The full-history agent shows the model the whole history of
// an interaction. The history-summarized agent first lets the model summarize a history that exceeds a budget.
//
// [Agent.Prepare] validates the inputs of a request, and [Agent.Run] makes their candidates. Each input is rendered
// once (package format), tokenized once (package tokens), and generated as one request with N completions. Each
// completion is parsed into a decision, which is appended to the memory (package memory). The agent keeps nothing
// between requests. It uses a model through [ModelAPI], [Vocabulary] and [Generator] only, so its tests need no model.
package agent
