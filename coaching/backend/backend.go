// Package backend asks the models that coach: chat completions endpoints, Ollama, Anthropic's messages, and
// this server's own model. A Backend makes one try at one model. Retry repeats tries that may succeed later.
//
// Clients of the server choose endpoints and headers, so this package treats both as hostile. Requests leave through
// egress only. Nothing of the server's environment is sent, and no error holds a header's value.
package backend

import (
	"context"

	"agentd/coaching/egress"
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
	Exact      protocol.Raw // the exact schema, for models that a grammar constrains (local)
	MaxTokens  int          // of the answer; 0 for DefaultMaxTokens
	Adapter    string       // the adapter of local that answers; "": none. Other models do not have it
}

// Output modes: how a model was asked for JSON.
const (
	ModeSchema = "schema" // the endpoint enforces the schema
	ModeTool   = "tool"   // the answer is the arguments of a tool that the model had to call
	ModeText   = "text"   // the schema is in the system text, and the reply contains JSON
)

// Answer is a model's answer.
type Answer struct {
	Text             string // may be empty; callers decide whether it is a correction
	Model            string // as the endpoint names it, else as configured
	PromptTokens     int    // 0 if the endpoint does not report it
	CompletionTokens int    // 0 if the endpoint does not report it
	Mode             string // ModeSchema, ModeTool or ModeText
}

// Backend is a model that can be asked.
type Backend interface {
	// Name is its name in the session's configuration.
	Name() string
	// Type is one of protocol's Backend types.
	Type() string
	// Describe is for logs: `name (type, model at scheme://host/path)`.
	Describe() string
	// Ask makes one try. The error is a *Error, or ctx's if that ended.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Budget is the limit of the prompt in characters, 0 if the backend has none.
	Budget() int
}

// Local is this server's own model. Question.Exact is the schema that it enforces. Its errors should be *Error, with
// KindBusy for a full queue. Others count as KindFailed.
type Local interface {
	Ask(ctx context.Context, q Question) (Answer, error)
	// Window bounds the tokens of prompt and answer together.
	Window() int
}

// Options are shared by the backends of a session.
type Options struct {
	Client   *egress.Client   // sends every request of the remote types
	Local    Local            // nil: a backend of type local is an error that says so
	Redactor *egress.Redactor // takes the session's header values out of texts
}
