package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Words for a member of a JSON object of a checkpoint.
const (
	used    = "used"
	inert   = "no effect"
	refused = "refused"
)

// member says what a member of an object means to agentd.
type member struct {
	word  string
	value string // of a refused member: the JSON values that agentd computes, with commas between them; "": none
	why   string
}

// members are all that an object may have. The tables follow transformers 5.19 and peft 0.21.
type members map[string]member

func use(names ...string) members { return each(member{word: used}, names) }

func ignore(why string, names ...string) members { return each(member{word: inert, why: why}, names) }

// only refuses a member unless it has one of these values; with "" it refuses any.
func only(value, why string, names ...string) members {
	return each(member{word: refused, value: value, why: why}, names)
}

func each(m member, names []string) members {
	list := members{}
	for _, name := range names {
		list[name] = m
	}
	return list
}

// join has the members of all lists; later ones replace earlier ones.
func join(lists ...members) members {
	all := members{}
	for _, m := range lists {
		maps.Copy(all, m)
	}
	return all
}

type jsonObject = map[string]json.RawMessage

// read decodes an object into a struct, with the defaults of its class for absent members. null is the class's None, so
// it leaves the field as it is. Members without a word, and refused values, are errors that name the member.
func (m members) read(text []byte, defaults jsonObject, into any) error {
	var given jsonObject
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	all := maps.Clone(defaults)
	if all == nil {
		all = jsonObject{}
	}
	maps.Copy(all, given)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		known, value := m[name], all[name]
		if known.word == refused && !isNull(value) && !known.computes(value) {
			return known.refusal(name, string(value), given[name] == nil)
		}
		if known.word != used {
			delete(all, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := m[name]; !known && !isNull(given[name]) {
			return fmt.Errorf("%s is not known and may change results; remove it if it does not", name)
		}
	}
	whole, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return json.Unmarshal(whole, into)
}

// refusal is the error for a value that is not computed.
func (k member) refusal(name, value string, absent bool) error {
	what := fmt.Sprintf("%s is %.100s", name, value)
	if absent {
		what = fmt.Sprintf("%s is missing, which means %.100s", name, value)
	}
	if k.value != "" {
		what += "; only " + k.value + " is computed"
	}
	return fmt.Errorf("%s: %s", what, k.why)
}

// computes reports whether a value of a refused member is one that agentd computes.
func (k member) computes(value json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal([]byte("["+k.value+"]"), &list) == nil &&
		slices.ContainsFunc(list, func(known json.RawMessage) bool { return sameJSON(value, string(known)) })
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// sameJSON compares two JSON values; numbers are equal if their values are.
func sameJSON(a json.RawMessage, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
