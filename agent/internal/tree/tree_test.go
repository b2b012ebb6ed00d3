package tree

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentd/protocol"
)

const sample = `{"b":1.50e+0,"a":["x\u0079",null,{"\u0063":true}],"n":{}}`

func TestUnchangedValuesKeepTheirBytes(t *testing.T) {
	v := Parse(protocol.Raw(sample))
	if got := string(v.Raw()); got != sample {
		t.Errorf("%s", got)
	}
	if got := string(slices.Collect(v.Get("a").Elements())[2].Raw()); got != `{"\u0063":true}` {
		t.Errorf("%s", got)
	}
}

func TestPassesChangeOnlyWhatTheyMake(t *testing.T) {
	v := Parse(protocol.Raw(sample))
	for name, test := range map[string]struct {
		got  *Value
		want string
	}{
		"a member in its place":    {v.With("b", String("é\n")), `{"b":"é\n","a":["x\u0079",null,{"\u0063":true}],"n":{}}`},
		"a member at the end":      {v.With("z", Strings([]string{"p", "q"})), strings.TrimSuffix(sample, "}") + `,"z":["p","q"]}`},
		"without members":          {v.Without("a", "n", "none"), `{"b":1.50e+0}`},
		"without none":             {v.Without("none"), sample},
		"other values in a list":   {v.Get("a").Map(func(i string, e *Value) *Value { return List(String(i), e) }), `[["0","x\u0079"],["1",null],["2",{"\u0063":true}]]`},
		"other values of members":  {v.Map(func(name string, _ *Value) *Value { return Parse(protocol.Raw(`"` + name + `"`)) }), `{"b":"b","a":"a","n":"n"}`},
		"a number has no values":   {v.Get("b").Map(nil), `1.50e+0`},
		"names with fewer escapes": {slices.Collect(v.Get("a").Elements())[2].With("d", True), `{"c":true,"d":true}`},
	} {
		if got := string(test.got.Raw()); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if got := string(v.Raw()); got != sample {
		t.Errorf("the value itself became %s", got)
	}
}

func TestAbsentValuesHaveNothing(t *testing.T) {
	v := Parse(protocol.Raw(sample)).Get("none")
	_, isText := v.Text()
	_, err := v.Strings()
	if v.Kind != 0 || v.Raw() != nil || isText || err == nil || v.Has("a") || v.Get("a").Get("b").Kind != 0 {
		t.Errorf("%+v", v)
	}
}

func TestStringsNameWhatElseThereIs(t *testing.T) {
	for source, want := range map[string]string{
		`{}`:      "it must be a list of strings, not an object",
		`["a",1]`: "element 1: it must be a string, not a number",
	} {
		if _, err := Parse(protocol.Raw(source)).Strings(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", source, err)
		}
	}
	if list, err := Parse(protocol.Raw(`["\u0061",""]`)).Strings(); err != nil || !reflect.DeepEqual(list, []string{"a", ""}) {
		t.Errorf("%q, %v", list, err)
	}
}

// FuzzRaw: encoding/json reads from a tree what it reads from the source, before and after passes.
func FuzzRaw(f *testing.F) {
	for _, seed := range []string{sample, `[]`, `"\ud800\u0000"`, `[[-0.0],{"":{"":[]}}]`, `null`} {
		f.Add([]byte(seed))
	}
	decode := func(raw protocol.Raw) (value any, err error) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		return value, d.Decode(&value)
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		raw := protocol.Raw(source)
		if !raw.IsValid() || raw.Compact() != nil {
			t.Skip()
		}
		want, err := decode(raw)
		if err != nil {
			t.Skip()
		}
		var same func(_ string, v *Value) *Value
		same = func(_ string, v *Value) *Value { return v.Map(same) }
		for _, v := range []*Value{Parse(raw), same("", Parse(raw)), Parse(same("", Parse(raw)).Raw())} {
			if got, err := decode(v.Raw()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %#v, %v, want %#v", raw, got, err, want)
			}
		}
	})
}
