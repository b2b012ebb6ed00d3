//go:build !race

package format_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/llama"
	"agentd/protocol"
)

// simpleCall is a call of a tool with one argument that says little.
type simpleCall struct{ tool, value, robot string }

// writers are how models write calls in each form.
var writers = map[string]func(calls []simpleCall) string{
	"hermes": func(calls []simpleCall) string {
		return blocks(calls, func(c simpleCall) string {
			return fmt.Sprintf(`{"name": "%s", "arguments": {"value": "%s", "target_robot": %s}}`, c.tool, c.value, quoted(c.robot))
		})
	},
	"tagged": func(calls []simpleCall) string {
		return blocks(calls, func(c simpleCall) string {
			return "<function=" + c.tool + ">\n<parameter=value>\n" + c.value + "\n</parameter>\n<parameter=target_robot>\n" + c.robot + "\n</parameter>\n</function>"
		})
	},
	"gpt-oss": func(calls []simpleCall) string {
		if len(calls) == 1 {
			return fmt.Sprintf(` to=functions.%s<|channel|>commentary json<|message|>{"value": "%s", "target_robot": %s}`, calls[0].tool, calls[0].value, quoted(calls[0].robot))
		}
		return ` to=functions.call_in_parallel<|channel|>commentary json<|message|>{"calls": [` + joined(calls, func(c simpleCall) string {
			return fmt.Sprintf(`{"name": "%s", "arguments": {"value": "%s"}, "target_robot": %s}`, c.tool, c.value, quoted(c.robot))
		}) + "]}"
	},
	"llama": func(calls []simpleCall) string {
		list := make([]string, len(calls))
		for i, c := range calls {
			list[i] = fmt.Sprintf(`{"name": "%s", "parameters": {"value": "%s", "target_robot": %s}}`, c.tool, c.value, quoted(c.robot))
		}
		return strings.Join(list, "; ")
	},
	"blocks": func(calls []simpleCall) string {
		return "<think>\nx</think>\n\n<tool_call>\n" + action(calls) + "\n</tool_call>"
	},
	"json": func(calls []simpleCall) string { return `{"say": "", "action": ` + action(calls) + `}` },
}

func joined(calls []simpleCall, write func(simpleCall) string) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = write(c)
	}
	return strings.Join(list, ", ")
}

func blocks(calls []simpleCall, write func(simpleCall) string) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = "<tool_call>\n" + write(c) + "\n</tool_call>"
	}
	return strings.Join(list, "\n")
}

func action(calls []simpleCall) string {
	list := joined(calls, func(c simpleCall) string {
		return fmt.Sprintf(`{%s: {"name": "%s", "arguments": {"value": "%s"}}}`, quoted(c.robot), c.tool, c.value)
	})
	if len(calls) > 1 {
		list = "[" + list + "]"
	}
	return list
}

// simpleTool takes one of a few values.
func simpleTool(name string, values ...string) protocol.Raw {
	return protocol.Raw(fmt.Sprintf(`{"name":"%s","description":"D","parameters":{"type":"object","properties":{"value":{"enum":["%s"]}},"required":["value"]}}`,
		name, strings.Join(values, `","`)))
}

// TestOneCallForEachRobot: of random decisions a grammar admits those whose robots
// are distinct, and the parser takes the same ones; with any, both take all.
func TestOneCallForEachRobot(t *testing.T) {
	// Some begin like others, and one is spelled like a value and like a rule.
	names := []string{"r", "r1", "r10", "arm", "Küche", "robot", "a", "robotplace0"}
	for _, s := range setups {
		write := writers[s.name]
		if write == nil {
			continue
		}
		for _, each := range []string{format.CallsOne, format.CallsAny} {
			t.Run(s.name+", "+each, func(t *testing.T) {
				s.o.CallsPerRobot = each
				f, k := s.open(t)
				rng := rand.New(rand.NewPCG(3, 3))
				distinct, twice := 0, 0
				for range 25 {
					rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
					robots := names[:1+rng.IntN(5)]
					raw := []protocol.Raw{simpleTool("go", "a", "b"), simpleTool("go_on", "a", "robotplace0"), simpleTool("wait", "a")}[:1+rng.IntN(3)]
					c := catalogOf(t, f, raw, robots...)
					grammar, err := c.Grammar()
					if err != nil {
						t.Fatal(err)
					}
					for range 12 {
						calls := make([]simpleCall, 1+rng.IntN(min(len(robots)+1, 4)))
						for i := range calls {
							calls[i] = simpleCall{[]string{"go", "go_on", "wait"}[rng.IntN(len(raw))], "a", robots[rng.IntN(len(robots))]}
						}
						robotsOf, callsOf := map[string]bool{}, map[simpleCall]bool{}
						for _, call := range calls {
							robotsOf[call.robot], callsOf[call] = true, true
						}
						ok := len(robotsOf) == len(calls) || each == format.CallsAny && len(callsOf) == len(calls)
						if len(calls) > 1 && ok {
							distinct++
						} else if !ok {
							twice++
						}
						if s.name == "gpt-oss" && len(calls) > len(robots) {
							continue // it has no more calls at once than there are robots
						}
						answer := write(calls)
						if prefix, admitted := admits(t, k, grammar, answer); admitted != ok {
							t.Errorf("for %q %q is admitted: %t, up to %q, in\n%s", robots, answer, admitted, prefix, grammar)
						}
						d, err := f.Parse(answer, c)
						if ok && (err != nil || len(d.ToolCalls) != len(calls)) {
							t.Errorf("Parse(%q) = %+v, %v", answer, d, err)
						}
						if want := map[string]string{format.CallsOne: "two calls", format.CallsAny: "twice"}[each]; !ok && (err == nil || !strings.Contains(err.Error(), want)) {
							t.Errorf("Parse(%q) = %+v, %v, want an error with %q", answer, d, err, want)
						}
					}
				}
				if distinct < 20 || each == format.CallsOne && twice < 20 {
					t.Errorf("only %d decisions of several calls, and %d with a robot twice: the test shows little", distinct, twice)
				}
			})
		}
	}
}

// TestNoiseNamesEachRobotOnce lets a model that wants nothing but calls write at
// random: it never comes to where nothing may follow, and each robot is named once.
func TestNoiseNamesEachRobotOnce(t *testing.T) {
	robots := []string{"r", "r1", "r10"}
	named := regexp.MustCompile(`r[0-9]*`)
	for _, s := range setups {
		if writers[s.name] == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			c := catalogOf(t, f, []protocol.Raw{simpleTool("go", "a", "b"), simpleTool("go_on", "a")}, robots...)
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if s.name == "llama" { // whose calls and replies may begin with a brace
				grammar = rooted(grammar, "calls")
			}
			v := k.model.Vocab()
			counts := map[int]int{}
			for seed := range uint64(30) {
				rng := rand.New(rand.NewPCG(seed, 1))
				sampler, err := k.model.NewSampler(llama.SamplerConfig{Grammar: grammar, Temperature: 1, Seed: uint32(seed), SuppressControl: f.SuppressControl()})
				if err != nil {
					t.Fatal(err)
				}
				tokens := begin(t, k, sampler, s.name)
				logits := make([]float32, v.Size())
				for len(tokens) < 500 {
					for i := range logits {
						logits[i] = float32(rng.NormFloat64())
						if v.IsEOG(llama.Token(i)) {
							logits[i] -= 2
						}
					}
					token, err := sampler.Sample(logits)
					if err != nil {
						t.Fatalf("seed %d: %v after %q", seed, err, v.Detokenize(tokens, true))
					}
					if v.IsEOG(token) {
						break
					}
					tokens = append(tokens, token)
				}
				sampler.Close()
				answer := v.Detokenize(tokens, true)
				d, err := f.Parse(answer, c)
				if err != nil {
					t.Fatalf("Parse(%q): %v", answer, err)
				}
				var seen []string
				for _, call := range d.ToolCalls {
					if slices.Contains(seen, call.TargetRobotName) || !named.MatchString(call.TargetRobotName) {
						t.Fatalf("%q names %s again", answer, call.TargetRobotName)
					}
					seen = append(seen, call.TargetRobotName)
				}
				counts[len(seen)]++
			}
			if several := counts[2] + counts[3]; several == 0 {
				t.Errorf("decisions by their number of calls: %v: the test shows little", counts)
			}
		})
	}
}

// begin lets the answer begin with a call: no reply may follow.
func begin(t *testing.T, k *kit, s *llama.Sampler, setup string) []llama.Token {
	t.Helper()
	text := map[string]string{
		"hermes": "<tool_call>", "tagged": "<tool_call>", "llama": "{", "gpt-oss": " to=functions.call_in_parallel<|channel|>commentary json",
		"blocks": "<think>\nx</think>\n\n<tool_call>\n[", "json": `{"say": "", "action": [`,
	}[setup]
	tokens, err := k.model.Vocab().Tokenize(text, false, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if err := s.Accept(token); err != nil {
			t.Fatal(err)
		}
	}
	return tokens
}

// TestMoreRobotsThanMarks: the grammar admits each of many robots, and the check
// decides where it has no mark.
func TestMoreRobotsThanMarks(t *testing.T) {
	s := setups[0]
	f, k := s.open(t)
	robots := make([]string, 70)
	for i := range robots {
		robots[i] = fmt.Sprintf("r%d", i)
	}
	c := catalogOf(t, f, []protocol.Raw{simpleTool("go", "a")}, robots...)
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		first, second     string
		admitted, decided bool
	}{
		{"r3", "r4", true, true}, {"r3", "r69", true, true}, {"r63", "r63", false, false}, {"r69", "r69", true, false},
	} {
		answer := writers[s.name]([]simpleCall{{"go", "a", test.first}, {"go", "a", test.second}})
		if _, ok := admits(t, k, grammar, answer); ok != test.admitted {
			t.Errorf("%s and %s: admitted %t", test.first, test.second, ok)
		}
		if _, err := f.Parse(answer, c); (err == nil) != test.decided {
			t.Errorf("%s and %s: %v", test.first, test.second, err)
		}
	}
}

// TestRobotsThatNoGrammarKnowsAreChecked: also the one that a call leaves out.
func TestRobotsThatNoGrammarKnowsAreChecked(t *testing.T) {
	s := setups[0]
	f, k := s.open(t)
	c := catalogOf(t, f, []protocol.Raw{simpleTool("go", "a", "b")})
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	same := writers[s.name]([]simpleCall{{"go", "a", "x"}, {"go", "b", "x"}})
	if prefix, ok := admits(t, k, grammar, same); !ok {
		t.Errorf("the grammar stops after %q", prefix)
	}
	without := "<tool_call>\n{\"name\": \"go\", \"arguments\": {\"value\": \"a\"}}\n</tool_call>"
	for answer, want := range map[string]string{
		same: `the robot "x" has two calls, of go and go`,
		without + "\n" + writers[s.name]([]simpleCall{{"go", "a", "robot"}}): `the robot "robot" has two calls`,
		without + "\n" + writers[s.name]([]simpleCall{{"go", "a", "x"}}):     "",
	} {
		if _, err := f.Parse(answer, c); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %q", answer, err, want)
		}
	}
}

// TestRecursiveArgumentsHoldNoRobot: only the call itself names one.
func TestRecursiveArgumentsHoldNoRobot(t *testing.T) {
	tool := protocol.Raw(`{"name":"go","description":"D","parameters":{"type":"object","properties":{"then":{"$ref":"#"}}}}`)
	f, k := setups[0].open(t)
	c := catalogOf(t, f, []protocol.Raw{tool}, "arm")
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]bool{
		`{"then": {"then": {}}, "target_robot": "arm"}`:            true,
		`{"then": {"target_robot": "arm"}, "target_robot": "arm"}`: false,
	} {
		call := "<tool_call>\n{\"name\": \"go\", \"arguments\": " + arguments + "}\n</tool_call>"
		if prefix, ok := admits(t, k, grammar, call); ok != want {
			t.Errorf("%s is admitted: %t, up to %q", arguments, ok, prefix)
		}
	}
}

func TestAnUnknownWayToCountCallsIsAnError(t *testing.T) {
	for _, s := range setups {
		s.o.ModelAPI = newKit(t, s.arch, madeTemplate)
		s.o.CallsPerRobot = "two"
		if _, err := format.New(s.format, s.o); err == nil || !strings.Contains(err.Error(), `calls_per_robot "two" is unknown; use one or any`) {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
