package openai

// What packages decide and rollout share.
type (
	// Strict refuses members of an object that are not known, unless they are null.
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

// Refuse is the error of a field.
func Refuse(param, format string, args ...any) error { return refuse(param, format, args...) }
