package llama

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// inGrammar is the schema's root rule as a regular expression. Its grammar must be made of
// literals, classes, groups and repetitions only.
func inGrammar(t *testing.T, schema string) *regexp.Regexp {
	t.Helper()
	grammar, err := SchemaToGrammar([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(grammar) {
		if body, ok := strings.CutPrefix(line, "root ::= "); ok {
			return regexp.MustCompile("^(" + strings.NewReplacer(`"`, "", " ", "", "\n", "").Replace(body) + ")$")
		}
	}
	t.Fatalf("no root in\n%s", grammar)
	return nil
}

// Every number near a bound, or with a digit more or less, is admitted if and only if the
// bounds admit it, and in one spelling.
func TestIntegersWithinBounds(t *testing.T) {
	bounds := []int64{-1234567, -1000, -999, -110, -100, -99, -23, -10, -9, -5, -1, 0, 1, 5, 9, 10, 19, 23, 99, 100, 101, 199, 255, 1000, 1024, 65535, 100000, 9007199254740991}
	var numbers []int64
	for _, b := range bounds {
		for d := int64(-12); d <= 12; d++ {
			numbers = append(numbers, b+d, b/10+d, (b+d)*10)
		}
	}
	check := func(schema string, low, high int64) {
		t.Helper()
		in := inGrammar(t, schema)
		for _, n := range numbers {
			text := strconv.FormatInt(n, 10)
			if got, want := in.MatchString(text), low <= n && n <= high; got != want && len(strings.TrimPrefix(text, "-")) <= 16 {
				t.Fatalf("%s: %d is admitted: %t, by %s", schema, n, got, in)
			}
		}
		for _, text := range []string{"00", "01", "-0", "-01", "+1", "", "-", "1.0"} {
			if in.MatchString(text) {
				t.Fatalf("%s: %q is admitted by %s", schema, text, in)
			}
		}
	}
	// Bounds beyond int64, as JavaScript writes its ends, bound nothing here.
	check(`{"type":"integer","minimum":1,"maximum":9223372036854776000}`, 1, math.MaxInt64)
	check(`{"type":"integer","minimum":0,"maximum":18446744073709551615}`, 0, math.MaxInt64)
	check(`{"type":"integer","minimum":-1.7976931348623157e308,"maximum":99.5}`, math.MinInt64, 99)
	check(`{"type":"integer","exclusiveMinimum":-9223372036854776000,"exclusiveMaximum":10}`, math.MinInt64, 9)
	for i, low := range bounds {
		check(fmt.Sprintf(`{"type":"integer","minimum":%d}`, low), low, math.MaxInt64)
		check(fmt.Sprintf(`{"type":"integer","exclusiveMaximum":%d}`, low), math.MinInt64, low-1)
		for _, high := range bounds[i:] {
			check(fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, low, high), low, high)
		}
	}
}

func TestIntegersOfSeveralPlaces(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	grammar, err := SchemaToGrammar([]byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":100},"b":{"type":["integer","null"],"maximum":-5},
		"c":{"type":"string","pattern":"^\\x37000000000000000000$"},"d":{"const":7000000000000}},"required":["a","b","c","d"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"a": 100, "b": -5, "c": "7000000000000000000", "d": 7000000000000}`:    true,
		`{"a": 1000, "b": null, "c": "7000000000000000000", "d": 7000000000000}`: true,
		`{"a": 15, "b": -5, "c": "7000000000000000000", "d": 7000000000000}`:     false,
		`{"a": 100, "b": -4, "c": "7000000000000000000", "d": 7000000000000}`:    false,
		`{"a": 100, "b": -05, "c": "7000000000000000000", "d": 7000000000000}`:   false,
	} {
		if accepts(t, m, grammar, text) != want {
			t.Errorf("%s is admitted: %t, by\n%s", text, !want, grammar)
		}
	}
}

// What the converter admits in further members' names that is no JSON is gone.
func TestNamesOfFurtherMembers(t *testing.T) {
	const end = `\\\x7F\x00-\x1F] char*`
	for rule, c := range map[string]struct{ body, want string }{
		"other names": {
			`["] ( [a] ([n] ([d] char+ | [^"d] char*) | [^"n] char*) | [é] char+ | [^"aé] char* )? ["]`,
			`["] ( [a] ([n] ([d] char+ | [^"d` + end + `) | [^"n` + end + `) | [é] char+ | [^"aé` + end + ` )? ["]`,
		},
		"names with characters that JSON escapes": {
			`["] ( ["] char+ | [\] ([a] char+ | [^"a] char*) | [^""\] char* )? ["]`,
			`["] ( [^"` + end + ` )? ["]`,
		},
		"names with characters that classes escape": {
			`["] ( [-] char+ | []] char+ | [^] ([a] char+ | [^"a] char*) | [^"-]^] char* )? ["]`,
			`["] ( [\x2D] char+ | [\x5D] char+ | [\x5E] ([a] char+ | [^"a` + end + `) | [^"\x2D\x5D\x5E` + end + ` )? ["]`,
		},
		"the empty name": {`["] (  ) ["]`, `["] ( [^"` + end + ` ) ["]`},
	} {
		t.Run(rule, func(t *testing.T) {
			if got, err := withJSONNames("root-k ::= " + c.body + "\nchar ::= [a]\n"); err != nil || got != "root-k ::= "+c.want+"\nchar ::= [a]\n" {
				t.Errorf("%v, got\n%s want\n%s", err, got, c.want)
			}
		})
	}
	for rule, body := range map[string]string{
		"cut off":                     `["] ( [a] char+`,
		"without other names":         `["] ( [a] char+ )? ["]`,
		"followed by something":       `["] ( [a] char+ | [^"a] char* )? ["] char`,
		"with other exceptions":       `["] ( [a] char+ | [^"b] char* )? ["]`,
		"with a rule of another name": `["] ( [a] char0+ | [^"a] char0* )? ["]`,
	} {
		if _, err := withJSONNames("root-k ::= " + body); err == nil {
			t.Errorf("names %s must be an error", rule)
		}
	}
}

func TestNamesWithMarksOfGrammars(t *testing.T) {
	m := shared(t, synth.GPTOSS)
	grammar, err := SchemaToGrammar([]byte(`{"type":"object","properties":{"ab":{"const":1},"q\"]":{"const":2},"b\\^-":{"const":3}},"additionalProperties":{"const":4}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"ab": 1, "q\"]": 2, "b\\^-": 3, "other": 4}`: true,
		`{"abc": 4}`:    true,
		`{"ab": 4}`:     false,
		"{\"a\nb\": 4}": false,
		`{"a\": 4}`:     false,
	} {
		if accepts(t, m, grammar, text) != want {
			t.Errorf("%s is admitted: %t, by\n%s", text, !want, grammar)
		}
	}
}
