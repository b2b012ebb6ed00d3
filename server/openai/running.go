package openai

import (
	"context"
	"slices"
	"sync"

	"agentd/scheduler/generation"
)

// Running has the requests that can be aborted by an id. Its methods are safe for concurrent use.
type Running struct {
	list sync.Map // of *running
}

type running struct {
	ids   []string
	abort chan struct{}
	once  sync.Once
}

type runningKey struct{}

// With returns a context in which this package adds its requests to r.
func (r *Running) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, runningKey{}, r)
}

// Abort ends the requests with one of these ids: the id of an answer, or the request_id of a body; none means all. Their
// answers have the tokens so far and the finish_reason abort. It returns the number of aborted requests.
func (r *Running) Abort(ids []string) (aborted int) {
	named := map[string]bool{}
	for _, id := range ids {
		named[id] = true
	}
	for key := range r.list.Range {
		one := key.(*running)
		if len(ids) == 0 || slices.ContainsFunc(one.ids, func(id string) bool { return named[id] }) {
			one.once.Do(func() { close(one.abort) })
			aborted++
		}
	}
	return aborted
}

// begin makes a request abortable by ids, until end is called.
func begin(ctx context.Context, request *generation.Request, ids ...string) (end func()) {
	r, ok := ctx.Value(runningKey{}).(*Running)
	if !ok {
		return func() {}
	}
	one := &running{abort: make(chan struct{})}
	one.ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	request.Abort = one.abort
	r.list.Store(one, nil)
	return func() { r.list.Delete(one) }
}

// aborted reports whether Abort ended a request; a pause with mode=abort does not count.
func aborted(r *generation.Request) bool {
	select {
	case <-r.Abort:
		return true
	default:
		return false
	}
}
