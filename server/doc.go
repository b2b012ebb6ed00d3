// Package server is the HTTP server of agentd: routes, middleware, lifecycle and metrics. It depends on the protocol
// and not on a model: an Inference decides requests, such as a Service of package inference/live.
//
// A new Server is loading. It is ready after Ready, and draining after Drain. It listens in all three states: /health
// and /v1/info always answer. A request waits while the model loads, within Options.LoadingWait. All errors go through
// one table of codes (errors.go). A request is checked in this order: authentication, route, method, Content-Type,
// state, size, JSON and contract, queue.
//
// Read the files from the routes down; each uses only later ones: routes.go, a file for each kind of request
// (handlers.go, stream.go, coaching.go, weights.go, pause.go, completions.go, rollout.go, page.go), middleware.go and
// body.go, fail.go and lifecycle.go, server.go, and what knows no Server: auth.go, metrics.go, neighbours.go,
// errors.go.
package server
