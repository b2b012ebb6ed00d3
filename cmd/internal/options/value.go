package options

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Value reads one option from text or from JSON into a field. Its errors say what was
// expected; the caller adds the option's name.
type Value struct {
	field any // pointer to the field
	form  form
	want  string   // for numbers: what the text must be
	words []string // that it may be; of numbers, those that stand in quotes in JSON
	parse func(text string) error
	show  func() string

	secret   bool     // a file that nobody else should read
	settings []Option // that share this value
}

// form is how a value is written in JSON.
type form uint8

const (
	asText form = iota // a string
	asNumber
	asBool
	asDuration   // a string such as "90s", or a number of seconds
	asWords      // a string, or a list of strings
	asRepeatable // the same; a flag that is given again adds to it
	asSettings   // an object; a flag that is given again adds to it
)

// String is the field as text, "" when it is not set.
func (v Value) String() string { return v.show() }

// Set fills the field from text.
func (v Value) Set(text string) error { return v.parse(text) }

// isList reports whether a flag that is given again adds to the value.
func (v Value) isList() bool { return v.form == asRepeatable || v.form == asSettings }

// Text is any string.
func Text(p *string) Value {
	return Value{field: p, parse: func(s string) error { *p = s; return nil }, show: func() string { return *p }}
}

// Words is a string that may also be a list of strings in the file.
func Words(p *string) Value {
	v := Text(p)
	v.form = asWords
	return v
}

// Choice is one of a few words. Aliases map other words to them.
func Choice(p *string, words []string, aliases map[string]string) Value {
	return oneOf(p, words, aliases, func() string { return *p }, func(word string) { *p = word })
}

// Either is one of two words. The second one sets the field to true.
func Either(p *bool, no, yes string) Value {
	var aliases map[string]string
	if no == "on" {
		aliases = map[string]string{"true": "on", "false": "off"}
	}
	return oneOf(p, []string{no, yes}, aliases, func() string {
		if *p {
			return yes
		}
		return no
	}, func(word string) { *p = word == yes })
}

// oneOf is one of a few words, in any letter case.
func oneOf(field any, words []string, aliases map[string]string, show func() string, set func(word string)) Value {
	return Value{field: field, words: words, show: show, parse: func(s string) error {
		word := strings.ToLower(strings.TrimSpace(s))
		if to, ok := aliases[word]; ok {
			word = to
		}
		if !slices.Contains(words, word) {
			return fmt.Errorf("got %q, want one of %s", s, strings.Join(words, ", "))
		}
		set(word)
		return nil
	}}
}

// Bool is true or false. Its flag needs no value.
func Bool(p *bool) Value {
	return scalar(p, asBool, "true or false", strconv.ParseBool, strconv.FormatBool)
}

// Int is a whole number from least to most.
func Int(p *int, least, most int) Value {
	return scalar(p, asNumber, fmt.Sprintf("a whole number from %d to %d", least, most), func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		return n, within(n, least, most, err)
	}, strconv.Itoa)
}

// IntOr is an Int for which a word may stand, such as auto. The number that the word
// means is allowed, too.
func IntOr(p *int, least, most int, word string, means int) Value {
	v := Int(p, least, most)
	v.want += " or " + word
	v.words = []string{word}
	parse := v.parse
	v.parse = func(s string) error {
		if s = strings.TrimSpace(s); strings.EqualFold(s, word) || s == strconv.Itoa(means) {
			*p = means
			return nil
		}
		if parse(s) != nil {
			return fmt.Errorf("got %q, want %s", s, v.want)
		}
		return nil
	}
	v.show = func() string {
		if *p == means {
			return word
		}
		return strconv.Itoa(*p)
	}
	return v
}

// Uint64 is any unsigned number, such as a seed.
func Uint64(p *uint64) Value {
	return scalar(p, asNumber, fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)),
		func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) },
		func(n uint64) string { return strconv.FormatUint(n, 10) })
}

// Float is a number from least to most.
func Float(p *float64, least, most float64) Value {
	return scalar(p, asNumber, fmt.Sprintf("a number from %g to %g", least, most), func(s string) (float64, error) {
		x, err := strconv.ParseFloat(s, 64)
		return x, within(x, least, most, err)
	}, func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })
}

// OptionalInt is an Int that is nil until it is set.
func OptionalInt(p **int, least, most int) Value {
	return optional(p, func(n *int) Value { return Int(n, least, most) })
}

// OptionalFloat is a Float that is nil until it is set.
func OptionalFloat(p **float64, least, most float64) Value {
	return optional(p, func(x *float64) Value { return Float(x, least, most) })
}

// Instead adds to the errors of a value what to use in place of what can't be given.
func (v Value) Instead(hint string) Value {
	parse := v.parse
	v.parse = func(s string) error {
		if err := parse(s); err != nil {
			return fmt.Errorf("%w; %s", err, hint)
		}
		return nil
	}
	return v
}

// Duration is a time span from least to most. In JSON it may be a number of seconds.
func Duration(p *time.Duration, least, most time.Duration) Value {
	return scalar(p, asDuration, fmt.Sprintf("a time span from %s to %s such as 90s or 168h", least, most), func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		return d, within(d, least, most, err)
	}, time.Duration.String)
}

// List is a list of at most so many words, none of them empty: a,b in text, ["a", "b"]
// in JSON. A flag that is given several times adds to it. Each is one of known, if there are such words.
func List(p *[]string, most int, known ...string) Value {
	v := ListOf(p, most, func(s string) (string, error) {
		if len(known) > 0 && !slices.Contains(known, s) {
			return "", fmt.Errorf("got %q, want some of %s", s, strings.Join(known, ", "))
		}
		return s, nil
	}, func(s string) string { return s })
	v.words = known
	return v
}

// ListOf is a List whose words mean something else.
func ListOf[T any](p *[]T, most int, parse func(string) (T, error), show func(T) string) Value {
	return Value{field: p, form: asRepeatable, parse: func(s string) error {
		if s == "" { // of JSON; a flag and a variable can't be empty lists
			*p = nil
			return nil
		}
		var list []T
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part == "" {
				return fmt.Errorf("got %q with an empty entry; separate entries by one comma", s)
			}
			x, err := parse(part)
			if err != nil {
				return err
			}
			list = append(list, x)
		}
		if len(list) > most {
			return fmt.Errorf("got %d entries, want at most %d", len(list), most)
		}
		*p = list
		return nil
	}, show: func() string {
		words := make([]string, len(*p))
		for i, x := range *p {
			words[i] = show(x)
		}
		return strings.Join(words, ",")
	}}
}

// Refuse makes check see the text of a value first. Its error refuses the text.
func (v Value) Refuse(check func(text string) error) Value {
	parse := v.parse
	v.parse = func(s string) error {
		if err := check(s); err != nil {
			return err
		}
		return parse(s)
	}
	return v
}

// scalar is a value of one word that a function reads.
func scalar[T any](p *T, f form, want string, parse func(string) (T, error), show func(T) string) Value {
	return Value{field: p, form: f, want: want, parse: func(s string) error {
		x, err := parse(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("got %q, want %s", s, want)
		}
		*p = x
		return nil
	}, show: func() string { return show(*p) }}
}

// within is err, or an error when x is not from least to most. NaN is not.
func within[T int | float64 | time.Duration](x, least, most T, err error) error {
	if inside := x >= least && x <= most; err == nil && !inside {
		return errors.New("out of range")
	}
	return err
}

// optional is a value whose field is nil until it is set.
func optional[T any](p **T, of func(*T) Value) Value {
	v := of(new(T))
	v.field = p
	v.parse = func(s string) error {
		x := new(T)
		err := of(x).parse(s)
		if err == nil {
			*p = x
		}
		return err
	}
	v.show = func() string {
		if *p == nil {
			return ""
		}
		return of(*p).show()
	}
	return v
}

// setJSON fills the field from JSON.
func (v Value) setJSON(raw jsontext.Value) error {
	kind := raw.Kind()
	switch v.form {
	case asBool:
		if kind != 't' && kind != 'f' {
			return fmt.Errorf("got %s, want true or false, without quotes", raw)
		}
		return v.parse(string(raw))
	case asNumber:
		if kind == '"' {
			if s, err := unquote(raw); err == nil && slices.ContainsFunc(v.words, func(w string) bool { return strings.EqualFold(w, s) }) {
				return v.parse(s)
			}
		}
		if kind != '0' {
			return fmt.Errorf("got %s, want %s, without quotes", raw, v.want)
		}
		return v.parse(string(raw))
	case asDuration:
		if kind == '0' {
			return v.parse(string(raw) + "s")
		}
		if kind != '"' {
			return fmt.Errorf("got %s, want a time span such as \"90s\", or a number of seconds", raw)
		}
	case asSettings:
		if kind == '{' {
			return eachMember(raw, "the object", func(key string, member jsontext.Value) error {
				o, err := v.setting(key)
				if err == nil {
					err = o.Value.setJSON(member)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				return nil
			})
		}
	case asWords, asRepeatable:
		if kind != '"' {
			return v.setList(raw)
		}
	}
	s, err := unquote(raw)
	if err != nil {
		return err
	}
	return v.parse(s)
}

// setList fills the field from a JSON array of strings.
func (v Value) setList(raw jsontext.Value) error {
	if raw.Kind() != '[' {
		return fmt.Errorf("got %s, want a list", raw)
	}
	var items []jsontext.Value
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	words := make([]string, len(items))
	for i, item := range items {
		var err error
		if words[i], err = unquote(item); err != nil {
			return fmt.Errorf("got %s in the list, want strings", item)
		}
	}
	return v.parse(strings.Join(words, ","))
}

// unquote is a JSON string's text. Another kind is an error that shows one.
func unquote(raw jsontext.Value) (string, error) {
	if raw.Kind() != '"' {
		return "", fmt.Errorf("got %s, want a string in quotes", raw)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err
}
