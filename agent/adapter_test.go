package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/protocol"
)

// loaded is a server's adapters, with their ids.
type loaded map[string]int

func (l loaded) Adapter(name string) (agent.Adapter, bool) {
	id, ok := l[name]
	return agent.Adapter{Name: name, ID: 1, Version: fmt.Sprint("v", id)}, ok
}

func (loaded) Names() []string { return []string{"careful", "quick"} }

func TestAdapterOfInputReachesEngineAndStep(t *testing.T) {
	cfg := agent.Config{AlwaysVersion: true, ModelVersion: func(context.Context) (string, error) { return "m1", nil }}
	a := newAgent(t, cfg, nil)
	req := request(t, `{"extra_keys":{"adapter":"quick"}}`, `{"extra_keys":{"adapter":null}}`, `{}`)
	plan, err := a.Prepare(req, loaded{"quick": 7})
	if err != nil {
		t.Fatal(err)
	}
	g := &script{answers: []string{"Hi", "Hi", "Hi"}}
	outs, err := a.Run(t.Context(), plan, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"model_version":"m1","adapter":"quick","adapter_version":"v7"`, `"model_version":"m1"}`, `"model_version":"m1"}`} {
		var step struct {
			Elements struct {
				Generation json.RawMessage `json:"generation"`
			} `json:"input_elements"`
		}
		if err := json.Unmarshal(outs[i].InternalSteps[0], &step); err != nil {
			t.Fatal(err)
		}
		if text := string(step.Elements.Generation); !strings.Contains(text, want) || strings.Contains(text, "adapter") != (i == 0) {
			t.Errorf("input %d: %s, want %s", i, text, want)
		}
	}
	ids := 0
	for _, r := range g.asked { // in any order
		ids += int(r.Adapter)
	}
	if len(g.asked) != 3 || ids != 1 {
		t.Errorf("the engine was asked %d times, for adapters with the sum %d", len(g.asked), ids)
	}
}

func TestSummaryIsOfTheAdapterOfItsInput(t *testing.T) {
	a := summarizing(t, agent.Config{}, nil)
	plan, err := a.Prepare(request(t, `{"memory":`+remembered(200)+`,"extra_keys":{"adapter":"quick"}}`), loaded{"quick": 7})
	if err != nil {
		t.Fatal(err)
	}
	g := newStages("All of it.", "Hi")
	if _, err := a.Run(t.Context(), plan, g); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*script{"summary": &g.summary, "decision": &g.decision} {
		if len(s.asked) != 1 || s.asked[0].Adapter != 1 {
			t.Errorf("the %s was asked of %+v", name, s.asked)
		}
	}
}

func TestSessionOfARunDependsOnItsAdapter(t *testing.T) {
	a := newAgent(t, agent.Config{Sessions: true}, nil)
	sessions := map[string]bool{}
	for _, extra := range []string{`{}`, `{"adapter":null}`, `{"adapter":"quick"}`, `{"adapter":"careful"}`} {
		plan, err := a.Prepare(request(t, `{"extra_keys":`+extra+`}`), loaded{"quick": 7, "careful": 8})
		if err != nil {
			t.Fatal(err)
		}
		g := &script{answers: []string{"Hi"}}
		if _, err := a.Run(t.Context(), plan, g); err != nil {
			t.Fatal(err)
		}
		sessions[g.asked[0].Session] = true
	}
	if len(sessions) != 3 {
		t.Errorf("%d sessions of no adapter and two", len(sessions))
	}
}

func TestUnknownAdapterNamesFieldAndKnownOnes(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	for _, test := range []struct {
		name, input, want string
		adapters          agent.Adapters
	}{
		{"another name", `{"extra_keys":{"adapter":"slow"}}`, "it names no adapter of this server; the adapters are careful, quick", loaded{}},
		{"none loaded", `{"extra_keys":{"adapter":"quick"}}`, "this server has no adapters; start it with one (docs/weights.md)", nil},
		{"a number", `{"extra_keys":{"adapter":1}}`, "it must be the name of an adapter, or null", loaded{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := a.Prepare(request(t, `{}`, test.input), test.adapters)
			var ps protocol.Problems
			if !errors.As(err, &ps) || len(ps) != 1 || !strings.HasPrefix(ps.All(), "body.inputs[1].extra_keys.adapter: ") || !strings.Contains(ps.All(), test.want) {
				t.Errorf("problems %v, want %q", err, test.want)
			}
		})
	}
}
