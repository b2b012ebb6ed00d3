package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clip"
)

// syntaxProblem returns why a body is not one JSON value. It parses the original body again for the byte offset,
// which the compacted text does not have.
func syntaxProblem(body []byte) Problem {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	err := d.SkipValue()
	at, where, reason := int(d.InputOffset()), "", err
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		at, reason = int(syntactic.ByteOffset), syntactic.Err
		if p := string(syntactic.JSONPointer); p != "" {
			where = " in " + clip.Text(p, maxLocName)
		}
	}
	var msg string
	switch {
	case err == nil:
		at = space(body, at)
		msg = fmt.Sprintf("data follows the JSON value at byte %d; send exactly one value", at)
	case errors.Is(err, jsontext.ErrDuplicateName):
		msg = fmt.Sprintf("duplicate name at byte %d%s; a name may occur once in an object", at, where)
	case errors.Is(err, io.ErrUnexpectedEOF):
		msg = fmt.Sprintf("the body ends within a value at byte %d%s; send it whole", at, where)
	case errors.Is(err, io.EOF):
		return NewProblem(TypeMissing, "the body is empty; send a JSON value")
	default:
		msg = fmt.Sprintf("not valid JSON at byte %d%s: %s", at, where, clip.Text(reason.Error(), 2*maxQuoted))
	}
	return NewProblem(TypeJSONInvalid, msg, at)
}
