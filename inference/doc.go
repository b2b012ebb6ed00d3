// Package inference joins the rooms of agentd into what decides a request: a
// llama.cpp model (package llama), the engine that batches its generations
// (package scheduler) and the full-history agent (package agent). Its Service
// is package server's Decider.
//
// Open loads everything and says what it chose (Facts) where Options left a
// choice open. The work of a request that is not the model's own, tokenization
// above all, happens on the request's goroutines and never on the engine's.
package inference
