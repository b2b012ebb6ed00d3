package protocol

import (
	"fmt"
	"reflect"
)

func readModel[T any](d *decoder) *T {
	v := new(T)
	d.model(v)
	return v
}

// checker is a model with rules between its fields. p says which fields the JSON had.
type checker interface {
	check(problem report, p presence)
}

// extended is a model that decodes its blank fields (_) itself.
type extended interface {
	readOther(d *decoder, name string)
}

// reader is a type that decodes itself.
type reader interface{ read(d *decoder) }

// model decodes an object into v, a pointer to a model. Unknown fields are problems.
func (d *decoder) model(v any) (p presence) {
	to := reflect.ValueOf(v).Elem()
	m := modelOf(to.Type())
	to.Set(m.initial)
	d.take(2 * int(to.Type().Size())) // a list that grows has up to twice as many
	p.fields = m.fields
	if !d.open('{') {
		return p // one problem, not one for each field
	}
	for d.more('}') {
		quoted := d.next()
		if d.syntax != nil {
			return p
		}
		i := m.fields.index(quoted)
		switch {
		case i < 0:
			d.unknown(m.fields, unquote(quoted))
			d.skip()
		case m.fields[i].nullable && d.kind() == 'n':
			d.skip()
		default:
			problems, r := len(d.problems), &m.fields[i]
			d.push(step{name: r.name, index: -1})
			switch {
			case !r.blank:
				d.value(to.Field(r.index).Addr().Interface(), r)
			case r.oneof != nil:
				d.string(r)
			default:
				v.(extended).readOther(d, r.name)
			}
			d.pop()
			p.seen |= 1 << i
			if len(d.problems) == problems {
				p.sound |= 1 << i
			}
		}
	}
	if d.stopped() {
		return p
	}
	for i := range m.fields {
		if name := m.fields[i].name; m.fields[i].required && p.seen&(1<<i) == 0 {
			d.problem(TypeMissing, "field "+quote(name)+" is required", name)
		}
	}
	if c, ok := v.(checker); ok {
		c.check(d.problem, p)
	}
	return p
}

// value reads a value into a pointer to a field. A value with a problem may leave the field as it is.
func (d *decoder) value(to any, r *rule) (p presence) {
	switch to := to.(type) {
	case reader:
		to.read(d)
	case *string:
		*to, _ = d.string(r)
	case **string:
		if s, ok := d.string(r); ok {
			*to = &s
		}
	case *int64:
		*to, _ = d.integer(r)
	case **int64:
		if n, ok := d.integer(r); ok {
			*to = &n
		}
	case *int:
		if n, ok := d.integer(r); ok {
			*to = int(n)
		}
	case *float64:
		*to = d.positive()
	case *bool:
		*to = d.boolean()
	case *Raw:
		*to = d.raw(r)
	case *map[string]bool:
		*to = make(map[string]bool)
		d.entries(func(name string) { (*to)[name] = d.boolean() })
	default:
		switch v := reflect.ValueOf(to).Elem(); v.Kind() {
		case reflect.Slice:
			d.list(v, r)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			return d.model(v.Interface())
		default:
			return d.model(to)
		}
	}
	return p
}

// scopes are the rules about the ids of lists, by what is in them.
var scopes = map[string]string{
	"input": "ids must be unique within a request", "step": "step ids must be unique", "point": "point ids must be unique",
}

// list reads a list into a slice, whose elements follow the rules of its field.
func (d *decoder) list(to reflect.Value, r *rule) {
	if !d.open('[') {
		return
	}
	first := make(map[any]int) // the index of the element with an id
	n := 0
	for ; d.more(']'); n++ {
		d.push(step{index: n})
		switch {
		case !d.count():
		case int64(n) >= r.most:
			d.skip()
		default:
			to.Grow(1)
			to.SetLen(n + 1)
			p := d.value(to.Index(n).Addr().Interface(), r)
			if r.unique == "" || !p.valid("id") {
				break
			}
			id := to.Index(n).FieldByName("ID").Interface()
			j, taken := first[id]
			if !taken {
				first[id] = n
				break
			}
			if s, ok := id.(string); ok {
				id = quote(s)
			}
			d.problem(TypeValue, fmt.Sprintf("id %v is already the id of %s %d; %s", id, r.unique, j, scopes[r.unique]), "id")
		}
		d.pop()
	}
	switch {
	case d.syntax != nil:
	case int64(n) < r.least:
		d.problemf(TypeTooShort, "must hold at least %d %s", r.least, r.unique)
	case int64(n) > r.most:
		d.problemf(TypeTooLong, "has %d %ss; at most %d are allowed in one request", n, r.unique, r.most)
	}
}
