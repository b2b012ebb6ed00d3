package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"agentd/protocol"
)

// ladder is the ways in which a backend can be asked for JSON, the strictest first. What an endpoint supports shows
// only when it is asked, so a refusal leads to the next way, and the way that worked is where later questions begin.
type ladder struct {
	modes []string
	first atomic.Int32 // index into modes; only rises
}

// ask tries the modes from the first that may work. All of it is one try: a refusal of a mode comes at once.
func (l *ladder) ask(ctx context.Context, try func(mode string) (Answer, error)) (Answer, error) {
	for i := int(l.first.Load()); ; i++ {
		a, err := try(l.modes[i])
		switch {
		case err == nil:
			l.keep(i, a)
			return a, nil
		case ctx.Err() != nil || i == len(l.modes)-1 || !refusesMode(err):
			// The refusal of the plainest request says best what is wrong.
			return Answer{}, err
		}
	}
}

// keep remembers that mode i got the answer a.
func (l *ladder) keep(i int, a Answer) {
	if a.Mode != l.modes[i] && i < len(l.modes)-1 {
		i++ // accepted, but not obeyed
	}
	for {
		first := l.first.Load()
		if int32(i) <= first || l.first.CompareAndSwap(first, int32(i)) {
			return
		}
	}
}

// refusesMode reports whether an error may be about the way JSON was asked for. Endpoints agree on no code for
// that, so each status counts that one of them uses; asking again more plainly costs little where it is about something else.
func refusesMode(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	default:
		return false
	}
}

// schemaMode is the mode of an answer to a question that was asked with ModeSchema. An endpoint that holds answers to a
// schema answers JSON, so another answer shows that it does not look at the schema.
func schemaMode(text string) string {
	if json.Valid([]byte(text)) {
		return ModeSchema
	}
	return ModeText
}

// system is the system text of a question. With ModeText nothing else says what the answer has to look like.
func system(q Question, mode string) string {
	if mode != ModeText {
		return q.System
	}
	return strings.TrimSpace(q.System + "\n\nAnswer with one JSON object in a ```json fence. It must fit this JSON Schema:\n\n```json\n" +
		string(q.Schema) + "\n```")
}

// schemaMembers returns the members of a schema as the SDKs take them. The values stay as they were written: models
// fill in the properties in the order in which the schema lists them.
func schemaMembers(schema protocol.Raw) (map[string]any, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(schema, &raw); err != nil {
		return nil, err
	}
	members := make(map[string]any, len(raw))
	for name, value := range raw {
		members[name] = value
	}
	return members, nil
}

// maxTokens is the limit on the answer of a question.
func maxTokens(q Question) int {
	if q.MaxTokens > 0 {
		return q.MaxTokens
	}
	return DefaultMaxTokens
}
