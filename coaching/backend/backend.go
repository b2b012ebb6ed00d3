// Package backend asks the models that coach: chat completions endpoints, Ollama, Anthropic's messages, and
// this server's own model. A Backend is one try at one model; Retry repeats tries that may yet succeed.
//
// The client of the server names the endpoints and the headers, so everything here treats both as hostile: requests
// go out through egress only, nothing of the server's environment is sent along, and no error carries a
// header's value.
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

// Question is what a model is asked. The answer is JSON that fits its schema.
type Question struct {
	System     string
	Messages   []Message
	SchemaName string       // letters, digits, _ and -; endpoints show it to the model
	Schema     protocol.Raw // the portable strict subset: every property required, additionalProperties false
	Exact      protocol.Raw // the exact schema, for models that a grammar constrains (local)
	MaxTokens  int          // of the answer; 0 for DefaultMaxTokens
}

// How a model was asked for JSON; see Answer.Mode.
const (
	ModeSchema = "schema" // the endpoint holds the answer to the schema
	ModeTool   = "tool"   // the answer is the arguments of a tool that the model had to call
	ModeText   = "text"   // the schema is in the system text, the answer is a reply that holds JSON
)

// Answer is what a model answered.
type Answer struct {
	Text             string // empty when the model said nothing; whether it is a correction is for others to judge
	Model            string // as the endpoint calls it, else as it was asked for
	PromptTokens     int    // 0 when the endpoint does not say
	CompletionTokens int    // 0 when the endpoint does not say
	Mode             string // ModeSchema, ModeTool or ModeText
}

// Backend is a model that can be asked.
type Backend interface {
	// Name is its name in the session's configuration.
	Name() string
	// Type is one of protocol's Backend types.
	Type() string
	// Describe says for logs what is asked: `name (type, model at scheme://host/path)`.
	Describe() string
	// Ask is one try. The error is a *Error, unless ctx ended: then it is ctx's.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Budget is how many characters the prompt may have; 0 when the backend has no limit of its own.
	Budget() int
}

// Local is this server's own model. Its errors should be *Error, with KindBusy for a full queue; others count as
// KindFailed. Question.Exact is the schema to hold the answer to.
type Local interface {
	Ask(ctx context.Context, q Question) (Answer, error)
	// Window is how many tokens prompt and answer may have together.
	Window() int
}

// Options are what backends of a session share.
type Options struct {
	Client   *egress.Client   // sends every request of the remote types
	Local    Local            // nil: a backend of type local is an error that says so
	Redactor *egress.Redactor // takes the session's header values out of texts
}
