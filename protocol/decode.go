package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clip"
)

// decoder reads one body and collects its problems. Its methods read the next value; a value of the wrong
// kind is a problem. After a syntax error, too many problems or a refusal they return zero values.
type decoder struct {
	json     *jsontext.Decoder
	buf      bytes.Buffer
	text     []byte // the body without whitespace between tokens
	path     []step // the location of the next value
	problems Problems
	elements int               // list elements and map entries so far
	hold     func(int64) error // see DecodeWithin; nil: no bound
	taken    int               // bytes of texts and structures so far
	asked    int               // the part of taken that hold has granted or refused
	refused  error             // the error of hold
	syntax   error             // the error with which jsontext stopped
	full     bool              // problems has its last entry, or hold refused
}

// step is one part of a location: a field's name, or an index.
type step struct {
	name  string
	index int // -1 for a name
}

var decoders = sync.Pool{New: func() any {
	return &decoder{json: jsontext.NewDecoder(new(bytes.Buffer))}
}}

// decode is DecodeWithin without a limit of memory.
func decode[T any](body []byte, maxDepth int) (*T, error) {
	value, _, err := DecodeWithin[T](body, maxDepth, nil)
	return value, err
}

// DecodeWithin decodes a whole body as one value: a model, or a list of models. It may be nested maxDepth deep, at most
// MaxResponseDepth. hold is called with a number of bytes before they are allocated; its error ends the decoding and is
// returned as it is. A nil hold sets no limit. held is the approximate memory of value and body, in bytes. Other errors
// are [Problems].
func DecodeWithin[T any](body []byte, maxDepth int, hold func(int64) error) (value *T, held int, err error) {
	if hold != nil {
		if err := hold(int64(len(body))); err != nil { // for compact
			return nil, 0, err
		}
	}
	text, err := compact(body, maxDepth)
	if err != nil {
		return nil, 0, err
	}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.text, d.hold = text, hold
	d.buf = *bytes.NewBuffer(text)
	d.json.Reset(&d.buf)

	value = new(T)
	d.value(value, &whole)
	if !d.stopped() {
		d.end()
	}
	switch {
	case d.refused != nil:
		return nil, 0, d.refused
	case d.syntax != nil:
		return nil, 0, Problems{syntaxProblem(body)}
	case len(d.problems) > 0:
		return nil, 0, d.problems
	}
	return value, cap(text) + d.taken, nil
}

// take counts bytes before their allocation. If hold refuses them, the decoding stops and the result is false.
func (d *decoder) take(bytes int) bool {
	d.taken += bytes
	if d.hold != nil && d.taken > d.asked && !d.full {
		more := max(d.taken-d.asked, takeStep)
		d.asked += more
		d.refused = d.hold(int64(more))
		d.full = d.refused != nil
	}
	return !d.full
}

func (d *decoder) release() {
	d.buf = bytes.Buffer{}
	d.json.Reset(&d.buf)
	*d = decoder{json: d.json, path: d.path[:0]}
	decoders.Put(d)
}

func (d *decoder) stopped() bool { return d.syntax != nil || d.full }

func (d *decoder) end() {
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		d.syntax = errors.New("trailing data")
	}
}

// problem adds a problem at or below the current location.
func (d *decoder) problem(typ, msg string, below ...any) {
	if d.full {
		return
	}
	loc := make([]any, 0, 1+len(d.path)+len(below))
	loc = append(loc, "body")
	for _, s := range d.path {
		if s.index < 0 {
			loc = append(loc, clip.Text(s.name, maxLocName))
		} else {
			loc = append(loc, s.index)
		}
	}
	d.full = !d.problems.Add(Problem{Type: typ, Loc: append(loc, below...), Msg: msg})
}

func (d *decoder) problemf(typ, format string, args ...any) {
	d.problem(typ, fmt.Sprintf(format, args...))
}

func (d *decoder) kind() jsontext.Kind { return d.json.PeekKind() }

// next returns the JSON of the next value, which refers to the body.
func (d *decoder) next() Raw {
	v, err := d.json.ReadValue()
	if err != nil {
		d.syntax = err
		return nil
	}
	end := int(d.json.InputOffset())
	return d.text[end-len(v) : end : end]
}

func (d *decoder) skip() { d.next() }

// open reads the bracket that opens a list or an object. A value of another kind is a problem.
func (d *decoder) open(bracket jsontext.Kind) bool {
	switch kind := d.kind(); {
	case kind == bracket:
		d.token()
		return true
	case bracket == '[':
		d.mismatch(TypeList, "an array")
	default:
		d.mismatch(TypeDict, "an object")
	}
	return false
}

// more reports whether a list or an object has another element. At its end it reads the closing bracket.
func (d *decoder) more(end jsontext.Kind) bool {
	if !d.stopped() && d.kind() != end {
		return true
	}
	if !d.stopped() {
		d.token()
	}
	return false
}

func (d *decoder) token() {
	if _, err := d.json.ReadToken(); err != nil {
		d.syntax = err
	}
}

// mismatch adds a problem for a value of the wrong kind, and skips the value.
func (d *decoder) mismatch(typ, want string) {
	got := d.kind()
	d.skip()
	if d.syntax == nil {
		d.problemf(typ, "must be %s, not %s", want, KindName(got))
	}
}

// KindName names a kind of JSON value for messages: "an object", "a string", ...
func KindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

// string reads a string by the rules of its field.
func (d *decoder) string(r *rule) (s string, ok bool) {
	if d.kind() != '"' {
		d.mismatch(TypeString, "a string")
		return "", false
	}
	raw := d.next()
	if d.syntax != nil || !d.take(len(raw)) {
		return "", false
	}
	s = unquote(raw)
	switch {
	case r.oneof != nil && !slices.Contains(r.oneof, s):
		last := len(r.oneof) - 1
		allowed := r.oneof
		if prefix, is := strings.CutSuffix(allowed[last], "*"); is {
			if strings.HasPrefix(s, prefix) {
				return s, true
			}
			allowed = allowed[:last]
		}
		d.problemf(TypeLiteral, "must be %s, not %s", oneOf(allowed), quote(s))
		return "", false
	case s == "" && r.nonempty:
		d.problem(TypeStringTooShort, "must not be empty")
	case len(s) > MaxID && r.id:
		d.problemf(TypeValue, "has %d bytes; at most %d are allowed", len(s), MaxID)
	case r.url:
		checkEndpoint(s, d.problem)
	}
	return s, true
}

// integer reads a strict integer, without fraction and exponent, within int64 and its field's bounds.
func (d *decoder) integer(r *rule) (n int64, ok bool) {
	if d.kind() != '0' {
		d.mismatch(TypeInt, "an integer")
		return 0, false
	}
	raw := d.next()
	if d.syntax != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case bytes.ContainsAny(raw, ".eE"):
		d.problemf(TypeInt, "must be an integer literal without fraction or exponent, not %s", clip.Text(string(raw), maxQuoted))
	case err != nil:
		d.problemf(TypeIntSize, "must be an integer between -2^63 and 2^63-1, not %s", clip.Text(string(raw), maxQuoted))
	case n < r.least:
		d.problemf(TypeGreaterEqual, "must be at least %d, not %d", r.least, n)
	case n > r.most:
		d.problemf(TypeLessEqual, "must be at most %d, not %d", r.most, n)
	default:
		return n, true
	}
	return 0, false
}

// positive reads a number above zero, in seconds.
func (d *decoder) positive() float64 {
	if d.kind() != '0' {
		d.mismatch(TypeFloat, "a number")
		return 0
	}
	raw := d.next()
	if d.syntax != nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		d.problemf(TypeFinite, "must be a number that fits a 64-bit float, not %s", clip.Text(string(raw), maxQuoted))
	case f <= 0:
		d.problemf(TypeGreaterThan, "must be greater than 0, not %s", clip.Text(string(raw), maxQuoted))
	}
	return f
}

func (d *decoder) boolean() bool {
	switch d.kind() {
	case 't':
		d.skip()
		return true
	case 'f':
		d.skip()
		return false
	}
	d.mismatch(TypeBool, "true or false")
	return false
}

// raw reads a value that stays raw: an object, unless its field may be anything.
func (d *decoder) raw(r *rule) Raw {
	if !r.any && d.kind() != '{' {
		d.mismatch(TypeDict, "an object")
		return emptyObject
	}
	return d.next()
}

// count counts elements of lists and maps, and stops decoding at MaxElements.
func (d *decoder) count() bool {
	d.elements++
	if !d.take(elementBytes) {
		return false
	}
	if d.elements <= MaxElements {
		return true
	}
	d.problemf(TypeTooLong, "the body has more than %d list elements and map entries; send fewer", MaxElements)
	d.full = true
	return false
}

// entries reads an object. It calls value with each name; value must read the value of that name.
func (d *decoder) entries(value func(name string)) {
	if !d.open('{') {
		return
	}
	for d.more('}') {
		quoted := d.next()
		if d.syntax != nil {
			return
		}
		name := unquote(quoted)
		d.push(step{name: name, index: -1})
		if d.count() {
			value(name)
		}
		d.pop()
	}
}

// unknown adds a problem for a field that the model does not have.
func (d *decoder) unknown(fs fields, name string) {
	msg := "unknown field " + quote(name)
	if i := fs.similar(name); i >= 0 {
		msg += ": did you mean " + quote(fs[i].name) + "? Names are case-sensitive"
	} else {
		msg += ": remove it; the fields here are " + strings.Join(fs.names(), ", ")
	}
	d.problem(TypeExtraForbidden, msg, clip.Text(name, maxLocName))
}

func (d *decoder) push(s step) { d.path = append(d.path, s) }
func (d *decoder) pop()        { d.path = d.path[:len(d.path)-1] }

// unquote returns the text of a valid JSON string.
func unquote(raw Raw) string { return string(unescaped(raw)) }

// unescaped returns the text of a valid JSON string, without a copy if it has no escapes.
func unescaped(raw Raw) []byte {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// oneOf lists the allowed strings: "a", "b" or "c".
func oneOf(allowed []string) string {
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = quote(a)
	}
	last := len(quoted) - 1
	if last == 0 {
		return quoted[0]
	}
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
