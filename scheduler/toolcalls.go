package scheduler

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/clip"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// callReader finds tool calls in a text as it is generated.
type callReader struct {
	form   generation.CallForm
	text   []byte
	inside bool // after Begin
	calls  []string
	call   []byte // the current call; JSON without white space

	// JSON state.
	depth           int
	quoted, escaped bool
}

// clone returns a copy that reads on by itself.
func (r *callReader) clone() *callReader {
	c := *r
	c.text, c.calls, c.call = slices.Clone(r.text), slices.Clone(r.calls), slices.Clone(r.call)
	return &c
}

// push reads text and returns the call that is a repetition, "" if there is none.
func (r *callReader) push(text []byte) string {
	for _, c := range text {
		if repeated := r.next(c); repeated != "" {
			return repeated
		}
	}
	return ""
}

func (r *callReader) next(c byte) string {
	r.text = append(r.text, c)
	endsWith := func(mark string) bool {
		return mark != "" && c == mark[len(mark)-1] && bytes.HasSuffix(r.text, []byte(mark))
	}
	switch {
	case endsWith(r.form.Again):
		*r = callReader{form: r.form, text: r.text}
	case !r.inside:
		if r.inside = endsWith(r.form.Begin); r.inside {
			r.call = r.call[:0]
			if at := strings.IndexByte(r.form.Begin, '{'); at >= 0 && r.form.End == "" {
				for _, c := range []byte(r.form.Begin[at:]) {
					r.json(c)
				}
			}
		}
	case r.form.End == "":
		return r.json(c)
	default:
		r.call = append(r.call, c)
		if endsWith(r.form.End) {
			r.inside = false
			return r.record(bytes.TrimSpace(r.call))
		}
	}
	return ""
}

// json reads a byte after Begin: JSON and what stands between calls.
func (r *callReader) json(c byte) string {
	if r.depth >= r.form.Depth && (r.quoted || c > ' ') {
		r.call = append(r.call, c)
	}
	switch {
	case r.escaped:
		r.escaped = false
	case r.quoted:
		r.escaped, r.quoted = c == '\\', c != '"'
	case c == '"':
		r.quoted = r.depth > 0
	case c == '{':
		if r.depth++; r.depth == r.form.Depth {
			r.call = append(r.call[:0], c)
		}
	case c == '}' && r.depth > 0:
		if r.depth--; r.depth == r.form.Depth-1 {
			return r.record(r.call)
		}
	}
	return ""
}

// record adds a call, and returns it if it is a repetition.
func (r *callReader) record(call []byte) string {
	text := string(call)
	if slices.Contains(r.calls, text) {
		return text
	}
	r.calls = append(r.calls, text)
	return ""
}

func describeCall(call string) string { return fmt.Sprintf("the call %s came twice", quoted(call)) }

// describeRepeat describes an n-gram that a candidate generated four times in a row.
func (w *worker) describeRepeat(tokens []core.Token) string {
	return fmt.Sprintf("%q came four times in a row", quoted(w.engine.vocab.Detokenize(tokens, true)))
}

// quoted shortens generated text for a message.
func quoted(text string) string { return clip.Text(strings.ToValidUTF8(text, "\uFFFD"), maxQuoted) }
