package protocol

import (
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// sink collects JSON in dst, and flushes it to a writer if it has one.
type sink struct {
	dst []byte
	to  io.Writer // nil: dst keeps everything
	err error     // the first error of to
}

func (s *sink) flush() {
	if s.to == nil {
		return
	}
	s.write(s.dst)
	s.dst = s.dst[:0]
}

func (s *sink) write(b []byte) {
	if s.err == nil && len(b) > 0 {
		_, s.err = s.to.Write(b)
	}
}

// raw writes raw JSON; nil is written as {}.
func (s *sink) raw(v Raw) {
	switch {
	case len(v) == 0:
		s.dst = append(s.dst, emptyObject...)
	case s.to == nil || len(v) < sinkDirect:
		s.dst = append(s.dst, v...)
	default:
		s.flush()
		s.write(v)
	}
}

func (s *sink) text(text string) { s.dst = appendString(s.dst, text) }

// object writes an object with these names in this order. value(i) writes the i-th value.
func (s *sink) object(names []string, value func(i int)) {
	s.dst = append(s.dst, '{')
	for i, name := range names {
		if i > 0 {
			s.dst = append(s.dst, ',')
		}
		s.text(name)
		s.dst = append(s.dst, ':')
		value(i)
	}
	s.dst = append(s.dst, '}')
}

// model writes a model, which must be addressable.
func (s *sink) model(v reflect.Value) {
	m := modelOf(v.Type())
	separator := byte('{')
	for i := range m.fields {
		r := &m.fields[i]
		if r.blank && r.oneof == nil || !r.blank && r.omit && r.isDefault(v.Field(r.index), m.initial.Field(r.index)) {
			continue
		}
		s.dst = append(append(s.dst, separator), r.key...)
		separator = ','
		if r.blank {
			s.text(r.oneof[0])
		} else {
			s.value(v.Field(r.index).Addr().Interface())
		}
	}
	if separator == '{' {
		s.dst = append(s.dst, '{')
	}
	s.dst = append(s.dst, '}')
}

// isDefault reports whether a field has its default, or no value.
func (r *rule) isDefault(v, initial reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0 || v.Type() == reflect.TypeFor[Raw]() && !r.any && string(v.Bytes()) == "{}"
	case reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero() || v.Comparable() && v.Equal(initial)
}

// writer is a type that encodes itself.
type writer interface{ write(s *sink) }

// value writes what the pointer v points to.
func (s *sink) value(v any) {
	switch v := v.(type) {
	case writer:
		v.write(s)
	case *string:
		s.text(*v)
	case **string:
		s.text(**v)
	case *int64:
		s.dst = strconv.AppendInt(s.dst, *v, 10)
	case **int64:
		s.dst = strconv.AppendInt(s.dst, **v, 10)
	case *int:
		s.dst = strconv.AppendInt(s.dst, int64(*v), 10)
	case *float64:
		s.dst = jsontext.AppendFloat(s.dst, *v, 64)
	case *bool:
		s.dst = strconv.AppendBool(s.dst, *v)
	case *Raw:
		s.raw(*v)
	case *map[string]bool:
		names := slices.Sorted(maps.Keys(*v))
		s.object(names, func(i int) { s.dst = strconv.AppendBool(s.dst, (*v)[names[i]]) })
	default:
		switch v := reflect.ValueOf(v).Elem(); v.Kind() {
		case reflect.Slice:
			s.dst = append(s.dst, '[')
			for i := range v.Len() {
				if i > 0 {
					s.dst = append(s.dst, ',')
				}
				if s.value(v.Index(i).Addr().Interface()); len(s.dst) > sinkDirect {
					s.flush()
				}
			}
			s.dst = append(s.dst, ']')
		case reflect.Pointer:
			s.model(v.Elem())
		default:
			s.model(v)
		}
	}
}

// appendValue appends the JSON of what the pointer v points to.
func appendValue(dst []byte, v any) []byte {
	s := sink{dst: dst}
	s.value(v)
	return s.dst
}
