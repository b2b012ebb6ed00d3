package format

import (
	"agentd/agent/tools"
	"agentd/protocol"
)

// Chat is a conversation that is not an input of the agent: a chat of a client of OpenAI's API, or a
// question to the model as a coach.
type Chat struct {
	System string
	// Messages begin and end with one that the model is given.
	Messages []ChatMessage
	// Functions that the model may call.
	Functions tools.Functions
	// Schema of the JSON value that is the answer, where there are no functions; nil: any text.
	Schema protocol.Raw
	// Catalog is made of the functions or the schema; nil: there are none.
	Catalog *Catalog
}

// Reader reads the answers in a Chat.
type Reader interface {
	// Read reads an answer that ended by itself: it has calls or a text. The error says what is
	// wrong with it.
	Read(text string) (say string, calls []tools.Call, err error)
	// SoFar returns the text of an answer that has not ended, "" where it may be a call.
	SoFar(text string) string
}

// ChatMessage is one message of a Chat.
type ChatMessage struct {
	Model bool // the model wrote it
	Text  string
	// Calls of the model. The messages after it are their results, in the same order.
	Calls []tools.Call
	Of    string // name of the function whose result Text is; "": none
}

// UnusableError is the reason why functions or a schema of a chat can't be used.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }
func (e *UnusableError) Unwrap() error { return e.Err }

// messages are the messages of the prompt.
func (c *Chat) messages() []message {
	list := make([]message, 0, len(c.Messages)+1)
	list = append(list, message{role: roleSystem, content: c.System})
	for _, m := range c.Messages {
		made := message{role: roleUser, content: m.Text}
		switch {
		case m.Model:
			made.role = roleAssistant
		case m.Of != "":
			made.role = roleTool
		}
		for _, call := range m.Calls {
			made.calls = append(made.calls, pastCall{Call: call})
		}
		list = append(list, made)
	}
	return list
}

// noTools is the catalog of a chat without functions.
var noTools = &Catalog{Set: &tools.Set{}, json: protocol.Raw("[]")}

func (c *Chat) catalog() *Catalog {
	if c.Catalog == nil {
		return noTools
	}
	return c.Catalog
}
