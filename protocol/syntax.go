package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"agentd/internal/clip"

	"github.com/go-json-experiment/json/jsontext"
)

// syntaxProblem returns why a body is not one JSON value. It reads the body again for the true offset.
func syntaxProblem(body []byte) Problem {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	err := d.SkipValue()
	if err == nil {
		at := int(d.InputOffset())
		for at < len(body) && isSpace(body[at]) {
			at++
		}
		return NewProblem(TypeJSONInvalid, fmt.Sprintf(
			"data follows the JSON value at byte %d; send exactly one value", at), at)
	}
	if errors.Is(err, io.EOF) {
		return NewProblem(TypeMissing, "the body is empty; send a JSON value")
	}
	at, where, reason := int(d.InputOffset()), "", err
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		at, reason = int(syntactic.ByteOffset), syntactic.Err
		if p := string(syntactic.JSONPointer); p != "" {
			where = " in " + clip.Text(p, maxLocName)
		}
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return NewProblem(TypeJSONInvalid, fmt.Sprintf(
			"duplicate name at byte %d%s; a name may occur once in an object", at, where), at)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return NewProblem(TypeJSONInvalid, fmt.Sprintf(
			"the body ends within a value at byte %d%s; send it whole", at, where), at)
	}
	return NewProblem(TypeJSONInvalid, fmt.Sprintf(
		"not valid JSON at byte %d%s: %s", at, where, clip.Text(reason.Error(), 2*maxQuoted)), at)
}
