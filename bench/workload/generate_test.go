package workload

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/household/dataset"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func TestSameOptionsGiveTheSameTrace(t *testing.T) {
	o := small()
	first := hash(t, generate(t, o))
	if again := hash(t, generate(t, o)); again != first {
		t.Error("the same options give another trace")
	}
	o.Seed++
	if other := hash(t, generate(t, o)); other == first {
		t.Error("another seed gives the same trace")
	}
}

func TestMoreTurnsExtendTheTrace(t *testing.T) {
	o := small()
	few := generate(t, o)
	o.Turns += 3
	if diff := cmp.Diff(few.Turns, generate(t, o).Turns[:len(few.Turns)]); diff != "" {
		t.Error(diff)
	}
}

func TestTurnsOfAllAgentsAlternate(t *testing.T) {
	o := small()
	trace := generate(t, o)
	if len(trace.Turns) != o.Agents*o.Turns {
		t.Fatalf("%d turns", len(trace.Turns))
	}
	for i := range trace.Turns {
		turn := &trace.Turns[i]
		in := turn.Input
		if turn.Agent != i%o.Agents || turn.Turn != i/o.Agents || turn.Candidates != o.Candidates ||
			in.ID != int64(turn.Agent) || in.NumOutputs != o.Candidates {
			t.Fatalf("line %d is turn %d of agent %d with %d candidates, the id %d", i, turn.Turn, turn.Agent, in.NumOutputs, in.ID)
		}
	}
}

// writer is a model that writes one answer.
type writer string

func (w writer) GenerateAll(_ context.Context, requests []generation.Request, done func(int, *generation.Result, error)) {
	for i := range requests {
		r := new(generation.Result)
		for range requests[i].N {
			r.Completions = append(r.Completions, generation.Completion{Text: string(w), Finish: generation.FinishStop})
		}
		done(i, r, nil)
	}
}

func (writer) Keep(int) {}

// TestHistoryEqualsTheAgentsOwn: the agent, whose model writes the
// scripted decision, takes it as a valid one and gives back the memory of the next turn.
func TestHistoryEqualsTheAgentsOwn(t *testing.T) {
	a, err := dataset.NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	o := small()
	o.Turns = 12
	checked := 0
	for _, turns := range byAgent(generate(t, o)) {
		for i, turn := range turns[1:] {
			m := parsed(t, turn)
			if len(m.History) == 0 { // another conversation of a household
				continue
			}
			var d protocol.AgentDecision
			last := m.History[len(m.History)-1]
			d.Say = last.Say
			d.ToolCalls = last.Calls
			answer, err := dataset.Notation(d)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := a.Prepare(&protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{turns[i].Input}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			outs, err := a.Run(t.Context(), plan, writer(answer))
			if err != nil {
				t.Fatal(err)
			}
			if outs[0].Error != nil {
				t.Fatalf("%s: %s", answer, outs[0].Error.Message)
			}
			if diff := cmp.Diff(string(outs[0].Memory), string(turn.Input.Memory)); diff != "" {
				t.Fatal(diff)
			}
			checked++
		}
	}
	if checked < o.Agents*o.Turns/2 {
		t.Errorf("only %d histories were compared", checked)
	}
}

func TestAgentsOfAGroupShareTheHouse(t *testing.T) {
	o := small()
	o.Groups = 3
	agents := byAgent(generate(t, o))
	tools := func(agent int) string { return fmt.Sprintf("%s", agents[agent][0].Input.Tools) }
	if tools(0) != tools(3) {
		t.Error("agents of a group have other tools")
	}
	if tools(0) == tools(1) {
		t.Error("agents of different groups have the same tools")
	}
	if agents[0][0].Input.Instruction == agents[3][0].Input.Instruction {
		t.Error("agents of a group are told the same")
	}
}

// TestHouseholdFollowsThePlanner, from one conversation to the next.
func TestHouseholdFollowsThePlanner(t *testing.T) {
	o := small()
	o.Turns = 30
	begun := 0
	for _, turns := range byAgent(generate(t, o)) {
		for i, turn := range turns {
			in := turn.Input
			if len(in.Tools) == 0 || in.Instruction.Content == "" {
				t.Fatalf("turn %d asks nothing: %+v", i, turn.Input)
			}
			if history := parsed(t, turn).History; len(history) == 0 {
				begun++
			} else if last := turns[i-1].Input.Instruction.Content; history[len(history)-2].Content != last {
				t.Fatalf("turn %d follows %q, not %q", i, history[len(history)-2].Content, last)
			}
		}
	}
	if begun <= o.Agents {
		t.Errorf("%d conversations of %d agents: none came to an end in %d turns", begun, o.Agents, o.Turns)
	}
	// The first decision of the first agent, reported to the house, brings the second turn.
	trace := generate(t, o)
	first, second := trace.Turns[0].Input, trace.Turns[o.Agents].Input
	house := newHousehold(&o, 0)(0).episode
	if in := house.Input(); in.Instruction != first.Instruction {
		t.Errorf("the first turn is %q, not %q", first.Instruction.Content, in.Instruction.Content)
	}
	house.Apply(house.Expected(), second.Memory)
	if in := house.Input(); in.Instruction != second.Instruction {
		t.Errorf("the second turn is %q, not %q", second.Instruction.Content, in.Instruction.Content)
	}
}

func TestMoreGroupsThanAgentsAreAsMany(t *testing.T) {
	o := small()
	o.Groups = o.Agents
	want := hash(t, generate(t, o))
	if o.Groups++; hash(t, generate(t, o)) != want {
		t.Error("another group changes the trace")
	}
}

func TestLargeTracesAreRefused(t *testing.T) {
	o := small()
	if _, err := generateWithin(o, 1<<30, 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := generateWithin(o, 1000, 1<<30); err == nil || !strings.Contains(err.Error(), "more than a request may have: use fewer turns") {
		t.Errorf("got %v", err)
	}
	if _, err := generateWithin(o, 1<<30, 20_000); err == nil || !strings.Contains(err.Error(), "the trace has more than 20000 bytes at turn ") {
		t.Errorf("got %v", err)
	}
}
