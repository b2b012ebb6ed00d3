package openai

import "agentd/scheduler/generation"

// Types for packages decide and rollout.
type (
	// Strict, embedded in a struct, refuses unknown members, unless they are null.
	Strict = strict
	// Message is a message of a chat.
	Message = chatMessage
	// ToolCall is a call of a function in a message.
	ToolCall = toolCall
	// Called is the function of a ToolCall.
	Called = called
	// Turns collect the messages of a chat: Add, Model, Result and List.
	Turns = turns
)

// Decode decodes a body as strictly as this package. The error is an *Error.
func Decode(body []byte, into any) error { return decode(body, into) }

// Refuse returns an *Error about the field param.
func Refuse(param, format string, args ...any) error { return refuse(param, format, args...) }

// Marshal encodes a body.
func Marshal(v any) ([]byte, error) { return marshal(v) }

// Choose returns the adapter that a request names as its model, and sets its name in s.
func Choose(m Model, s *generation.Served, name string) (generation.AdapterID, error) {
	return choose(m, s, name)
}
