package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clip"
)

// Unmarshal decodes a body into any Go value as strictly as the decoders here. The error is Problems.
func Unmarshal(body []byte, into any, opts ...json.Options) error {
	if _, err := decode[Raw](body, MaxDepth); err != nil {
		return err
	}
	err := json.Unmarshal(body, into, opts...)
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &semantic):
		return Problems{NewProblem(TypeJSONInvalid, err.Error())}
	}
	var loc []any
	for name := range semantic.JSONPointer.Tokens() {
		if i, err := strconv.Atoi(name); err == nil {
			loc = append(loc, i)
		} else {
			loc = append(loc, name)
		}
	}
	want := wanted(semantic.GoType)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return Problems{NewProblem(TypeExtraForbidden, "unknown field; remove it", loc...)}
	case want == "":
		return Problems{NewProblem(TypeValue, fmt.Sprint(semantic.Err), loc...)}
	}
	got := cmp.Or(string(semantic.JSONValue), KindName(semantic.JSONKind))
	if want == integer && semantic.JSONKind == '0' && !strings.ContainsAny(got, ".eE") {
		want += " of fewer digits"
	}
	return Problems{NewProblem(TypeValue, fmt.Sprintf("must be %s, not %s", want, clip.Text(got, maxQuoted)), loc...)}
}

const integer = "an integer"

// wanted names the kind of JSON value that a type is decoded from, "" for a type that decodes itself.
func wanted(t reflect.Type) string {
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[interface {
		UnmarshalJSONFrom(*jsontext.Decoder) error
	}]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return KindName('t')
	case reflect.Int, reflect.Int32, reflect.Int64:
		return integer
	case reflect.Float32, reflect.Float64:
		return KindName('0')
	case reflect.String:
		return KindName('"')
	case reflect.Slice:
		return KindName('[')
	}
	return KindName('{')
}
