package format_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

const placeTool = `{"name":"go_to","parameters":{"type":"object","properties":{"room":{"type":"string"},"fast":{"type":"boolean"}},"required":["room"]}}`

// textWritten is the text of a decision, in segments.
func textWritten(t *testing.T, f format.Format, c *format.Catalog, d protocol.AgentDecision) string {
	t.Helper()
	segments, err := format.Written(f, c, &d)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range segments[0] {
		b.WriteString(s.Text)
	}
	return b.String()
}

func TestWrittenDecisionsAreAdmittedAndReadBack(t *testing.T) {
	call := func(room, robot string) tools.Call {
		return tools.Call{Name: "go_to", Arguments: protocol.Raw(`{"room":"` + room + `","fast":true}`), TargetRobotName: robot}
	}
	decisions := map[string]protocol.AgentDecision{
		"a reply":       {Say: "I am unsure."},
		"a call":        {ToolCalls: []tools.Call{call("hall", "rover")}},
		"two calls":     {ToolCalls: []tools.Call{call("hall", "rover"), call("attic", "scout")}},
		"odd arguments": {ToolCalls: []tools.Call{call(`a \"b\" é`, "scout")}},
	}
	for _, s := range setups {
		for _, form := range format.Forms {
			if s.o.OutputStyle == format.StyleJSON && form != format.FormNative || form == format.FormNamed && s.format == format.Template {
				continue // these have no such form
			}
			if form != format.FormNative {
				s.o.OutputStyle = form
			}
			t.Run(s.name+", "+form, func(t *testing.T) {
				f, k := s.open(t)
				if think, low := f.Effort() == "on", f.Effort() == "low"; think != s.o.EnableThinking || low != (s.format == format.GPTOSS) {
					t.Errorf("the effort is %q", f.Effort())
				}
				c := catalogOf(t, f, []protocol.Raw{protocol.Raw(placeTool)}, "rover", "scout")
				grammar, err := c.Grammar()
				if err != nil {
					t.Fatal(err)
				}
				for name, d := range decisions {
					if s.o.EnableThinking {
						if _, err := format.Written(f, c, &d); !errors.Is(err, format.ErrThinks) {
							t.Errorf("%s: %v", name, err)
						}
						continue
					}
					text := textWritten(t, f, c, d)
					if prefix, ok := admits(t, k, grammar, text); !ok {
						t.Errorf("%s: the grammar stops after %q of %q", name, prefix, text)
					}
					if s.o.OutputStyle == format.StyleJSON && strings.Contains(text, "[") {
						t.Errorf("%s: a prompt shows no list as %q", name, text)
					}
					got, err := f.Parse(text, c)
					if err != nil || got.Say != d.Say || len(got.ToolCalls) != len(d.ToolCalls) {
						t.Fatalf("%s: %q is read as %+v, %v", name, text, got, err)
					}
					texts, _ := format.Written(f, c, &d)
					for _, other := range texts[1:] {
						list := strings.Contains(other[0].Text, "[") // of objects the grammar admits some
						if prefix, ok := admits(t, k, grammar, other[0].Text); list && sameGrammar(s) && !ok {
							t.Errorf("%s: the grammar stops after %q of %q", name, prefix, other[0].Text)
						}
						if again, err := f.Parse(other[0].Text, c); err != nil || len(again.ToolCalls) != len(d.ToolCalls) || other[0].Text == text {
							t.Errorf("%s: %q is read as %+v, %v", name, other[0].Text, again, err)
						}
					}
					want := 1
					if json := form == format.FormBare || form == format.FormFenced; len(d.ToolCalls) > 0 && json && s.format != format.GPTOSS {
						want = 12 / len(d.ToolCalls) // two calls need a list
					}
					if len(texts) != want {
						t.Errorf("%s: %d texts", name, len(texts))
					}
					for i, call := range got.ToolCalls {
						if call.TargetRobotName != d.ToolCalls[i].TargetRobotName || call.Name != "go_to" {
							t.Errorf("%s: %q is read as %+v", name, text, call)
						}
					}
				}
			})
		}
	}
}

func TestWrittenCallsOfUnknownRobotsReadBack(t *testing.T) {
	call := func(robot string) tools.Call {
		return tools.Call{Name: "go_to", Arguments: protocol.Raw(`{"room":"hall"}`), TargetRobotName: robot}
	}
	for _, s := range setups {
		if s.o.EnableThinking {
			continue
		}
		f, _ := s.open(t)
		c := catalogOf(t, f, []protocol.Raw{protocol.Raw(placeTool)})
		text := textWritten(t, f, c, protocol.AgentDecision{ToolCalls: []tools.Call{call("rover"), call("scout")}})
		if d, err := f.Parse(text, c); err != nil || len(d.ToolCalls) != 2 || d.ToolCalls[1].TargetRobotName != "scout" {
			t.Errorf("%s: %q is read as %+v, %v", s.name, text, d, err)
		}
	}
}

func TestWrittenCallsOfAChatNameNoRobot(t *testing.T) {
	for _, s := range setups {
		if s.o.EnableThinking {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			set, err := tools.NormaliseFunctions(&tools.Functions{Raw: []protocol.Raw{protocol.Raw(placeTool)}, OneCall: true})
			if err != nil {
				t.Fatal(err)
			}
			c := f.Catalog(set)
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			text := textWritten(t, f, c, protocol.AgentDecision{ToolCalls: []tools.Call{{Name: "go_to", Arguments: protocol.Raw(`{"room":"hall"}`)}}})
			if prefix, ok := admits(t, k, grammar, text); !ok {
				t.Errorf("the grammar stops after %q of %q", prefix, text)
			}
			if d, err := f.Parse(text, c); err != nil || len(d.ToolCalls) != 1 || string(d.ToolCalls[0].Arguments) != `{"room":"hall"}` {
				t.Errorf("%q is read as %+v, %v", text, d, err)
			}
		})
	}
}

func TestLabelWithoutToolsIsItsText(t *testing.T) {
	for _, s := range setups {
		if s.o.EnableThinking {
			continue
		}
		f, _ := s.open(t)
		if text := textWritten(t, f, nil, protocol.AgentDecision{Say: "A"}); !strings.HasSuffix(text, "A") || s.format != format.GPTOSS && text != "A" {
			t.Errorf("%s: %q", s.name, text)
		}
	}
}

// sameGrammar reports whether the format's own words for arguments and robots agree with the answer.
func sameGrammar(s setup) bool {
	return s.format != format.Llama && s.format != format.Template
}
