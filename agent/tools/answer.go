package tools

import (
	"fmt"

	"agentd/agent/internal/schema"
	"agentd/protocol"
)

// Answer is the schema of a JSON value that is an answer as a whole. It never changes.
type Answer struct {
	document *schema.Document
}

// NewAnswer reads a schema, in which type names count as in those of tools. The error says why it can't be used.
func NewAnswer(source protocol.Raw) (*Answer, error) {
	if n := subschemas(source); n > MaxSubschemas || len(source) > MaxToolBytes {
		return nil, fmt.Errorf("the schema has %d bytes and %d schemas in it, but at most %d and %d are possible", len(source), n, MaxToolBytes, MaxSubschemas)
	}
	document, err := schema.Parse(appendSchema(nil, source))
	if err == nil {
		document.Root = "response_format"
		err = document.Usable()
	}
	if err != nil {
		return nil, fmt.Errorf("it is no usable JSON Schema: %w", err)
	}
	return &Answer{document}, nil
}

// Document is the schema as a document.
func (a *Answer) Document() *schema.Document { return a.document }

// Check is the first reason why a JSON text breaks the schema, or nil.
func (a *Answer) Check(text string) error {
	_, err := a.document.Validate(protocol.Raw(text))
	return reason(err, "member")
}
