package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"agentd/coaching/egress"
)

// remote is a backend at an endpoint.
type remote struct {
	*wire
	modes    modeFallback
	try      func(ctx context.Context, q Question, mode string) (Answer, error) // one call; errors as Ask's
	name     string
	typ      string
	model    string
	newLimit atomic.Bool // the endpoint needs newLimitParam
}

func (r *remote) Name() string { return r.name }
func (r *remote) Type() string { return r.typ }
func (r *remote) Budget() int  { return 0 }

func (r *remote) Describe() string {
	return r.show(fmt.Sprintf("%s (%s, %s at %s)", r.name, r.typ, r.model, egress.SafeURL(r.endpoint.String())), maxDetail)
}

func (r *remote) Ask(ctx context.Context, q Question) (Answer, error) {
	most := maxTokens(q)
	a, err := r.modes.ask(ctx, func(mode string) (Answer, error) {
		a, err := r.try(ctx, q, mode)
		if q.MaxTokens != most/4 && refusesLength(err) { // once for all modes
			q.MaxTokens = most / 4
			a, err = r.try(ctx, q, mode)
		}
		a.Appended = schemaText(q, mode)
		return a, err
	})
	if err != nil {
		return Answer{}, err
	}
	a.Model = cmp.Or(r.show(a.Model, maxShownName), r.model)
	return a, nil
}

// modeFallback has the output modes of a backend, the strictest first. Whether an endpoint supports a mode shows only
// when it is asked. After a refusal the next mode is tried, and later questions begin with the mode that worked.
type modeFallback struct {
	modes []string
	first atomic.Int32 // index into modes; only rises
}

// ask tries the modes from first on. Together they are one try, since endpoints refuse a mode immediately.
func (f *modeFallback) ask(ctx context.Context, try func(mode string) (Answer, error)) (Answer, error) {
	for i := int(f.first.Load()); ; i++ {
		a, err := try(f.modes[i])
		switch {
		case err == nil:
			f.keep(i, a)
			return a, nil
		case ctx.Err() != nil || i == len(f.modes)-1 || !refusesMode(err):
			// The error of the plainest request is the most useful.
			return Answer{}, err
		}
	}
}

// keep records that mode i led to answer a, so that later questions begin with a mode that works.
func (f *modeFallback) keep(i int, a Answer) {
	if a.Mode != f.modes[i] && i < len(f.modes)-1 {
		i++ // accepted, but ignored
	}
	for {
		first := f.first.Load()
		if int32(i) <= first || f.first.CompareAndSwap(first, int32(i)) {
			return
		}
	}
}

// refusesMode reports whether an error may be about the output mode. Endpoints use different statuses for that, so
// every refusal counts. If it is about something else, one more request costs little.
func refusesMode(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented}, e.Status)
}

// refusesLength reports whether an error may be about the answer's tokens, for which the context has no room.
func refusesLength(err error) bool {
	e, ok := errors.AsType[*Error](err)
	about := func(what string) bool { return strings.Contains(e.Detail, what) }
	return ok && e.Status == http.StatusBadRequest && (about(limitParam) || about("context"))
}

// Finish reasons of unusable answers, and the detail of the first one.
const (
	finishLength = "length"
	atLimit      = "it reached the limit of tokens"
	finishFilter = "content_filter"
)

// toolDescription describes the tool of ModeTool to the model.
const toolDescription = "Give your answer by calling this."

// messages returns a question's messages, with the system text as the first one.
func messages(q Question, mode string) (list []object) {
	if text := system(q, mode); text != "" {
		list = append(list, object{"role": "system", "content": text})
	}
	for _, m := range q.Messages {
		list = append(list, object{"role": m.Role, "content": m.Text})
	}
	return list
}
