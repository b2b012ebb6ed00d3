// Package traceparent carries a caller's trace context (W3C Trace Context) to the servers
// that a request is passed on to.
package traceparent

import (
	"context"
	"net/http"
	"regexp"
)

// The headers of the specification.
const (
	headerParent = "Traceparent"
	headerState  = "Tracestate"
)

// maxState is the least length that the specification wants passed on; longer ones are dropped.
const maxState = 512

// valid has the form of version 00, which later versions begin with.
var valid = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,64})?$`)

type key struct{}

type headers struct{ parent, state string }

// With returns a context with the trace context of a request's headers, or ctx where there is
// no valid one.
func With(ctx context.Context, h http.Header) context.Context {
	parents := h.Values(headerParent)
	if len(parents) != 1 || !valid.MatchString(parents[0]) || parents[0][:2] == "ff" {
		return ctx
	}
	state := h.Get(headerState)
	if len(state) > maxState || len(h.Values(headerState)) > 1 {
		state = "" // it means nothing without the rest
	}
	return context.WithValue(ctx, key{}, headers{parents[0], state})
}

// Set adds the headers of ctx's trace context to those of a request.
func Set(ctx context.Context, h http.Header) {
	t, ok := ctx.Value(key{}).(headers)
	if !ok {
		return
	}
	h.Set(headerParent, t.parent)
	if t.state != "" {
		h.Set(headerState, t.state)
	}
}
