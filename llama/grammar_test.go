package llama

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/llama/synth"
)

func chain(n int, last string) string {
	var b strings.Builder
	b.WriteString("root ::= r0\n")
	for i := range n {
		fmt.Fprintf(&b, "r%d ::= r%d\n", i, i+1)
	}
	fmt.Fprintf(&b, "r%d ::= %s\n", n, last)
	return b.String()
}

// doubling has two alternatives in each of n rules: 2 to the n paths to the first terminal.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("root ::= r0\n")
	for i := range n {
		fmt.Fprintf(&b, "r%d ::= r%d | r%d \"x\"\n", i, i+1, i+1)
	}
	fmt.Fprintf(&b, "r%d ::= \"a\"\n", n)
	return b.String()
}

var badGrammars = []struct{ rule, want, gbnf string }{
	{"only a comment", "no rules", "# nothing\n"},
	{"no root", `no rule "root"`, `a ::= "x"`},
	{"a missing rule is named", `"b" is used but not defined`, `root ::= "a" b`},
	{"no definition sign", "::=", `root "a"`},
	{"an open literal", "end of input", `root ::= "abc`},
	{"an open class", "end of input", `root ::= [abc`},
	{"an open group", "')'", `root ::= ("a"`},
	{"a stray closing bracket", "expecting", `root ::= "a")`},
	{"a repetition of nothing", "preceding", `root ::= *`},
	{"an unknown escape", "escape", `root ::= "\q"`},
	{"bad UTF-8", "UTF-8", "root ::= \"\xff\""},
	{"a NUL", "NUL", "root ::= \"a\x00b\""},
	{"direct left recursion", "left recursive", `root ::= root "a" | "b"`},
	{"indirect left recursion", "left recursive", "root ::= a\na ::= b \"x\"\nb ::= a | \"y\""},
	{"left recursion after an empty rule", "left recursive", "root ::= a root \"x\" | \"y\"\na ::= b\nb ::= \"\" | \"z\""},
	{"left recursion after an optional item", "left recursive", `root ::= "a"? root "b" | "c"`},
	{"bounds in the wrong order", "below", `root ::= "a"{5,2}`},
	{"a huge lower bound", "more than 2000", `root ::= "a"{5000}`},
	{"a huge upper bound is not dropped", "more than 2000", `root ::= "a"{0,5000}`},
	{"a bound beyond every integer", "not a number", `root ::= "a"{99999999999999999999999}`},
	{"a bound that is no number", "not a number", `root ::= "a"{x}`},
	{"repetitions of repeated rules", "sane defaults", `root ::= ("a"{0,100}){0,100}`},
	{"a long literal many times", "elements", `root ::= "` + strings.Repeat("x", 100000) + `"{2000}`},
	{"deep nesting", "deep", "root ::= " + strings.Repeat("(", 10000) + `"a"` + strings.Repeat(")", 10000)},
	{"too many rules", "rules", chain(30000, `"a"`)},
	{"too many bytes", "bytes", "root ::= " + strings.Repeat(" ", MaxGrammarBytes)},
	{"too many ways to begin", "ways", doubling(40)},
	{"too many alternatives", "ways", "root ::= " + strings.Repeat(`"a" | `, 20000) + `"b"`},
}

// checkGrammar makes a sampler with a grammar.
func checkGrammar(m *Model, gbnf string) error {
	s, err := m.NewSampler(SamplerConfig{Grammar: gbnf})
	if err != nil {
		return err
	}
	return s.Close()
}

func TestBadGrammars(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, tc := range badGrammars {
		t.Run(tc.rule, func(t *testing.T) {
			for range 2 { // a grammar that was refused is not known to be good
				err := checkGrammar(m, tc.gbnf)
				if !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v does not say %q", err, tc.want)
				}
				if err != nil && len(err.Error()) > 2*maxErrorText {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			}
		})
	}
	for _, gbnf := range []string{`root ::= <no such token>`, `root ::= <[9999999]>`, `root ::= <two tokens>`} {
		if err := checkGrammar(m, gbnf); !errors.Is(err, ErrGrammar) {
			t.Errorf("%s: %v", gbnf, err)
		}
	}
}

func TestGoodGrammars(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, gbnf := range []string{
		`root ::= "a"`,
		"# comment ( [ \"\nroot ::= [^\\]\"] \"]\" \")\" # more (((\n",
		`root ::= "(((" [(\[] (("a" | "b"){2,3} "c"?)* .`,
		"root ::= a-b\r\na-b ::=\n  \"x\" |\n  \"y\"\n",
		`root ::= "é🤖\x41\u00e9\U0001F916" [α-ω]{2000}`,
		`root ::= <[5]> !<[6]> "x"`,
		"root ::= x\nx ::= \"a\" x | \"\"", // right recursion
		`root ::= (("a"{100}){100}){100}`,
		chain(MaxGrammarRules-10, `"a"`),
		doubling(11),
		"root ::= " + strings.Repeat("(", MaxGrammarNesting-1) + `"a"` + strings.Repeat(")", MaxGrammarNesting-1),
		`root ::= "a"{0,2000}`,
	} {
		if err := checkGrammar(m, gbnf); err != nil {
			t.Errorf("%.60q: %v", gbnf, err)
		}
	}
}

func FuzzGrammar(f *testing.F) {
	m := shared(f, synth.Qwen3)
	for _, tc := range badGrammars {
		if len(tc.gbnf) < 1000 {
			f.Add(tc.gbnf)
		}
	}
	f.Add(`root ::= ("a" | [b-d]{1,3} x)* .
x ::= "e"+ | root`)
	f.Fuzz(func(t *testing.T, gbnf string) {
		if len(gbnf) > 2000 {
			t.Skip()
		}
		if err := checkGrammar(m, gbnf); err != nil && !errors.Is(err, ErrGrammar) {
			t.Fatal(err)
		}
	})
}
