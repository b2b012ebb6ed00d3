package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// modeFallback holds the output modes of a backend, the strictest first. What an endpoint supports shows only when it
// is asked. A refusal leads to the next mode, and later questions begin with the mode that worked.
type modeFallback struct {
	modes []string
	first atomic.Int32 // index into modes; only rises
}

// ask tries the modes from the first that may work. All of them are one try, since a refusal comes at once.
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

// keep remembers that mode i led to answer a.
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

// refusesMode reports whether an error may be about the output mode. Endpoints use different statuses for that, so all
// of them count. If the error is about something else, one more request costs little.
func refusesMode(err error) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented}, e.Status)
}

// schemaMode is the mode of an answer. One that was asked for with ModeSchema and is not JSON shows that the endpoint
// ignores the schema.
func schemaMode(mode, text string) string {
	if mode == ModeSchema && json.Valid([]byte(text)) {
		return ModeSchema
	}
	return ModeText
}

// system is the system text of a question. With ModeText it holds the schema.
func system(q Question, mode string) string {
	if mode != ModeText {
		return q.System
	}
	return strings.TrimSpace(q.System + "\n\nAnswer with one JSON object in a ```json fence. It must fit this JSON Schema:\n\n```json\n" +
		string(q.Schema) + "\n```")
}

// maxTokens is the limit on the answer of a question.
func maxTokens(q Question) int {
	return cmp.Or(max(q.MaxTokens, 0), DefaultMaxTokens)
}
