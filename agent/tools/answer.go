package tools

import (
	"fmt"

	"agentd/agent/internal/schema"
	"agentd/protocol"
)

// NormaliseAnswer makes a set without tools, for answers that are JSON values of a schema. Type
// names count in it as in tools. The error says why it can't be used.
func NormaliseAnswer(source protocol.Raw) (*Set, error) {
	if n := subschemas(source); n > MaxSubschemas || len(source) > MaxToolBytes {
		return nil, fmt.Errorf("the schema has %d bytes and %d schemas in it, but at most %d and %d are possible", len(source), n, MaxToolBytes, MaxSubschemas)
	}
	document, err := schema.Parse(appendSchema(nil, source))
	if err == nil {
		document.Root = "response_format"
		err = document.Usable()
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a usable JSON Schema: %w", err)
	}
	return &Set{Answer: document}, nil
}

// CheckAnswer is the first reason why a JSON text is not an Answer, or nil.
func (s *Set) CheckAnswer(text string) error {
	_, err := s.Answer.Validate(protocol.Raw(text))
	return reason(err, "member")
}
