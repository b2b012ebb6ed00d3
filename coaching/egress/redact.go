package egress

import (
	"strings"

	"agentd/protocol"
)

// Redactor takes the keys of a session out of texts.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor makes a redactor of header values.
func NewRedactor(headers ...protocol.Headers) *Redactor {
	var pairs []string
	for _, h := range headers {
		for _, value := range h {
			if len(value) >= minSecret {
				pairs = append(pairs, value, hidden)
			}
		}
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// Text is s with every header value as ***. A text must be redacted before it
// is cut, since half a key is not recognised.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return r.replacer.Replace(s)
}
