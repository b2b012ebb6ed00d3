package protocol

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clip"
)

// Types of problems, with the names of FastAPI.
const (
	TypeJSONInvalid     = "json_invalid"            // not JSON, a duplicate name, too deep, trailing data
	TypeMissing         = "missing"                 // an absent required field
	TypeExtraForbidden  = "extra_forbidden"         // an unknown field
	TypeInt             = "int_type"                // not an integer literal
	TypeIntSize         = "int_parsing_size"        // an integer outside int64
	TypeFloat           = "float_type"              // not a number
	TypeFinite          = "finite_number"           // a number outside float64
	TypeString          = "string_type"             // not a string
	TypeBool            = "bool_type"               // not a boolean
	TypeList            = "list_type"               // not an array
	TypeDict            = "dict_type"               // not an object
	TypeLiteral         = "literal_error"           // a string that is not one of the allowed ones
	TypeStringTooShort  = "string_too_short"        // an empty string
	TypeStringPattern   = "string_pattern_mismatch" // a string that does not have the required form
	TypeGreaterThan     = "greater_than"            // a number at or below its exclusive bound
	TypeGreaterEqual    = "greater_than_equal"      // a number below its bound
	TypeLessEqual       = "less_than_equal"         // a number above its bound
	TypeTooShort        = "too_short"               // a list with too few elements
	TypeTooLong         = "too_long"                // a list with too many elements
	TypeValue           = "value_error"             // a value that contradicts another field, or exceeds a limit
	TypeTooManyProblems = "too_many_problems"       // MaxProblems reached; decoding stopped
)

// Problem is one reason why a body is invalid.
type Problem struct {
	Type string `json:"type"` // the kind of problem, one of the Type constants
	// Loc is the path to the value: "body", then names (string) and indexes (int), or a byte offset (int).
	Loc []any  `json:"loc"`
	Msg string `json:"msg"` // describes the problem and the fix
}

// NewProblem makes a problem below "body". It clips long names, which clients choose.
func NewProblem(typ, msg string, loc ...any) Problem {
	p := Problem{Type: typ, Loc: append([]any{"body"}, loc...), Msg: msg}
	for i, step := range p.Loc {
		if name, ok := step.(string); ok {
			p.Loc[i] = clip.Text(name, maxLocName)
		}
	}
	return p
}

// String returns the dotted location and the message.
func (p Problem) String() string { return p.Path() + ": " + p.Msg }

// Path returns the location with dots and brackets: body.inputs[0].id.
func (p Problem) Path() string {
	var b strings.Builder
	for i, step := range p.Loc {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// Problems is the error of all decoders and validators. As an error it is never empty.
type Problems []Problem

// Error returns the first problem and the number of others.
func (ps Problems) Error() string {
	switch len(ps) {
	case 0:
		return "no problems"
	case 1:
		return ps[0].String()
	default:
		return fmt.Sprintf("%s (and %d more)", ps[0], len(ps)-1)
	}
}

// All returns all problems, one per line.
func (ps Problems) All() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// AppendBody appends the body of a 422 response, {"detail":[...]}.
func (ps Problems) AppendBody(dst []byte) []byte {
	body, err := json.Marshal(map[string]Problems{"detail": ps}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // texts and numbers
	}
	return append(dst, body...)
}

// At returns problems of a part of a body with their location in the whole body: loc is inserted after "body".
func (ps Problems) At(loc ...any) Problems {
	moved := make(Problems, len(ps))
	for i, p := range ps {
		rest := p.Loc
		if len(rest) > 0 && rest[0] == "body" {
			rest = rest[1:]
		}
		moved[i] = NewProblem(p.Type, p.Msg, slices.Concat(loc, rest)...)
	}
	return moved
}

// Add appends a problem; in place of number MaxProblems it appends a notice that more exist. It reports whether
// more can be added.
func (ps *Problems) Add(p Problem) bool {
	if len(*ps) >= MaxProblems {
		return false
	}
	if len(*ps) == MaxProblems-1 {
		*ps = append(*ps, NewProblem(TypeTooManyProblems, fmt.Sprintf(
			"more problems follow; only the first %d are listed, correct them first", MaxProblems-1)))
		return false
	}
	*ps = append(*ps, p)
	return true
}

// AddAll appends problems as Add does.
func (ps *Problems) AddAll(more Problems) bool {
	for _, p := range more {
		if !ps.Add(p) {
			return false
		}
	}
	return len(*ps) < MaxProblems
}

func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// AppendErrorBody appends the body of an error other than 422, {"detail":"sentence"}.
func AppendErrorBody(dst []byte, detail string) []byte {
	dst = append(dst, `{"detail":`...)
	dst = appendString(dst, detail)
	return append(dst, '}')
}

// quote clips a client's text and returns it as a JSON string, for messages.
func quote(s string) string {
	return string(appendString(nil, clip.Text(s, maxQuoted)))
}

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
