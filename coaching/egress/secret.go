package egress

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// hidden stands for a secret in output.
const hidden = "***"

// Secret is a text that prints as ***, whatever prints it. It holds a pointer,
// because fmt does not ask the methods of unexported fields.
type Secret struct{ value *string }

// NewSecret hides a text.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the text, to send it where it belongs.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Format prints *** for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String is ***.
func (s Secret) String() string { return hidden }

// GoString is ***.
func (s Secret) GoString() string { return hidden }

// MarshalText gives ***, also for JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue is ***.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// Headers are the headers that a client wants sent.
type Headers map[string]Secret

// NewHeaders hides the values of headers.
func NewHeaders(plain map[string]string) Headers {
	h := make(Headers, len(plain))
	for name, value := range plain {
		h[name] = NewSecret(value)
	}
	return h
}

// Apply sets the headers, in place of those with the same name.
func (h Headers) Apply(to http.Header) {
	for name, value := range h {
		to.Set(name, strings.TrimSpace(value.Reveal()))
	}
}
