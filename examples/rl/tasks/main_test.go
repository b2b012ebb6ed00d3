package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/household"
	"agentd/household/dataset"
	"agentd/protocol"
)

func TestEachTaskCallsSeveralRobotsButNotAll(t *testing.T) {
	agent, err := dataset.NewAgent(agent.ConstrainOn)
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
	agent, err := dataset.NewAgent(agent.ConstrainOn)
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

func TestTextsEarnWhatTheirDecisionsDo(t *testing.T) {
	agent, err := dataset.NewAgent(agent.ConstrainOn)
	if err != nil {
		t.Fatal(err)
	}
	e, err := find(t.Context(), 7, household.Options{Busy: true}, memory{agent})
	if err != nil {
		t.Fatal(err)
	}
	right, err := dataset.Notation(e.Expected())
	if err != nil {
		t.Fatal(err)
	}
	texts, err := json.Marshal([]string{right, "no", "<tool_call>", right})
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	stdin := `{"seed":7,"texts":` + string(texts) + `}{"seed":7,"request":{"request_id":"r","input":1,"candidates":3}}`
	if err := serve(t.Context(), household.Options{Busy: true}, strings.NewReader(stdin), &stdout); err != nil {
		t.Fatal(err)
	}
	var got, asked answer
	answers := json.NewDecoder(strings.NewReader(stdout.String()))
	if err := errors.Join(answers.Decode(&got), answers.Decode(&asked)); err != nil {
		t.Fatal(err)
	}
	if want := []float64{1, 0, 0, 1}; !slices.Equal(got.Rewards, want) {
		t.Errorf("rewards %v, want %v", got.Rewards, want)
	}
	if !strings.HasPrefix(asked.Prompt, "<|im_start|>system\n") || !strings.HasSuffix(asked.Prompt, "assistant\n") || !strings.Contains(asked.Grammar, "root ::=") || len(asked.Seeds) != 3 {
		t.Errorf("the engine is asked for %+v", asked)
	}
}

func TestBadOrdersEndTheProgramWithTheReason(t *testing.T) {
	for line, want := range map[string]string{
		`{"world":"a"}`:                      `unknown field "world"`,
		`{"seed":1,"decisions":[{"say":1}]}`: "decisions[0]",
		`{"seed":-1}`:                        "seed",
		`{"seed":1,"texts":[]}`:              "at least 1",
		`{"seed":1,"request":{"n":1}}`:       `unknown field "n"`,
	} {
		err := serve(t.Context(), household.Options{}, strings.NewReader(line), new(strings.Builder))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", line, err, want)
		}
	}
}
