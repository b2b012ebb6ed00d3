// Package server is the HTTP face of agentd: routes, middleware, lifecycle and
// metrics. It knows the protocol and nothing of models: what decides is a
// Decider, which package inference implements over llama.cpp.
//
// A Server is loading when it is made, ready once Ready has been given a
// Decider, and draining after Drain. It listens in all three states: /health
// and /v1/info always answer. Work waits for the model to load as long as
// Options say; what cannot be taken is refused with 503 and Retry-After.
//
// Every answer that is not a success goes through one writer (errors.go) and
// one table of codes. The order of checks on a request is: authentication,
// route, method, Content-Type, state, size, JSON and contract, queue.
package server
