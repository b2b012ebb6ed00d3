package openai

// Types for packages decide and rollout.
type (
	// Strict refuses unknown members of the struct that embeds it, unless they are null.
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

// Refuse returns an *Error about the field param.
func Refuse(param, format string, args ...any) error { return refuse(param, format, args...) }
