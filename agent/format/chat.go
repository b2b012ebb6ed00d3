package format

import (
	"agentd/agent/tools"
	"agentd/protocol"
)

// Chat is a plain conversation: a question to the model apart from the agent's
// own, such as one to the model as a coach.
type Chat struct {
	System string
	// Messages begin and end with one that the model is given.
	Messages []ChatMessage
}

// ChatMessage is one message of a Chat.
type ChatMessage struct {
	Model bool // the model wrote it
	Text  string
}

// messages are those of a prompt.
func (c *Chat) messages() []message {
	list := make([]message, 0, len(c.Messages)+1)
	list = append(list, message{role: roleSystem, content: c.System})
	for _, m := range c.Messages {
		role := roleUser
		if m.Model {
			role = roleAssistant
		}
		list = append(list, message{role: role, content: m.Text})
	}
	return list
}

// noTools is the catalog of a chat.
var noTools = &Catalog{Set: &tools.Set{}, json: protocol.Raw("[]")}
