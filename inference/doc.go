// Package inference composes what decides a request: a llama.cpp model (package llama), the engine
// that batches its generations (package scheduler) and the agent (package agent). Package server
// serves its Service over HTTP.
//
// Open loads the model and chooses the settings that Options leave open; Service.Info has the
// result. A request passes through once: Decide admits it to the engine and hands the admission
// to the agent, which tokenizes and generates without calling back. Only the model's own work
// happens on the engine's goroutines.
package inference
