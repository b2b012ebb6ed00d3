package protocol

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A model is a struct whose fields have tags: `wire:"name,rule,..."`. Decoder and encoder follow the tags, in the
// order of the fields. A blank field (_) is in the JSON only. The rules:
//
//	required          an absent field is a problem; without this rule it gets its default
//	nullable          null counts as absent
//	always            written even if it equals its default
//	any               raw JSON of any kind, not only an object
//	nonempty, id      a text that is not empty; of at most MaxID bytes
//	url               a text that is an http or https URL
//	oneof=a|b|c*      the allowed texts; c* are those that begin with c
//	least=n, most=n   bounds of an integer, or of the length of a list
//	unique=what       a list of models with different ids; what is one of them

// fields are the fields of a model, at most 32 (presence has one bit each).
type fields []rule

// rule is the parsed tag of a field.
type rule struct {
	name              string
	required          bool
	nullable          bool // null counts as absent
	index             int  // of the field in the struct
	blank             bool // the field is _
	key               string
	always, any       bool
	nonempty, id, url bool
	oneof             []string
	least, most       int64
	unique            string
	omit              bool // not written if it equals its default
}

var anything = rule{least: math.MinInt64, most: math.MaxInt64} // a rule that accepts every value

var whole = rule{any: true, least: math.MinInt64, most: math.MaxInt64} // the rule of a body

// model is a struct's parsed tags.
type model struct {
	fields  fields
	initial reflect.Value // the struct with its defaults
}

var models sync.Map // of reflect.Type to *model

func modelOf(t reflect.Type) *model {
	m, ok := models.Load(t)
	if !ok {
		m, _ = models.LoadOrStore(t, newModel(t))
	}
	return m.(*model)
}

// defaulting is a model with defaults other than zero and {}.
type defaulting interface{ setDefaults() }

func newModel(t reflect.Type) *model {
	v := reflect.New(t)
	m := &model{initial: v.Elem()}
	for i := range t.NumField() {
		tag, tagged := t.Field(i).Tag.Lookup("wire")
		if !tagged {
			continue
		}
		r := anything
		r.index, r.blank = i, t.Field(i).Name == "_"
		r.parse(tag)
		m.fields = append(m.fields, r)
		if t.Field(i).Type == reflect.TypeFor[Raw]() && !r.any {
			m.initial.Field(i).SetBytes(emptyObject)
		}
	}
	if d, ok := v.Interface().(defaulting); ok {
		d.setDefaults()
	}
	return m
}

// limitNames are the constants that least= and most= may name.
var limitNames = map[string]int64{"MaxInputs": MaxInputs, "MaxNumOutputs": MaxNumOutputs}

func (r *rule) parse(tag string) {
	name, rest, _ := strings.Cut(tag, ",")
	r.name, r.key = name, strconv.Quote(name)+":"
	for word := range strings.SplitSeq(rest, ",") {
		word, value, _ := strings.Cut(word, "=")
		n, named := limitNames[value]
		if !named {
			n, _ = strconv.ParseInt(value, 10, 64)
		}
		for _, flag := range map[string][]*bool{
			"required": {&r.required}, "nullable": {&r.nullable}, "always": {&r.always}, "any": {&r.any},
			"nonempty": {&r.nonempty}, "id": {&r.nonempty, &r.id}, "url": {&r.url},
		}[word] {
			*flag = true
		}
		switch word {
		case "oneof":
			r.oneof = strings.Split(value, "|")
		case "least":
			r.least = n
		case "most":
			r.most = n
		case "unique":
			r.unique = value
		}
	}
	r.omit = !r.required && !r.always
}

// presence says which fields of a model the JSON had, and which of them were valid.
type presence struct {
	fields      fields
	seen, sound uint32 // bit i is for fields[i]; sound: no problem
}

func (p presence) has(name string) bool { return p.seen&p.fields.bit(name) != 0 }

func (p presence) valid(name string) bool { return p.sound&p.fields.bit(name) != 0 }

func (fs fields) bit(name string) uint32 {
	return 1 << slices.IndexFunc(fs, func(r rule) bool { return r.name == name })
}

// index returns the position of the field with the name in the JSON string raw, or -1.
func (fs fields) index(raw Raw) int {
	name := unescaped(raw)
	for i := range fs {
		if string(name) == fs[i].name {
			return i
		}
	}
	return -1
}

func (fs fields) names() []string {
	names := make([]string, len(fs))
	for i := range fs {
		names[i] = fs[i].name
	}
	return names
}

// similar returns the field that a name misspells in case or separators, else -1.
func (fs fields) similar(name string) int {
	if len(name) > maxLocName {
		return -1
	}
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	return slices.IndexFunc(fs, func(r rule) bool { return plain(r.name) == plain(name) })
}
