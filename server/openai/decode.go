package openai

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// strict refuses members of an object that are not known, unless they are null.
type strict struct {
	Others map[string]absent `json:",embed"`
}

// absent is the value of a member that is not known.
type absent struct{}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (*absent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != 'n' {
		return errors.New("is not supported; remove it")
	}
	return d.SkipValue()
}

// decode reads a body as strictly as package protocol does. A member that is null counts as
// absent.
func decode(body []byte, into any) error {
	var problems protocol.Problems
	if errors.As(protocol.Unmarshal(body, into), &problems) {
		param, ok := strings.CutPrefix(problems[0].Path(), "body.")
		if !ok { // the place is a byte
			param = "body"
		}
		return refuse(param, "%s", problems[0].Msg)
	}
	return nil
}

// read reads a part of a body.
func read(d *jsontext.Decoder, into any) error { return json.UnmarshalDecode(d, into) }

func marshal(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }
