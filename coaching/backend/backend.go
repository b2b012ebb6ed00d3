// Package backend asks the models that coach: chat completions endpoints, Ollama, Anthropic's messages, and
// this server's own model. A Backend makes one try at one model. Retry repeats tries that may succeed later.
//
// Clients of the server choose endpoints and headers, so this package treats both as hostile. Requests leave through
// egress only. Nothing of the server's environment is sent, and no error holds a header's value.
//
// Each file uses only files after it: retry.go, new.go, openai.go, anthropic.go, ollama.go, remote.go, wire.go,
// local.go, backend.go, limits.go.
package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// The roles of a Message.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Message is one turn of a conversation with a model.
type Message struct {
	Role string // RoleUser or RoleAssistant
	Text string
}

// Question is a question to a model. The answer is JSON that matches the schema.
type Question struct {
	System     string
	Messages   []Message
	SchemaName string       // letters, digits, _ and -; endpoints show it to the model
	Schema     protocol.Raw // the portable strict subset: every property required, additionalProperties false
	Exact      protocol.Raw // the exact schema, for models with a grammar (local)
	MaxTokens  int          // of the answer; 0 for DefaultMaxTokens
	Adapter    string       // for local: the LoRA adapter; "" for none. Others ignore it.
}

// Output modes: the way in which a model is asked for JSON.
const (
	ModeSchema = "schema" // the endpoint enforces the schema
	ModeTool   = "tool"   // the answer is the arguments of a tool that the model had to call
	ModeText   = "text"   // the schema is in the system text, and the reply contains JSON
)

// schemaMode returns the mode of an answer: ModeText instead of ModeSchema if it is not JSON, which shows that the
// endpoint ignores the schema.
func schemaMode(mode, text string) string {
	if mode == ModeSchema && json.Valid([]byte(text)) {
		return ModeSchema
	}
	return ModeText
}

// system returns the system text of a question.
func system(q Question, mode string) string { return strings.TrimSpace(q.System + schemaText(q, mode)) }

// schemaText returns the end of the system text: for ModeText the schema.
func schemaText(q Question, mode string) string {
	if mode != ModeText {
		return ""
	}
	return "\n\nPut the JSON object in a ```json fence. It must fit this JSON Schema:\n\n```json\n" + string(q.Schema) + "\n```"
}

// maxTokens returns the token limit of a question's answer.
func maxTokens(q Question) int {
	return cmp.Or(max(q.MaxTokens, 0), DefaultMaxTokens)
}

// Answer is a model's answer.
type Answer struct {
	Text             string // may be empty; callers decide whether it is a correction
	Model            string // the endpoint's name of the model, without one the configured name
	PromptTokens     int    // 0 if the endpoint does not report it
	CompletionTokens int    // 0 if the endpoint does not report it
	Mode             string // ModeSchema, ModeTool or ModeText
	Appended         string // what was sent after the question's system text
}

// Backend is a model that can be asked.
type Backend interface {
	// Name returns the name in the session's configuration.
	Name() string
	// Type returns one of protocol's Backend types.
	Type() string
	// Describe returns `name (type, model at scheme://host/path)`, for logs.
	Describe() string
	// Ask makes one try. The error is a *Error, or ctx's if that ended.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Budget returns the limit of the prompt in characters, 0 if the backend has none.
	Budget() int
}

// Local is this server's own model, which enforces Question.Exact. Errors should be *Error, with KindBusy for a full
// queue; others count as KindFailed.
type Local interface {
	Ask(ctx context.Context, q Question) (Answer, error)
	// Window returns the limit of tokens of prompt and answer together.
	Window() int
}

// Options are shared by the backends of a session.
type Options struct {
	Client   *egress.Client  // sends every request of the remote types
	Local    Local           // nil: a backend of type local is an error that says so
	Redactor *quote.Redactor // removes the session's header values from texts
}

// Kind is the kind of an Error.
type Kind string

// Kinds of errors.
const (
	KindUnreachable Kind = "unreachable" // no connection, or it broke
	KindForbidden   Kind = "forbidden"   // the policy forbids the endpoint, or it redirects
	KindTimeout     Kind = "timeout"     // no answer in time
	KindRefused     Kind = "refused"     // the request was rejected (4xx); a retry does not help
	KindBusy        Kind = "busy"        // 409, 425, 429, 503, 529; a retry may help
	KindFailed      Kind = "failed"      // the endpoint failed (5xx)
	KindTooLarge    Kind = "too_large"   // the answer is larger than the server reads
	KindGarbled     Kind = "garbled"     // the answer does not match the API
	KindTruncated   Kind = "truncated"   // the answer reached the token limit, or repeated itself
	KindDeclined    Kind = "declined"    // the model or a content filter refused to answer
	KindClosed      Kind = "closed"      // the session is closed, or the server's own model is
)

// kindTexts has a clause for each kind.
var kindTexts = map[Kind]string{
	KindUnreachable: "cannot reach the model",
	KindForbidden:   "the server may not connect there",
	KindTimeout:     "the model did not answer in time",
	KindRefused:     "the model's endpoint refuses the request",
	KindBusy:        "the model is busy",
	KindFailed:      "the model's endpoint failed",
	KindTooLarge:    "the answer is too large",
	KindGarbled:     "the answer is not what this kind of endpoint answers",
	KindTruncated:   "the answer was cut off",
	KindDeclined:    "the model declines to answer",
	KindClosed:      "the session, or the model, is closed",
}

// Error is a failed try. Its text may go to clients, since it holds no header's value.
type Error struct {
	Kind       Kind
	Status     int           // the HTTP status; 0 if there was none
	RetryAfter time.Duration // the wait that the endpoint asked for; 0 if it did not
	Detail     string        // for a person: redacted, one line, at most 500 characters
	Err        error         // the cause if it is egress's; others are dropped, since they repeat what was sent

	// lasting: the error is permanent although its kind is temporary, such as a wrong certificate.
	lasting bool
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(kindTexts[e.Kind])
	if e.Status != 0 {
		fmt.Fprintf(&b, " (%s)", strings.TrimSpace(strconv.Itoa(e.Status)+" "+http.StatusText(e.Status)))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (asks to wait %s)", e.RetryAfter.Round(time.Second))
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a retry may help.
func (e *Error) Temporary() bool {
	return !e.lasting && slices.Contains([]Kind{KindUnreachable, KindTimeout, KindBusy, KindFailed}, e.Kind)
}

// OutcomeLeft is the outcome of a try whose caller has left.
const OutcomeLeft = "left"

// Outcome returns the result of a try as one word: answered, the kind of its error, or OutcomeLeft.
func Outcome(err error) string {
	if err == nil {
		return "answered"
	}
	if failure, ok := errors.AsType[*Error](err); ok {
		return string(failure.Kind)
	}
	return OutcomeLeft
}

// statusKind returns the kind of an HTTP error status.
func statusKind(status int) Kind {
	switch {
	case status == http.StatusRequestTimeout:
		return KindTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status == http.StatusServiceUnavailable, status == statusOverloaded:
		return KindBusy
	case status >= 500:
		return KindFailed
	case status >= 400:
		return KindRefused
	default:
		return KindGarbled
	}
}

// statusOverloaded is Anthropic's status for an overloaded service.
const statusOverloaded = 529
