package tracing

import (
	"encoding/json"
	"strings"

	"agentd/internal/clip"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxContent bounds the bytes of all texts in one attribute, since thousands of spans may wait
// for the collector, and collectors refuse bodies of more than some megabytes.
const maxContent = 16 << 10

// Message is one text of a prompt or an answer.
type Message struct {
	Role   string // system, user or assistant
	Text   string
	Finish string // why an answer ended; "" for prompts
}

// SetMessages sets an attribute to messages, in the form of the GenAI conventions. Texts beyond
// a bound are cut, and end with …
func SetMessages(span trace.Span, key attribute.Key, messages ...Message) {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role   string `json:"role"`
		Parts  []part `json:"parts"`
		Finish string `json:"finish_reason,omitempty"`
	}
	left := maxContent
	list := make([]message, len(messages))
	for i, m := range messages {
		text := clip.Text(m.Text, left)
		left = max(0, left-len(text))
		list[i] = message{m.Role, []part{{"text", text}}, m.Finish}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return // strings can't fail to be encoded
	}
	span.SetAttributes(key.String(strings.TrimSuffix(b.String(), "\n")))
}
