package workload

import (
	"testing"

	"go.uber.org/goleak"

	"agentd/agent/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small are options that make a trace of a few turns.
func small() Options {
	return Options{Seed: 1, Agents: 5, Turns: 4, Groups: 2, Candidates: 3}
}

func generate(t testing.TB, o Options) *Trace {
	t.Helper()
	trace, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func hash(t testing.TB, trace *Trace) string {
	t.Helper()
	sum, err := trace.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// parsed is a turn's memory.
func parsed(t testing.TB, turn *Turn) *memory.Memory {
	t.Helper()
	m, problems := memory.Parse(turn.Input.Memory, "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// byAgent are the turns of each agent.
func byAgent(trace *Trace) [][]*Turn {
	var list [][]*Turn
	for i := range trace.Turns {
		t := &trace.Turns[i]
		if t.Agent == len(list) {
			list = append(list, nil)
		}
		list[t.Agent] = append(list[t.Agent], t)
	}
	return list
}
