package coaching_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/tools"
	"agentd/protocol"
)

// description is house.json.
type description struct {
	Task, Hint, Code string
	Rules            []string
	Tools            []protocol.Raw
	Attributes       protocol.Raw
}

func describe(t *testing.T) (d description) {
	t.Helper()
	text, err := os.ReadFile("house.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// script runs Python that defines answer, which gets and gives one JSON value a line.
func script(t *testing.T, source string) (ask func(in []byte, out any)) {
	t.Helper()
	const loop = "\nimport json, sys\nfor line in sys.stdin:\n    print(json.dumps(answer(json.loads(line))), flush=True)\n"
	python := exec.CommandContext(t.Context(), "python3", "-B", "-c", source+loop) // beside household.py
	in, err := python.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := python.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := python.Start(); err != nil {
		t.Fatalf("python3 is needed for this test: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = python.Wait() // it was killed at the end of the test
	})
	answers := bufio.NewScanner(out)
	return func(value []byte, into any) {
		t.Helper()
		if _, err := in.Write(append(value, '\n')); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("the script ended: %v", answers.Err())
		}
		if err := json.Unmarshal(answers.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
}

// world runs household.py.
type world func(in []byte, out any)

// state is one of the house's.
type state struct {
	values string // JSON
	text   string
	done   bool
}

func open(t *testing.T) world {
	t.Helper()
	return script(t, `
import household

def answer(asked):
    state, call = asked
    house, said, failed = household.House(), "", False
    vars(house).update(state)
    try:
        said = house.do(call) if call else ""
    except household.Failure as failure:
        said, failed = str(failure), True
    return [vars(house), str(house), house.done(), said, failed]
`)
}

// fresh is the house before the task.
func (w world) fresh() state {
	s, _, _ := w.send(state{values: "{}"}, "null")
	return s
}

// do carries out a call in a state.
func (w world) do(s state, call protocol.ToolCall) (next state, said string, failed bool) {
	return w.send(s, string(call.AppendJSON(nil)))
}

func (w world) send(s state, call string) (next state, said string, failed bool) {
	var values json.RawMessage
	w([]byte("["+s.values+","+call+"]"), &[]any{&values, &next.text, &next.done, &said, &failed})
	next.values = string(values)
	return next, said, failed
}

// call makes a call of "robot tool name=value name=value".
func call(text string) protocol.ToolCall {
	words := strings.Split(text, " ")
	arguments := protocol.Raw(`{}`)
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		arguments = protocol.SetMember(arguments, name, protocol.String(strings.ReplaceAll(value, "_", " ")))
	}
	return protocol.ToolCall{Name: words[1], Arguments: arguments, TargetRobotName: words[0]}
}

const (
	unlocks      = "arm unlock furniture=cupboard code=7419"
	opens        = "rover open furniture=cupboard"
	kitchen      = "rover go_to room=kitchen"
	lounge       = "rover go_to room=lounge"
	takeMedicine = "rover pick_up object=medicine"
	toTable      = "rover put_down furniture=table"
)

func TestTheTaskCanBeDone(t *testing.T) {
	w := open(t)
	h := w.fresh()
	for _, c := range []string{unlocks, kitchen, opens, takeMedicine, lounge, toTable} {
		if h.done {
			t.Fatalf("done before %q", c)
		}
		next, said, failed := w.do(h, call(c))
		if failed || said == "" {
			t.Fatalf("%s: %q, %v", c, said, failed)
		}
		h = next
	}
	if want := "The rover is in the lounge and holds nothing. The cupboard is open. The medicine is on the table. The plate is in the cupboard."; !h.done || h.text != want {
		t.Errorf("got %s", h.text)
	}
}

func TestACallThatFailsSaysWhyAndChangesNothing(t *testing.T) {
	tests := []struct {
		before []string
		call   string
		want   string // part of the sentence
	}{
		{nil, "butler go_to room=hall", "no robot butler"},
		{nil, "rover fly room=hall", "no tool fly"},
		{nil, "arm go_to room=hall", "can't drive"},
		{nil, "rover go_to room=attic", `no room "attic"`},
		{nil, "rover go_to", `no room ""`},
		{nil, "rover go_to room=hall", "in the hall already"},
		{nil, "rover unlock furniture=cupboard code=7419", "can't work a lock"},
		{nil, "arm unlock furniture=table code=7419", "Only the cupboard"},
		{nil, "arm unlock furniture=cupboard code=0000", `does not take the code "0000"`},
		{[]string{unlocks}, unlocks, "not locked"},
		{nil, "arm open furniture=cupboard", "can't open doors"},
		{nil, "rover open furniture=table", "Only the cupboard"},
		{nil, opens, "in the kitchen, the rover is in the hall"},
		{[]string{kitchen}, opens, "cupboard is locked"},
		{[]string{unlocks, kitchen, opens}, opens, "open already"},
		{nil, "arm pick_up object=medicine", "can't carry"},
		{nil, "rover pick_up object=table", `no "table"`},
		{[]string{kitchen}, takeMedicine, "the cupboard is locked"},
		{[]string{kitchen, unlocks}, takeMedicine, "the cupboard is shut"},
		{[]string{unlocks, kitchen, opens, "rover go_to room=hall"}, takeMedicine, "in the kitchen, the rover is in the hall"},
		{[]string{unlocks, kitchen, opens, takeMedicine}, "rover pick_up object=plate", "no second gripper"},
		{[]string{unlocks, kitchen, opens, takeMedicine, lounge, toTable, kitchen}, takeMedicine, "on the table in the lounge"},
		{nil, "arm put_down furniture=table", "holds nothing"},
		{nil, toTable, "holds nothing"},
		{[]string{unlocks, kitchen, opens, takeMedicine}, "rover put_down furniture=floor", `on "floor"`},
		{[]string{unlocks, kitchen, opens, takeMedicine}, toTable, "in the lounge"},
		{[]string{unlocks, kitchen, opens, takeMedicine, lounge}, "rover put_down furniture=cupboard", "in the kitchen"},
	}
	w := open(t)
	for _, test := range tests {
		t.Run(test.call+" fails with "+test.want, func(t *testing.T) {
			h := w.fresh()
			for _, c := range test.before {
				next, _, failed := w.do(h, call(c))
				if failed {
					t.Fatal(c)
				}
				h = next
			}
			next, said, failed := w.do(h, call(test.call))
			if !failed || !strings.Contains(said, test.want) {
				t.Errorf("got %q, %v", said, failed)
			}
			if diff := cmp.Diff(h.values, next.values); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnArgumentThatIsNoTextIsAFailure(t *testing.T) {
	w := open(t)
	c := protocol.ToolCall{Name: "go_to", Arguments: protocol.Raw(`{"room":["kitchen"]}`), TargetRobotName: "rover"}
	if _, _, failed := w.do(w.fresh(), c); !failed {
		t.Error("a list is a room")
	}
}

func TestAgentsCanUseTheTools(t *testing.T) {
	d := describe(t)
	set, err := tools.Normalise(d.Tools, []string{"rover", "arm"}, "robot")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{unlocks, kitchen, opens, takeMedicine, toTable} {
		c := call(c)
		if _, err := set.Accept(c.Name, c.Arguments, protocol.String(c.TargetRobotName)); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestOnlyTheHintHasTheCode(t *testing.T) {
	d := describe(t)
	told, err := json.Marshal([]any{d.Task, d.Rules, d.Tools, d.Attributes})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(told, []byte(d.Code)) || !strings.Contains(d.Hint, d.Code) {
		t.Error("the agent can know the code, or the coach can't")
	}
}
