package household

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/agent/tools"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func describe(t *testing.T) *Description {
	t.Helper()
	d, err := Describe()
	if err != nil {
		t.Fatal(err)
	}
	return d
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
	unlock  = "arm unlock furniture=cupboard code=7419"
	open    = "arm open furniture=cupboard"
	kitchen = "rover go_to room=kitchen"
	living  = "rover go_to room=living_room"
	takeCup = "rover pick_up object=cup"
	toTable = "rover put_down furniture=table"
)

func TestTheTaskCanBeDone(t *testing.T) {
	h := New(describe(t))
	for _, c := range []string{unlock, open, kitchen, takeCup, living, toTable} {
		if h.Done() {
			t.Fatalf("done before %q", c)
		}
		if report, err := h.Do(call(c)); err != nil || report == "" {
			t.Fatalf("%s: %q, %v", c, report, err)
		}
	}
	if want := "The rover is in the living room and holds nothing. The cupboard is open. The cup is on the table. The plate is in the cupboard."; !h.Done() || h.String() != want {
		t.Errorf("got %s", h.String())
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
		{[]string{unlock}, unlock, "not locked"},
		{nil, "rover open furniture=cupboard", "can't open doors"},
		{nil, "arm open furniture=table", "Only the cupboard"},
		{nil, open, "cupboard is locked"},
		{[]string{unlock, open}, open, "open already"},
		{nil, "arm pick_up object=cup", "can't carry"},
		{nil, "rover pick_up object=table", `no "table"`},
		{[]string{kitchen}, takeCup, "the cupboard is locked"},
		{[]string{kitchen, unlock}, takeCup, "the cupboard is shut"},
		{[]string{unlock, open}, takeCup, "in the kitchen, the rover is in the hall"},
		{[]string{unlock, open, kitchen, takeCup}, "rover pick_up object=plate", "no second gripper"},
		{[]string{unlock, open, kitchen, takeCup, living, toTable, kitchen}, takeCup, "on the table in the living room"},
		{nil, "arm put_down furniture=table", "holds nothing"},
		{nil, toTable, "holds nothing"},
		{[]string{unlock, open, kitchen, takeCup}, "rover put_down furniture=floor", `on "floor"`},
		{[]string{unlock, open, kitchen, takeCup}, toTable, "in the living room"},
		{[]string{unlock, open, kitchen, takeCup, living}, "rover put_down furniture=cupboard", "in the kitchen"},
	}
	for _, test := range tests {
		t.Run(test.call+" fails with "+test.want, func(t *testing.T) {
			h := New(describe(t))
			for _, c := range test.before {
				if _, err := h.Do(call(c)); err != nil {
					t.Fatalf("%s: %v", c, err)
				}
			}
			before := h
			report, err := h.Do(call(test.call))
			if err == nil || !strings.Contains(err.Error(), test.want) || report != "" {
				t.Errorf("got %q, %v", report, err)
			}
			if h != before {
				t.Errorf("%s became %s", before.String(), h.String())
			}
		})
	}
}

func TestAnArgumentThatIsNoTextIsAFailure(t *testing.T) {
	h := New(describe(t))
	_, err := h.Do(protocol.ToolCall{Name: "go_to", Arguments: protocol.Raw(`{"room":["kitchen"]}`), TargetRobotName: "rover"})
	if err == nil {
		t.Error("a list is a room")
	}
}

func TestAgentsCanUseTheTools(t *testing.T) {
	d := describe(t)
	set, err := tools.Normalise(d.Tools, []string{"rover", "arm"}, "robot")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{unlock, open, kitchen, takeCup, toTable} {
		c := call(c)
		if _, err := set.Accept(c.Name, c.Arguments, c.TargetRobotName); err != nil {
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

// player is household.py, doing one call a line.
const player = `
import json, sys
import household
house = household.House()
for line in sys.stdin:
    try:
        said = house.do(json.loads(line))
    except household.Failure as failure:
        said = "FAILED " + str(failure)
    print(json.dumps([said, str(house), house.done()]))
`

func TestTheHouseInPythonIsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"hall", "kitchen", "living room", "cupboard", "table", "cup", "plate", "7419", "0000", ""}
	names := []string{"room", "furniture", "code", "object"}
	good := []string{unlock, open, kitchen, living, takeCup, toTable, "rover pick_up object=plate", "rover put_down furniture=cupboard"}

	h := New(describe(t))
	var calls bytes.Buffer
	var want []string
	succeeded := 0
	for range 3000 {
		c := call(good[random.IntN(len(good))])
		if random.IntN(3) == 0 {
			c.Arguments = protocol.SetMember(c.Arguments, names[random.IntN(len(names))], protocol.String(words[random.IntN(len(words))]))
		}
		if random.IntN(6) == 0 {
			c.TargetRobotName = []string{"rover", "arm", "butler"}[random.IntN(3)]
		}
		if random.IntN(12) == 0 {
			c.Name = "fly"
		}
		calls.Write(c.AppendJSON(nil))
		calls.WriteByte('\n')
		said, err := h.Do(c)
		if err != nil {
			said = "FAILED " + err.Error()
		} else {
			succeeded++
		}
		line, err := json.Marshal([]any{said, h.String(), h.Done()})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(line))
	}
	if succeeded < 300 {
		t.Fatalf("only %d calls succeeded; the test shows little", succeeded)
	}

	python := exec.CommandContext(t.Context(), "python3", "-B", "-c", player)
	python.Dir = ".." // where household.py lies
	python.Stdin = &calls
	out, err := python.Output()
	if err != nil {
		t.Fatalf("python3 is needed for this test: %v", err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d", len(got), len(want))
	}
	for i := range want {
		var a, b []any
		if json.Unmarshal([]byte(got[i]), &a) != nil || json.Unmarshal([]byte(want[i]), &b) != nil || !equal(a, b) {
			t.Fatalf("call %d: Python %s, Go %s", i, got[i], want[i])
		}
	}
}

func equal(a, b []any) bool {
	return len(a) == len(b) && a[0] == b[0] && a[1] == b[1] && a[2] == b[2]
}
