package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// value reads one option from text (flag, environment) or from JSON (file) into
// its Config field. Errors say what was expected; the caller adds the name.
type value interface {
	set(text string) error
	setJSON(v jsontext.Value) error
	String() string
}

// jsonString unquotes a JSON string; another kind is an error that shows one.
func jsonString(v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", fmt.Errorf("got %s, want a string in quotes", v)
	}
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err
}

// text is any string.
type text struct{ p *string }

func (t text) String() string     { return *t.p }
func (t text) set(s string) error { *t.p = s; return nil }
func (t text) setJSON(v jsontext.Value) error {
	s, err := jsonString(v)
	if err == nil {
		err = t.set(s)
	}
	return err
}

// choice is one of a few words; aliases map other projects' words to ours.
type choice struct {
	p       *string
	words   []string
	aliases map[string]string
}

func (c choice) String() string { return *c.p }
func (c choice) set(s string) error {
	word := strings.ToLower(strings.TrimSpace(s))
	if to, ok := c.aliases[word]; ok {
		word = to
	}
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("got %q, want one of %s", s, strings.Join(c.words, ", "))
	}
	*c.p = word
	return nil
}
func (c choice) setJSON(v jsontext.Value) error {
	s, err := jsonString(v)
	if err == nil {
		err = c.set(s)
	}
	return err
}

// integer is a whole number in [min, max]. With word set, that word stands for
// the number wordIs ("auto" for 0, "all" for -1).
type integer struct {
	p        *int
	min, max int
	word     string
	wordIs   int
}

func (i integer) String() string {
	if i.word != "" && *i.p == i.wordIs {
		return i.word
	}
	return strconv.Itoa(*i.p)
}

func (i integer) set(s string) error {
	s = strings.TrimSpace(s)
	if i.word != "" && strings.EqualFold(s, i.word) {
		*i.p = i.wordIs
		return nil
	}
	n, err := strconv.Atoi(s)
	switch {
	case i.word != "" && err == nil && n == i.wordIs:
	case err != nil || n < i.min || n > i.max:
		return fmt.Errorf("got %q, want %s", s, i.wanted())
	}
	*i.p = n
	return nil
}

func (i integer) wanted() string {
	w := fmt.Sprintf("a whole number from %d to %d", i.min, i.max)
	if i.word != "" {
		w += " or " + i.word
	}
	return w
}

func (i integer) setJSON(v jsontext.Value) error {
	if v.Kind() == '"' && i.word != "" {
		s, err := jsonString(v)
		if err != nil {
			return err
		}
		if strings.EqualFold(s, i.word) {
			return i.set(s)
		}
	}
	if v.Kind() != '0' {
		return fmt.Errorf("got %s, want %s, without quotes", v, i.wanted())
	}
	return i.set(string(v))
}

// optionalInteger is an integer that may stay unset.
type optionalInteger struct {
	p        **int
	min, max int
}

func (i optionalInteger) String() string {
	if *i.p == nil {
		return ""
	}
	return strconv.Itoa(**i.p)
}

func (i optionalInteger) set(s string) error {
	n := new(int)
	err := integer{p: n, min: i.min, max: i.max}.set(s)
	if err == nil {
		*i.p = n
	}
	return err
}

func (i optionalInteger) setJSON(v jsontext.Value) error {
	n := new(int)
	err := integer{p: n, min: i.min, max: i.max}.setJSON(v)
	if err == nil {
		*i.p = n
	}
	return err
}

// seed is an unsigned 64-bit number.
type seed struct{ p *uint64 }

func (u seed) String() string { return strconv.FormatUint(*u.p, 10) }
func (u seed) set(s string) error {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return fmt.Errorf("got %q, want a whole number from 0 to %d", s, uint64(math.MaxUint64))
	}
	*u.p = n
	return nil
}
func (u seed) setJSON(v jsontext.Value) error {
	if v.Kind() != '0' {
		return fmt.Errorf("got %s, want a whole number without quotes", v)
	}
	return u.set(string(v))
}

// fraction is an optional number in [min, max].
type fraction struct {
	p        **float64
	min, max float64
}

func (f fraction) String() string {
	if *f.p == nil {
		return ""
	}
	return strconv.FormatFloat(**f.p, 'g', -1, 64)
}

func (f fraction) set(s string) error {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(x >= f.min && x <= f.max) { // written so that NaN fails
		return fmt.Errorf("got %q, want a number from %g to %g", s, f.min, f.max)
	}
	*f.p = &x
	return nil
}
func (f fraction) setJSON(v jsontext.Value) error {
	if v.Kind() != '0' {
		return fmt.Errorf("got %s, want a number from %g to %g, without quotes", v, f.min, f.max)
	}
	return f.set(string(v))
}

// toggle is true or false.
type toggle struct{ p *bool }

func (b toggle) String() string { return strconv.FormatBool(*b.p) }
func (b toggle) set(s string) error {
	x, err := strconv.ParseBool(strings.TrimSpace(s))
	if err != nil {
		return fmt.Errorf("got %q, want true or false", s)
	}
	*b.p = x
	return nil
}
func (b toggle) setJSON(v jsontext.Value) error {
	if k := v.Kind(); k != 't' && k != 'f' {
		return fmt.Errorf("got %s, want true or false, without quotes", v)
	}
	*b.p = v.Kind() == 't'
	return nil
}

// duration is a time span such as 90s or 2m; in JSON also a number of seconds.
type duration struct{ p *time.Duration }

func (d duration) String() string { return d.p.String() }
func (d duration) set(s string) error {
	x, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || x < 0 || x > maxDuration {
		return fmt.Errorf("got %q, want a time span from 0s to %s such as 90s or 2m", s, maxDuration)
	}
	*d.p = x
	return nil
}
func (d duration) setJSON(v jsontext.Value) error {
	switch v.Kind() {
	case '"':
		s, err := jsonString(v)
		if err != nil {
			return err
		}
		return d.set(s)
	case '0':
		return d.set(string(v) + "s")
	}
	return fmt.Errorf("got %s, want a time span such as \"90s\", or a number of seconds", v)
}

// numbers is a list of non-negative numbers, at least one of them positive:
// 3,1 in text, [3, 1] in JSON.
type numbers struct{ p *[]string }

func (l numbers) String() string { return strings.Join(*l.p, ",") }
func (l numbers) set(s string) error {
	return l.assign(strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '/' }))
}

func (l numbers) assign(parts []string) error {
	errWanted := errors.New("want numbers of at least 0, not all 0, one for each device, such as 3,1")
	var sum float64
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
		x, err := strconv.ParseFloat(parts[i], 32)
		if err != nil || !(x >= 0 && x <= math.MaxFloat32) {
			return fmt.Errorf("got %q, %w", part, errWanted)
		}
		sum += x
	}
	if len(parts) > 0 && sum == 0 {
		return errWanted
	}
	*l.p = parts
	return nil
}

func (l numbers) setJSON(v jsontext.Value) error {
	items, err := listItems(v, '0')
	if err != nil {
		return err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = string(item)
	}
	return l.assign(parts)
}

// names is text that may be a JSON list of strings in the file.
type names struct{ text }

func (n names) setJSON(v jsontext.Value) error {
	if v.Kind() == '"' {
		return n.text.setJSON(v)
	}
	items, err := listItems(v, '"')
	if err != nil {
		return err
	}
	words := make([]string, len(items))
	for i, item := range items {
		if words[i], err = jsonString(item); err != nil {
			return err
		}
	}
	return n.set(strings.Join(words, ","))
}

// list is a list of words, none of them empty: a,b in text, ["a", "b"] in JSON.
// A flag that is given several times adds to it.
type list struct {
	p   *[]string
	max int
}

func (l list) String() string     { return strings.Join(*l.p, ",") }
func (l list) set(s string) error { return l.assign(strings.Split(s, ",")) }

func (l list) assign(parts []string) error {
	if len(parts) > l.max {
		return fmt.Errorf("got %d entries, want at most %d", len(parts), l.max)
	}
	for i, part := range parts {
		if parts[i] = strings.TrimSpace(part); parts[i] == "" {
			return fmt.Errorf("got %q with an empty entry; separate entries by one comma", strings.Join(parts, ","))
		}
	}
	*l.p = parts
	return nil
}

func (l list) setJSON(v jsontext.Value) error {
	if v.Kind() == '"' {
		s, err := jsonString(v)
		if err != nil {
			return err
		}
		return l.set(s)
	}
	items, err := listItems(v, '"')
	if err != nil {
		return err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		if parts[i], err = jsonString(item); err != nil {
			return err
		}
	}
	return l.assign(parts)
}

// listItems splits a JSON array whose elements are all of one kind.
func listItems(v jsontext.Value, kind jsontext.Kind) ([]jsontext.Value, error) {
	if v.Kind() != '[' {
		return nil, fmt.Errorf("got %s, want a list", v)
	}
	dec := jsontext.NewDecoder(strings.NewReader(string(v)))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var items []jsontext.Value
	for dec.PeekKind() != ']' {
		item, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if item.Kind() != kind {
			return nil, fmt.Errorf("got %s in the list, want a %s", item, kind)
		}
		items = append(items, item.Clone())
	}
	return items, nil
}
