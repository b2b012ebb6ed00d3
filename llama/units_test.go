//go:build !race

package llama

import (
	"fmt"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// unitText is a mark of units as a grammar writes it; native/grammar/matcher.h defines its number.
func unitText(i int) string { return fmt.Sprintf("<[%d]>", 0x7FFF0100+i) }

// callsOf is a grammar of calls, of which there are seven.
func callsOf(begin, end, next string) string {
	return `root ::= call ( ` + next + ` "\n" call ){0,15}
call ::= "<tool_call>\n" ` + begin + ` "{\"name\": \"" tool ` + end + ` "}\n</tool_call>"
tool ::= "stop\", \"arguments\": {" space "}" | "light\", \"arguments\": {\"on\":" space ( "true" | "false" ) "}" | ` +
		`"go_to\", \"arguments\": {\"room\": \"" ( "hall" | "kitchen" ) "\"}" | "lift\", \"arguments\": {\"floor\": " ( "1" | "12" ) "}"
space ::= " "?`
}

// TestCallIsNotRepeatedInOneText: a model that ends only where it must writes each call once.
func TestCallIsNotRepeatedInOneText(t *testing.T) {
	repeated := 0
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS} {
		m := shared(t, arch)
		c := newContext(t, m, SetContext(2048))
		for i, cfg := range []SamplerConfig{{}, {Temperature: 1}, {Temperature: 2, TopK: 20}, {Temperature: 1.5, TopP: 0.9}} {
			for seed := range uint32(2) {
				cfg.Seed = seed
				for _, forces := range []bool{true, false} {
					cfg.Grammar = callsOf(unitText(0), unitText(1), unitText(2))
					calls := writeCalls(t, c, cfg, forces)
					if different(calls) != 7 || len(calls) != 7 {
						t.Errorf("%s, sampler %d, seed %d, forced %t: %q, want each of the 7 calls once", arch, i, seed, forces, calls)
					}
				}
				cfg.Grammar = callsOf("", "", "")
				if calls := writeCalls(t, c, cfg, true); different(calls) < len(calls) {
					repeated++
				}
			}
		}
	}
	if repeated < 12 {
		t.Errorf("without marks only %d texts repeated a call: the test shows little", repeated)
	}
}

// writeCalls has a model write a text to its end and returns its calls.
func writeCalls(t *testing.T, c *Context, cfg SamplerConfig, forces bool) []string {
	t.Helper()
	v, s := c.model.Vocab(), newSampler(t, c.model, cfg)
	row := feed(t, c, 0, tokenize(t, c.model, "Do it."))
	defer c.Memory().Remove(0, -1, -1)
	var ends []Token
	for t := range Token(v.Size()) {
		if v.IsEOG(t) {
			ends = append(ends, t)
		}
	}
	var text []Token
	for range 2000 {
		var tokens []Token
		if forces {
			forced, end, err := s.Force(nil)
			if err != nil {
				t.Fatal(err)
			}
			if tokens = forced; end >= 0 {
				return calls(v, append(text, tokens...))
			}
		}
		if len(tokens) == 0 {
			for _, t := range ends {
				row[t] = -1000
			}
			token := mustSample(t, s, row)
			if v.IsEOG(token) {
				return calls(v, text)
			}
			tokens = []Token{token}
		}
		text = append(text, tokens...)
		row = feed(t, c, 0, tokens)
	}
	t.Fatalf("%q does not end", v.Detokenize(text, true))
	return nil
}

func calls(v *Vocab, text []Token) []string {
	whole := strings.TrimSuffix(strings.TrimPrefix(v.Detokenize(text, true), "<tool_call>\n"), "\n</tool_call>")
	return strings.Split(whole, "\n</tool_call>\n<tool_call>\n")
}

// different is how many of the calls differ in more than white space.
func different(calls []string) int {
	set := map[string]bool{}
	for _, call := range calls {
		set[strings.ReplaceAll(call, " ", "")] = true
	}
	return len(set)
}

func TestUnitMarksStandBeforeCharacters(t *testing.T) {
	m := shared(t, synth.Qwen3)
	if _, err := m.NewSampler(SamplerConfig{Grammar: "root ::= " + unitText(0) + ` [a-z] "."`}); err == nil ||
		!strings.Contains(err.Error(), "does not stand before a literal") {
		t.Errorf("a class after a mark: %v", err)
	}
	if _, err := m.NewSampler(SamplerConfig{Grammar: "root ::= " + unitText(3) + ` "a"`}); err == nil ||
		!strings.Contains(err.Error(), "not in the vocabulary") {
		t.Errorf("a fourth mark: %v", err)
	}
}
