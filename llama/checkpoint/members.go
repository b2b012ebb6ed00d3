package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Treatments of a member of a checkpoint's JSON object.
const (
	used    = "used"
	inert   = "no effect"
	refused = "refused"
)

// member is how agentd treats a member of an object.
type member struct {
	word  string
	value string // for refused: the supported JSON values, separated by commas; "" for none
	why   string
}

// members has all members that an object may have. The tables follow transformers 5.19 and peft 0.21.
type members map[string]member

func use(names ...string) members { return each(member{word: used}, names) }

func ignore(why string, names ...string) members { return each(member{word: inert, why: why}, names) }

// only refuses members with other values than these; with "" it refuses every value.
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

// join merges tables; later entries replace earlier ones.
func join(lists ...members) members {
	all := members{}
	for _, m := range lists {
		maps.Copy(all, m)
	}
	return all
}

type jsonObject = map[string]json.RawMessage

// read decodes an object into a struct, with defaults for absent members. null counts as transformers' None, so it
// leaves the field unchanged. Unknown members and refused values are errors that name the member.
func (m members) read(text []byte, defaults jsonObject, into any) error {
	var given jsonObject
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	all := jsonObject{}
	maps.Copy(all, defaults)
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
	err = json.Unmarshal(whole, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has a wrong value: %s", wrong.Field, wrong.Value)
	}
	return err
}

// refusal returns the error for a value that is not supported.
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

// computes reports whether agentd supports a value of a refused member.
func (k member) computes(value json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal([]byte("["+k.value+"]"), &list) == nil &&
		slices.ContainsFunc(list, func(known json.RawMessage) bool { return sameJSON(value, string(known)) })
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// sameJSON compares two JSON values; numbers are compared by value.
func sameJSON(a json.RawMessage, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
