package scheduler

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/llama"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// callReader reads a text as it is written and notes its calls.
type callReader struct {
	form   generation.CallForm
	text   []byte
	inside bool // behind Begin
	calls  []string
	call   []byte // of the call that is being read; JSON without white space

	// Of JSON.
	depth           int
	quoted, escaped bool
}

// push reads on and returns the call that was made before, "" if none was.
func (r *callReader) push(text []byte) string {
	for _, c := range text {
		if again := r.next(c); again != "" {
			return again
		}
	}
	return ""
}

func (r *callReader) next(c byte) string {
	r.text = append(r.text, c)
	behind := func(mark string) bool {
		return mark != "" && c == mark[len(mark)-1] && bytes.HasSuffix(r.text, []byte(mark))
	}
	switch {
	case behind(r.form.Again):
		*r = callReader{form: r.form, text: r.text}
	case !r.inside:
		if r.inside = behind(r.form.Begin); r.inside {
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
		if behind(r.form.End) {
			r.inside = false
			return r.made(bytes.TrimSpace(r.call))
		}
	}
	return ""
}

// json reads a byte of the JSON behind Begin, and of what else stands there.
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
			return r.made(r.call)
		}
	}
	return ""
}

// made notes a call, and returns it if it was made before.
func (r *callReader) made(call []byte) string {
	made := string(call)
	if slices.Contains(r.calls, made) {
		return made
	}
	r.calls = append(r.calls, made)
	return ""
}

// says adds a token to what t has chosen; with it a candidate may say a call again,
// and then has ended.
func (w *worker) says(t *task, token llama.Token) (repeats bool) {
	t.tokens = append(t.tokens, token)
	cand := &t.job.cands[t.cand]
	if cand.calls == nil {
		return false
	}
	if call := cand.calls.push(w.model.Vocab().Piece(token, true)); call != "" {
		cand.repeated = fmt.Sprintf("the call %s came twice", clip(call))
	}
	return cand.repeated != ""
}

// cameAgain says what a candidate said four times in a row.
func (w *worker) cameAgain(tokens []core.Token) string {
	return fmt.Sprintf("%q came four times in a row", clip(w.model.Vocab().Detokenize(tokens, true)))
}

// clip shortens what a model said for a message.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxQuoted {
		return text
	}
	cut := maxQuoted
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
