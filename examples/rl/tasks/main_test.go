package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentd/household"
	"agentd/household/dataset"
	"agentd/protocol"
)

func TestEachTaskCallsSeveralRobotsButNotAll(t *testing.T) {
	agent, err := dataset.NewAgent()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(10) {
		e, err := find(t.Context(), seed, household.Options{Busy: true}, memory{agent})
		if err != nil {
			t.Fatal(err)
		}
		in := e.Input()
		if calls := len(e.Expected().ToolCalls); calls < 2 || calls >= len(e.Robots()) {
			t.Errorf("seed %d: %d calls of %d robots", seed, calls, len(e.Robots()))
		}
		if past := e.Score().Decisions; past < 1 || past > longest || !strings.Contains(string(in.Memory), "history") {
			t.Errorf("seed %d: %d decisions before it, memory %s", seed, past, in.Memory)
		}
	}
}

func TestOrdersAreAnsweredInTheirOrder(t *testing.T) {
	agent, err := dataset.NewAgent()
	if err != nil {
		t.Fatal(err)
	}
	e, err := find(t.Context(), 7, household.Options{Busy: true}, memory{agent})
	if err != nil {
		t.Fatal(err)
	}
	right := e.Expected()
	half := protocol.AgentDecision{ToolCalls: right.ToolCalls[:1]}
	var stdin, stdout strings.Builder
	fmt.Fprintln(&stdin, `{"seed":7}`)
	line, err := json.Marshal(map[string]any{"seed": 7, "decisions": []any{right, half, protocol.AgentDecision{Say: "no"}}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&stdin, "%s\n", line)
	if err := serve(t.Context(), household.Options{Busy: true}, strings.NewReader(stdin.String()), &stdout); err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(answer{Input: new(e.Input())})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s\n{\"rewards\":[1,%v,0]}\n", in, 1/float64(len(right.ToolCalls)))
	if stdout.String() != want {
		t.Errorf("got %s, want %s", stdout.String(), want)
	}
}

func TestBadOrdersEndTheProgramWithTheReason(t *testing.T) {
	for line, want := range map[string]string{
		`{"world":"a"}`:                      `unknown field "world"`,
		`{"seed":1,"decisions":[{"say":1}]}`: "decisions[0]",
		`{"seed":-1}`:                        "seed",
	} {
		err := serve(t.Context(), household.Options{}, strings.NewReader(line), new(strings.Builder))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", line, err, want)
		}
	}
}
