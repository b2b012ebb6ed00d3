package protocol

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		obj  Raw
		want []string
	}{
		{nil, nil},
		{Raw(`{}`), nil},
		{Raw(` { } `), nil},
		{Raw(`{"a":1}`), []string{"a=1"}},
		{Raw(`{"b":{"a":1.0},"a":[1,{"b":2}],"":"}"}`), []string{`b={"a":1.0}`, `a=[1,{"b":2}]`, `="}"`}},
		{Raw(`{"\u0061\"":"\"}","x":-1e5,"t":true}`), []string{`a"="\"}"`, `x=-1e5`, `t=true`}},
		{Raw("{ \"a\" : 1 ,\n\"b\" : [ ] }"), []string{"a=1", "b=[ ]"}},
		{Raw(`[1]`), nil},
		{Raw(`1`), nil},
		{Raw(`{"a"`), nil},
		{Raw(`{"a":}`), nil},
		{Raw(`{"a":1`), []string{"a=1"}},
		{Raw(`{"a":[1`), nil},
		{Raw(`{"a":"`), nil},
		{Raw(`{a:1}`), nil},
	} {
		var got []string
		for name, v := range Members(c.obj) {
			got = append(got, name+"="+string(v))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Members(%s):\n%s", c.obj, diff)
		}
	}
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		arr  Raw
		want []string
	}{
		{nil, nil},
		{Raw(`[]`), nil},
		{Raw(`[1,"]",[2],{"a":[]},null]`), []string{"1", `"]"`, "[2]", `{"a":[]}`, "null"}},
		{Raw("[ 1 ,\t2 ]"), []string{"1", "2"}},
		{Raw(`{}`), nil},
		{Raw(`[1,[`), []string{"1"}},
		{Raw(`[,]`), nil},
	} {
		var got []string
		for v := range Elements(c.arr) {
			got = append(got, string(v))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Elements(%s):\n%s", c.arr, diff)
		}
	}
}

func TestIterationStops(t *testing.T) {
	n := 0
	for range Members(Raw(`{"a":1,"b":2}`)) {
		n++
		break
	}
	for range Elements(Raw(`[1,2]`)) {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d iterations, want 2", n)
	}
}

func TestEditMembers(t *testing.T) {
	const obj = `{"z":1.0,"a\u0062":"x\/y","c":{"a":1}}`
	for _, c := range []struct{ name, got, want string }{
		{"append to an object", string(AppendMember(Raw(obj), "n", Raw(`[]`))), `{"z":1.0,"a\u0062":"x\/y","c":{"a":1},"n":[]}`},
		{"append to an empty object", string(AppendMember(Raw(`{}`), "n", Raw(`1`))), `{"n":1}`},
		{"append to nil", string(AppendMember(nil, `"`, Raw(`1`))), `{"\"":1}`},
		{"append to a spaced object", string(AppendMember(Raw(" { \"a\" : 1 } "), "n", Raw(`1`))), `{ "a" : 1,"n":1}`},
		{"replace the first", string(SetMember(Raw(obj), "z", Raw(`2`))), `{"z":2,"a\u0062":"x\/y","c":{"a":1}}`},
		{"replace an escaped name", string(SetMember(Raw(obj), "ab", Raw(`2`))), `{"z":1.0,"a\u0062":2,"c":{"a":1}}`},
		{"replace the last", string(SetMember(Raw(obj), "c", Raw(`null`))), `{"z":1.0,"a\u0062":"x\/y","c":null}`},
		{"set what is not there", string(SetMember(Raw(obj), "a", Raw(`2`))), `{"z":1.0,"a\u0062":"x\/y","c":{"a":1},"a":2}`},
		{"delete the first", string(DeleteMember(Raw(obj), "z")), `{"a\u0062":"x\/y","c":{"a":1}}`},
		{"delete the middle", string(DeleteMember(Raw(obj), "ab")), `{"z":1.0,"c":{"a":1}}`},
		{"delete the last", string(DeleteMember(Raw(obj), "c")), `{"z":1.0,"a\u0062":"x\/y"}`},
		{"delete the only one", string(DeleteMember(Raw(`{"a":[1,2]}`), "a")), `{}`},
		{"delete what is not there", string(DeleteMember(Raw(obj), "a")), obj},
		{"append elements", string(AppendElements(Raw(`[1.0]`), Raw(`{}`), Raw(`2`))), `[1.0,{},2]`},
		{"append elements to an empty array", string(AppendElements(Raw(`[]`), Raw(`{}`), Raw(`2`))), `[{},2]`},
		{"append elements to nil", string(AppendElements(nil, Raw(`1`))), `[1]`},
		{"append no elements", string(AppendElements(Raw(`[1]`))), `[1]`},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestEditsDoNotChangeTheirArgument(t *testing.T) {
	body := []byte(`{"a":1,"b":[2]}tail`)
	obj := Raw(body[:15])
	AppendMember(obj, "c", Raw(`3`))
	SetMember(obj, "a", Raw(`9`))
	DeleteMember(obj, "a")
	v, _ := Get(obj, "b")
	AppendElements(v, Raw(`3`))
	_ = append(v, "overwritten"...)
	if string(body) != `{"a":1,"b":[2]}tail` {
		t.Errorf("the body became %s", body)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		ok        bool
	}{
		{`"a"`, "a", true}, {`""`, "", true}, {`"\u00e9\n"`, "é\n", true}, {`1`, "", false}, {`null`, "", false}, {``, "", false}, {`"`, "", false}, {`"a"b"`, "", false},
	} {
		if got, ok := Text(Raw(c.raw)); got != c.want || ok != c.ok {
			t.Errorf("Text(%s) = %q, %v", c.raw, got, ok)
		}
		if c.ok {
			if back, _ := Text(String(c.want)); back != c.want {
				t.Errorf("String(%q) reads back as %q", c.want, back)
			}
		}
	}
}

// The dumb twin: objects as lists of names and values, built by jsontext.
type pair struct{ name, value string }

func parsePairs(t interface{ Fatal(...any) }, obj Raw) (pairs []pair) {
	d := jsontext.NewDecoder(strings.NewReader(string(obj)), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		p := pair{name: name.String()}
		v, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		p.value = string(v)
		pairs = append(pairs, p)
	}
	return pairs
}

func TestEditsAgreeWithParsing(t *testing.T) {
	value := rapid.SampledFrom([]string{`1`, `-0.0`, `"x"`, `"}\"{,"`, `[]`, `{}`, `[1,{"a":2}]`, `{"a":{"b":[]}}`, `null`, `true`})
	name := rapid.SampledFrom([]string{"a", "b", "c", "é", "", `"`, "a b"})
	rapid.Check(t, func(t *rapid.T) {
		var want []pair
		obj := Raw(`{}`)
		for range rapid.IntRange(0, 12).Draw(t, "edits") {
			key, v := name.Draw(t, "name"), value.Draw(t, "value")
			at := -1
			for i, p := range want {
				if p.name == key {
					at = i
				}
			}
			switch op := rapid.IntRange(0, 1).Draw(t, "op"); {
			case op == 0 && at >= 0:
				obj = DeleteMember(obj, key)
				want = append(want[:at:at], want[at+1:]...)
			default:
				obj = SetMember(obj, key, Raw(v))
				if at >= 0 {
					want[at].value = v
				} else {
					want = append(want, pair{key, v})
				}
			}
			if !obj.IsValid() {
				t.Fatalf("not valid: %s", obj)
			}
			if diff := cmp.Diff(want, parsePairs(t, obj), cmp.AllowUnexported(pair{})); diff != "" && len(want) > 0 {
				t.Fatalf("%s:\n%s", obj, diff)
			}
			for _, p := range want {
				if got, ok := Get(obj, p.name); !ok || string(got) != p.value {
					t.Fatalf("Get(%s, %q) = %s, %v", obj, p.name, got, ok)
				}
			}
		}
	})
}

func FuzzRaw(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[{}]}`, `[1,"x",{}]`, `{"\u0061":"\\"}`, `{"a`, `{"a":`, `[[[`, ` { "a" : 1 } `} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, text []byte, key string) {
		before := string(text)
		raw := Raw(text)
		n := 0
		for range Members(raw) {
			n++
		}
		for range Elements(raw) {
			n++
		}
		Text(raw)
		Get(raw, key)
		edited := []Raw{SetMember(raw, key, Raw(`1`)), DeleteMember(raw, key), AppendElements(raw, Raw(`1`))}
		if string(text) != before {
			t.Fatalf("%q was changed to %q", before, text)
		}
		if !raw.IsValid() || raw.Kind() != '{' {
			return
		}
		// Of a valid object the members are those that a parser sees, and it
		// stays valid when it is edited.
		want := parsePairs(t, raw)
		if n != len(want) {
			t.Fatalf("%q has %d members, found %d", before, len(want), n)
		}
		for i, e := range edited[:2] {
			if !e.IsValid() {
				t.Fatalf("edit %d of %q gives %q", i, before, e)
			}
		}
		i := 0
		for name, v := range Members(raw) {
			if got := (pair{name, string(v)}); got != want[i] {
				t.Fatalf("member %d of %q is %v, want %v", i, before, got, want[i])
			}
			i++
		}
	})
}
