package workload

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/memory"
	"agentd/household/dataset"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

var kinds = []string{Synthetic, Household}

func TestSameOptionsGiveTheSameTrace(t *testing.T) {
	for _, kind := range kinds {
		o := small(kind)
		first := file(t, generate(t, o))
		if again := file(t, generate(t, o)); again != first {
			t.Errorf("%s: the same options give another trace", kind)
		}
		o.Seed++
		if other := file(t, generate(t, o)); other == first {
			t.Errorf("%s: another seed gives the same trace", kind)
		}
	}
}

func TestMoreTurnsExtendTheTrace(t *testing.T) {
	for _, kind := range kinds {
		o := small(kind)
		few := generate(t, o)
		o.Turns += 3
		if diff := cmp.Diff(few.Turns, generate(t, o).Turns[:len(few.Turns)]); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

func TestTurnsOfAllAgentsAlternate(t *testing.T) {
	for _, kind := range kinds {
		o := small(kind)
		trace := generate(t, o)
		if len(trace.Turns) != o.Agents*o.Turns {
			t.Fatalf("%s: %d turns", kind, len(trace.Turns))
		}
		for i := range trace.Turns {
			turn := &trace.Turns[i]
			in := decoded(t, turn)
			if turn.Agent != i%o.Agents || turn.Turn != i/o.Agents || turn.Candidates != o.Candidates ||
				in.ID != int64(turn.Agent) || in.NumOutputs != o.Candidates {
				t.Fatalf("%s: line %d is turn %d of agent %d with %d candidates, the id %d", kind, i, turn.Turn, turn.Agent, in.NumOutputs, in.ID)
			}
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
	a, err := dataset.NewAgent()
	if err != nil {
		t.Fatal(err)
	}
	replies := small(Synthetic)
	replies.Tools = 0
	many := small(Synthetic)
	many.Tools, many.Agents, many.Turns = MaxTools, 2, 12
	for rule, o := range map[string]Options{"calls": small(Synthetic), "replies": replies, "all tools": many, "household": small(Household)} {
		t.Run(rule, func(t *testing.T) {
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
					for _, c := range last.Calls {
						d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: c.Name, Arguments: c.Arguments, TargetRobotName: c.Robot})
					}
					answer, err := dataset.Notation(d)
					if err != nil {
						t.Fatal(err)
					}
					plan, err := a.Prepare(&protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{decoded(t, turns[i])}})
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
					if diff := cmp.Diff(string(outs[0].Memory), string(decoded(t, turn).Memory)); diff != "" {
						t.Fatal(diff)
					}
					checked++
				}
			}
			if checked < o.Agents*o.Turns/2 {
				t.Errorf("only %d histories were compared", checked)
			}
		})
	}
}

func TestLengthsAreThoseOfTheOptions(t *testing.T) {
	replies := small(Synthetic)
	replies.Tools = 0
	bare := small(Synthetic)
	bare.SystemWords = 0
	for rule, o := range map[string]Options{"calls": small(Synthetic), "replies": replies, "no rules": bare} {
		t.Run(rule, func(t *testing.T) {
			trace := generate(t, o)
			for i := range trace.Turns {
				turn := &trace.Turns[i]
				in, m := decoded(t, turn), parsed(t, turn)
				want := protocol.InstructionEnv
				if turn.Turn == 0 {
					want = protocol.InstructionUser
				}
				if n := len(strings.Fields(in.Instruction.Content)); n != o.ObservationWords || in.Instruction.Type != want {
					t.Errorf("an instruction of %d words, %s", n, in.Instruction.Type)
				}
				if n := len(strings.Fields(strings.Join(m.Rules, " "))); n != o.SystemWords {
					t.Errorf("%d words of rules", n)
				}
				if len(in.Tools) != o.Tools || len(m.History) != 2*turn.Turn {
					t.Errorf("%d tools and %d entries at turn %d", len(in.Tools), len(m.History), turn.Turn)
				}
				for _, e := range m.History {
					if n := wordsOf(t, e); e.Author == memory.Model && n != o.OutputWords {
						t.Errorf("%d words in %s", n, e.Content)
					}
				}
			}
		})
	}
}

// wordsOf a decision are the words of its reply or of its arguments' values.
func wordsOf(t *testing.T, e memory.Entry) int {
	t.Helper()
	n := len(strings.Fields(e.Say))
	for _, c := range e.Calls {
		for _, v := range protocol.Members(c.Arguments) {
			s, ok := protocol.Text(v)
			if !ok {
				s = string(v)
			}
			n += len(strings.Fields(s))
		}
	}
	return n
}

// TestAgentsOfAGroupShareRulesAndTools, and agents of different groups have not one
// tool or rule in common.
func TestAgentsOfAGroupShareRulesAndTools(t *testing.T) {
	o := small(Synthetic)
	o.Groups = 3
	agents := byAgent(generate(t, o))
	common := func(a, b *Turn) (tools, rules int) {
		x, y := decoded(t, a), decoded(t, b)
		for _, raw := range x.Tools {
			if slices.ContainsFunc(y.Tools, func(other protocol.Raw) bool { return string(other) == string(raw) }) {
				tools++
			}
		}
		for _, rule := range parsed(t, a).Rules {
			if slices.Contains(parsed(t, b).Rules, rule) {
				rules++
			}
		}
		return tools, rules
	}
	if tools, rules := common(agents[0][0], agents[3][1]); tools != o.Tools || rules != len(parsed(t, agents[0][0]).Rules) {
		t.Errorf("agents of a group share %d tools and %d rules", tools, rules)
	}
	if string(decoded(t, agents[0][0]).Attributes) != string(decoded(t, agents[3][1]).Attributes) {
		t.Error("agents of a group know other robots")
	}
	if tools, rules := common(agents[0][0], agents[1][0]); tools != 0 || rules != 0 {
		t.Errorf("agents of different groups share %d tools and %d rules", tools, rules)
	}
	if decoded(t, agents[0][0]).Instruction == decoded(t, agents[3][0]).Instruction {
		t.Error("agents of a group are told the same")
	}
}

// TestHouseholdFollowsThePlanner, from one conversation to the next.
func TestHouseholdFollowsThePlanner(t *testing.T) {
	o := small(Household)
	o.Turns = 30
	begun := 0
	for _, turns := range byAgent(generate(t, o)) {
		for i, turn := range turns {
			in := decoded(t, turn)
			if len(in.Tools) == 0 || in.Instruction.Content == "" {
				t.Fatalf("turn %d asks nothing: %s", i, turn.Input)
			}
			if history := parsed(t, turn).History; len(history) == 0 {
				begun++
			} else if last := decoded(t, turns[i-1]).Instruction.Content; history[len(history)-2].Content != last {
				t.Fatalf("turn %d follows %q, not %q", i, history[len(history)-2].Content, last)
			}
		}
	}
	if begun <= o.Agents {
		t.Errorf("%d conversations of %d agents: none came to an end in %d turns", begun, o.Agents, o.Turns)
	}
	// The first decision of the first agent, reported to the house, brings the second turn.
	trace := generate(t, o)
	first, second := decoded(t, &trace.Turns[0]), decoded(t, &trace.Turns[o.Agents])
	house := newHousehold(&o, 0)(0).(*housemate).episode
	if in := house.Input(); in.Instruction != first.Instruction {
		t.Errorf("the first turn is %q, not %q", first.Instruction.Content, in.Instruction.Content)
	}
	house.Apply(house.Expected(), second.Memory)
	if in := house.Input(); in.Instruction != second.Instruction {
		t.Errorf("the second turn is %q, not %q", second.Instruction.Content, in.Instruction.Content)
	}
}

func TestToolsAreDifferentAndUsable(t *testing.T) {
	o := small(Synthetic)
	o.Tools, o.Agents, o.Groups, o.Turns = MaxTools, 1, 1, 1
	names := map[string]bool{}
	for _, raw := range decoded(t, &generate(t, o).Turns[0]).Tools {
		var tool struct {
			Name, Description string
			Parameters        map[string]struct{ Type, Description string }
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		if names[tool.Name] || tool.Description == "" || len(tool.Parameters) > maxParameters+1 || tool.Parameters[purpose.name].Type != "string" {
			t.Errorf("%s", raw)
		}
		names[tool.Name] = true
	}
	if len(names) != MaxTools {
		t.Errorf("%d tools", len(names))
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`kind is "robots"; it must be synthetic or household`:    func(o *Options) { o.Kind = "robots" },
		"agents is 0; it must be from 1 to":                      func(o *Options) { o.Agents = 0 },
		"turns is -1; it must be from 1 to":                      func(o *Options) { o.Turns = -1 },
		"agents times turns is 134217728; it must be at most":    func(o *Options) { o.Agents, o.Turns = 1<<15, 1<<12 },
		"candidates is 257; it must be from 1 to 256":            func(o *Options) { o.Candidates = 257 },
		"groups is 6; it must be from 1 to 5":                    func(o *Options) { o.Groups = 6 },
		"groups is 2; without tools and system_words all groups": func(o *Options) { o.Tools, o.SystemWords = 0, 0 },
		"tools is 25; it must be from 0 to 24":                   func(o *Options) { o.Tools = 25 },
		"system_words is -1; it must be from 0 to":               func(o *Options) { o.SystemWords = -1 },
		"observation_words is 0; it must be from 1 to":           func(o *Options) { o.ObservationWords = 0 },
		"output_words is 3; it must be from 4 to":                func(o *Options) { o.OutputWords = 3 },
		"tools and words are for the kind synthetic":             func(o *Options) { o.Kind = Household },
	} {
		o := small(Synthetic)
		change(&o)
		if _, err := Generate(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, not %q", err, want)
		}
	}
}

func TestLargeTracesAreRefused(t *testing.T) {
	o := small(Synthetic)
	if _, err := generateWithin(o, 1<<30, 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := generateWithin(o, 1000, 1<<30); err == nil || !strings.Contains(err.Error(), "more than a request may have: use fewer turns, tools or words") {
		t.Errorf("got %v", err)
	}
	if _, err := generateWithin(o, 1<<30, 20_000); err == nil || !strings.Contains(err.Error(), "the trace has more than 20000 bytes at turn ") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultsAreUsable(t *testing.T) {
	for _, kind := range kinds {
		o := Defaults(kind)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
