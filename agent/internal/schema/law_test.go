package schema

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/gbnf/gbnftest"
	"agentd/protocol"
)

// drawer draws schemas and values at random. Values are of few kinds, so that many fit.
type drawer struct {
	*rand.Rand
	defs    []string
	checked bool // a keyword was drawn that only the check knows
}

func (d *drawer) one(list ...string) string { return list[d.IntN(len(list))] }

var lawNames = []string{"a", "b", "ab", "c", "é\"\\"}

// value draws a value in compact JSON.
func (d *drawer) value(depth int) string {
	kinds := 8
	if depth == 0 {
		kinds = 6
	}
	switch d.IntN(kinds) {
	case 0:
		return "null"
	case 1:
		return d.one("true", "false")
	case 2, 3:
		return d.one("0", "1", "2", "5", "10", "-1", "-12", "0.5", "1.25", "-0.75", "99", "100", "12345678901234567890123")
	case 4, 5:
		return string(protocol.String(d.text()))
	case 6:
		var list []string
		for range d.IntN(4) {
			list = append(list, d.value(depth-1))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	var list []string
	for _, i := range d.Perm(len(lawNames))[:d.IntN(4)] {
		list = append(list, string(protocol.String(lawNames[i]))+":"+d.value(depth-1))
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (d *drawer) text() string {
	return d.one("", "a", "b", "ab", "abc", "aab", "é", "日本", "\"", "\\", "\n", "x1", "12", "</parameter>", "2024-02-29", " ", "\t<")
}

// schema draws a schema. It is true of few keywords only that the check knows more of them.
func (d *drawer) schema(depth int) string {
	if depth <= 0 {
		return d.one("true", `{}`, `{"type":"string"}`, `{"type":"integer"}`, `{"const":`+d.value(1)+`}`, `{"type":["null","number"]}`)
	}
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	sub := func() string { return d.schema(depth - 1 - d.IntN(2)) }
	subs := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = sub()
		}
		return strings.Join(list, ",")
	}
	if d.IntN(2) == 0 {
		add(`"type":"%s"`, d.one("null", "boolean", "integer", "number", "string", "array", "object", "object", "array", "string"))
	} else if d.IntN(4) == 0 {
		add(`"type":["%s","object"]`, d.one("null", "boolean", "integer", "number", "string", "array"))
	}
	for range 1 + d.IntN(3) {
		switch d.IntN(22) {
		case 0:
			add(`"minimum":%s`, d.one("0", "1", "-1.5", "0.5", "2", "100", "12345678901234567890122"))
		case 1:
			add(`"maximum":%s`, d.one("0", "1", "5", "10.25", "99", "-1"))
		case 2:
			add(`"exclusiveMinimum":%s`, d.one("0", "1", "-0.75", "5"))
		case 3:
			add(`"exclusiveMaximum":%s`, d.one("0", "2", "1.25", "100"))
		case 4:
			add(`"minLength":%d`, d.IntN(3))
		case 5:
			add(`"maxLength":%d`, d.IntN(4))
		case 6:
			add(`"pattern":%s`, d.one(`"^a"`, `"b"`, `"^[a-z]*$"`, `"^(ab|é)?$"`, `"[0-9]"`, `"^.$"`, `"^(?!a)[a-z]"`, `"^(?=.*b)[ab]*$"`))
		case 7:
			add(`"items":%s`, sub())
		case 8:
			add(`"prefixItems":[%s]`, subs(1+d.IntN(2)))
		case 9:
			add(`"minItems":%d`, d.IntN(3))
		case 10:
			add(`"maxItems":%d`, d.IntN(3))
		case 11, 12:
			var list []string
			for _, i := range d.Perm(len(lawNames))[:1+d.IntN(3)] {
				list = append(list, string(protocol.String(lawNames[i]))+":"+sub())
			}
			add(`"properties":{%s}`, strings.Join(list, ","))
		case 13:
			add(`"required":[%q]`, d.one("a", "b", "ab"))
		case 14:
			add(`"additionalProperties":%s`, d.one("false", "true", sub()))
		case 15:
			add(`"patternProperties":{%s:%s}`, d.one(`"^a"`, `"b$"`, `""`), sub())
		case 16:
			add(`"propertyNames":%s`, d.one(`{"maxLength":1}`, `{"pattern":"^a"}`, `{"enum":["a","b"]}`, `{"const":"ab"}`, "true"))
		case 17:
			add(`"%s":%d`, d.one("minProperties", "maxProperties"), d.IntN(3))
		case 18:
			add(`"enum":[%s,%s,%s]`, d.value(1), d.value(2), d.value(0))
		case 19:
			add(`"%s":[%s]`, d.one("anyOf", "allOf", "anyOf"), subs(2))
		case 20:
			d.defs = append(d.defs, d.schema(depth-1))
			add(`"$ref":"#/$defs/d%d"`, d.IntN(len(d.defs)))
		default:
			switch d.IntN(8) {
			case 0:
				add(`"oneOf":[%s]`, subs(2))
				d.checked = true
			case 1:
				add(`"not":%s`, sub())
				d.checked = true
			case 2:
				add(`"uniqueItems":true`)
				d.checked = true
			case 3:
				add(`"contains":%s`, sub())
				d.checked = true
			case 4:
				add(`"multipleOf":%s`, d.one("2", "0.25", "5"))
				d.checked = true
			case 5:
				add(`"if":%s,"then":%s,"else":%s`, sub(), sub(), sub())
				d.checked = true
			case 6:
				add(`"dependentRequired":{"a":["b"]}`)
			case 7:
				add(`"dependentSchemas":{"a":%s}`, sub())
			}
		}
	}
	seen := map[string]bool{}
	words = slices.DeleteFunc(words, func(w string) bool {
		key, _, _ := strings.Cut(w, ":")
		twice := seen[key]
		seen[key] = true
		return twice
	})
	return "{" + strings.Join(words, ",") + "}"
}

// orders are the spellings of a value with its members in any order, up to some number.
func orders(v protocol.Raw, spacing func(out []string, open, closed string) string) []string {
	const most = 5040
	combine := func(parts [][]string) [][]string {
		lists := [][]string{nil}
		for _, p := range parts {
			var next [][]string
			for _, l := range lists {
				for _, s := range p {
					if len(next) < most {
						next = append(next, append(slices.Clip(l), s))
					}
				}
			}
			lists = next
		}
		return lists
	}
	switch v.Kind() {
	case '[':
		var parts [][]string
		for e := range protocol.Elements(v) {
			parts = append(parts, orders(e, spacing))
		}
		var out []string
		for _, l := range combine(parts) {
			out = append(out, spacing(l, "[", "]"))
		}
		return out
	case '{':
		var parts [][]string
		for name, value := range protocol.Members(v) {
			var ways []string
			for _, s := range orders(value, spacing) {
				ways = append(ways, string(protocol.String(name))+"\x00"+s)
			}
			parts = append(parts, ways)
		}
		var out []string
		for _, l := range combine(parts) {
			permute(l, 0, func(l []string) {
				if len(out) < most {
					out = append(out, spacing(l, "{", "}"))
				}
			})
		}
		return out
	}
	return []string{string(v)}
}

func permute(l []string, at int, f func([]string)) {
	if at == len(l) {
		f(l)
		return
	}
	for i := at; i < len(l); i++ {
		l = slices.Clone(l)
		l[at], l[i] = l[i], l[at]
		permute(l, at+1, f)
	}
}

func dumps(l []string, open, closed string) string {
	return open + strings.ReplaceAll(strings.Join(l, ", "), "\x00", ": ") + closed
}

func compact(l []string, open, closed string) string {
	return open + strings.ReplaceAll(strings.Join(l, ","), "\x00", ":") + closed
}

// lawPairs is how many pairs of a schema and a value the law is held against.
func lawPairs(t testing.TB) int {
	if s := os.Getenv("AGENTD_LAW_PAIRS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 4000
}

// oracle compiles a schema by the library alone, without this package's reading of it.
func oracle(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource("x:y", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("x:y")
	if err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	return s
}

// TestTheLaw: what the check accepts is admitted in its canonical form, and what is admitted
// passes the check, unless a keyword is there that only the check knows.
func TestTheLaw(t *testing.T) {
	var pairs, accepted, drawn, refused, without, widened int
	for seed := uint64(0); pairs < lawPairs(t); seed++ {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 7))}
		body := d.schema(3)
		text := strings.TrimSuffix(body, "}")
		if text != body && len(d.defs) > 0 {
			if text != "{" {
				text += ","
			}
			text += `"$defs":{`
			for i, def := range d.defs {
				text += fmt.Sprintf(`"d%d":%s,`, i, def)
			}
			text = strings.TrimSuffix(text, ",") + "}}"
		} else {
			text = body
		}
		check := oracle(t, text)
		document, err := parse(protocol.Raw(text))
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, text)
		}
		if err := document.Usable(); err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, text)
		}
		spacing, spell := gbnf.DumpsSpacing, dumps
		if seed%2 == 1 {
			spacing, spell = gbnf.AnySpacing, compact
		}
		var grammar *gbnftest.Grammar
		g := gbnf.New(spacing)
		if root, err := document.Add(g, Options{Open: true}); err != nil {
			without++
		} else {
			g.Add("root", root)
			if grammar, err = gbnftest.Parse(g.String()); err != nil {
				t.Fatalf("seed %d: %v in\n%s", seed, err, g)
			}
		}
		if grammar != nil {
			drawer := grammar.Drawer(d.Rand)
			for range 4 {
				admits := protocol.Raw(drawer.Draw("root"))
				if !admits.IsValid() && strings.Contains(string(admits), "{") {
					continue // a name that is not declared, twice: the last one counts
				}
				pairs++
				doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(admits))
				if err != nil {
					t.Fatalf("seed %d: %s admits %q, no JSON: %v\n%s", seed, text, admits, err, g)
				}
				switch {
				case check.Validate(doc) == nil:
					drawn++
				case !d.checked:
					t.Fatalf("seed %d: %s admits %s:\n%s", seed, text, admits, g)
				default:
					widened++
				}
			}
		}
		for range 12 {
			value := protocol.Raw(d.value(2))
			pairs++
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			valid := check.Validate(doc) == nil
			if _, err := document.Validate(value); (err == nil) != valid {
				t.Fatalf("seed %d: the check of %s says %v of %s, the library alone %t", seed, text, err, value, valid)
			}
			admitted := grammar != nil && slices.ContainsFunc(orders(value, spell), func(s string) bool { return grammar.Admits("root", s) })
			switch {
			case valid && !admitted:
				t.Fatalf("seed %d: %s does not admit %s:\n%s", seed, text, value, g)
			case !valid && admitted && !d.checked:
				t.Fatalf("seed %d: %s admits %s:\n%s", seed, text, value, g)
			case valid:
				accepted++
			case admitted:
				widened++
			default:
				refused++
			}
		}
	}
	t.Logf("%d pairs: %d accepted and admitted, %d drawn from grammars and accepted, %d refused by both, %d admitted and refused by the check alone; %d schemas without values", pairs, accepted, drawn, refused, widened, without)
	if accepted < pairs/10 || refused < pairs/10 {
		t.Error("the test shows little")
	}
}

// TestTheLawBetweenTags is the same for a member that stands between tags.
func TestTheLawBetweenTags(t *testing.T) {
	const end = "\n</parameter>\n"
	var pairs, accepted, drawn, refused int
	for seed := uint64(0); pairs < lawPairs(t)/4; seed++ {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 8))}
		member := d.schema(2)
		if d.IntN(2) == 0 { // text is what differs
			member = fmt.Sprintf(`{"type":"string",%s}`, d.one(`"minLength":2`, `"maxLength":2`, `"pattern":"^a"`, `"pattern":"b","maxLength":3`,
				`"enum":["a","</parameter>","\n"]`, `"oneOf":[{"const":"a","title":"A"},{"const":"b"}]`, `"allOf":[{"minLength":1},{"not":{"const":"a"}}]`, `"format":"date"`))
			d.checked = strings.Contains(member, `"not"`) || strings.Contains(member, "format")
		}
		if len(d.defs) > 0 {
			continue
		}
		check := oracle(t, strings.ReplaceAll(member, `"format"`, `"x-format"`))
		document, err := parse(protocol.Raw(`{"type":"object","properties":{"x":` + member + `}}`))
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, member)
		}
		m := document.Member("x")
		var grammar *gbnftest.Grammar
		g := gbnf.New(gbnf.DumpsSpacing)
		if body, err := document.AddMember(g, m, end, Options{Open: true}); err == nil {
			g.Add("root", body)
			if grammar, err = gbnftest.Parse(g.String()); err != nil {
				t.Fatalf("seed %d: %v in\n%s", seed, err, g)
			}
			drawer := grammar.Drawer(d.Rand)
			for range 3 {
				text, ended := strings.CutSuffix(drawer.Draw("root"), end)
				value := protocol.Raw(strings.NewReplacer("True", "true", "False", "false", "None", "null").Replace(text))
				if m.Kind == Text || m.bare && (!value.IsValid() || !m.Fits(value)) {
					value = protocol.String(text)
				}
				if !ended || !value.IsValid() {
					if m.Kind == Text || !ended {
						t.Fatalf("seed %d: %s admits %q:\n%s", seed, member, text, g)
					}
					continue
				}
				pairs++
				doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
				if err != nil {
					t.Fatal(err)
				}
				if drawn++; check.Validate(doc) != nil && !d.checked {
					t.Fatalf("seed %d: %s admits %q:\n%s", seed, member, text, g)
				}
			}
		}
		for range 8 {
			value := protocol.Raw(d.value(1))
			if d.IntN(2) == 0 {
				value = protocol.String(d.text())
			}
			texts := orders(value, dumps)
			if s, isText := protocol.Text(value); isText && (m.Kind == Text || m.bare) {
				texts = []string{s}
				if strings.Contains(s, "</parameter>") && m.Texts == nil {
					continue // not offered, and not read
				}
			} else if m.Kind == Text || m.bare && value.Kind() != 'n' {
				continue
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			pairs++
			_, own := decode(value)
			valid := check.Validate(doc) == nil && own == nil && m.set[0].accepts(value)
			admitted := grammar != nil && slices.ContainsFunc(texts, func(s string) bool { return grammar.Admits("root", s+end) })
			switch {
			case valid && !admitted:
				t.Fatalf("seed %d: %s does not admit %s:\n%s", seed, member, value, g)
			case !valid && admitted && !d.checked:
				t.Fatalf("seed %d: %s admits %s:\n%s", seed, member, value, g)
			case valid:
				accepted++
			default:
				refused++
			}
		}
	}
	t.Logf("%d pairs: %d accepted and admitted, %d drawn and accepted, %d others", pairs, accepted, drawn, refused)
}
