// Package household simulates a small task for two robots: a cup has to be
// brought from a locked cupboard to a table. Each tool has preconditions; a call
// that breaks one changes nothing and fails with a sentence that says why.
// Nothing is random.
//
// household.py, beside this package, is the same house in Python. Both read
// house.json, and a test holds them against each other.
package household

import (
	_ "embed" // for house.json
	"encoding/json"
	"fmt"

	"agentd/protocol"
)

//go:embed house.json
var description []byte

// Description is house.json: what is said about the house, and to whom.
type Description struct {
	Task       string         `json:"task"`       // for the agent; it says nothing of the lock's code
	Rules      []string       `json:"rules"`      // for the agent, the memory that it begins with
	Hint       string         `json:"hint"`       // for the coach only: the code
	Code       string         `json:"code"`       // for nobody, the lock knows it
	Tools      []protocol.Raw `json:"tools"`      // as an AgentInput takes them
	Attributes protocol.Raw   `json:"attributes"` // as an AgentInput takes them
}

// Describe reads house.json.
func Describe() (*Description, error) {
	var d Description
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, fmt.Errorf("house.json: %w", err)
	}
	return &d, nil
}

// House is the state of the house. It is a plain value: a copy of it is a
// snapshot to return to.
type House struct {
	Room     string // where the rover is: hall, kitchen or living room
	Holds    string // what the rover holds: cup, plate or nothing
	Cupboard string // locked, shut or open
	Cup      string // where it is: cupboard, table or rover
	Plate    string // the same
	code     string // of the cupboard's lock
}

// New is the house before the task.
func New(d *Description) House {
	return House{Room: "hall", Holds: "nothing", Cupboard: "locked", Cup: "cupboard", Plate: "cupboard", code: d.Code}
}

// Done reports whether the cup is where it should be.
func (h *House) Done() bool { return h.Cup == "table" }

// String says how things stand. The scripted coach reads these sentences.
func (h *House) String() string {
	return fmt.Sprintf("The rover is in the %s and holds %s. The cupboard is %s. The cup is %s. The plate is %s.",
		h.Room, the(h.Holds), h.Cupboard, where[h.Cup], where[h.Plate])
}

var where = map[string]string{"cupboard": "in the cupboard", "table": "on the table", "rover": "with the rover"}

// A Failure says why a call failed.
type Failure string

// Error is the sentence.
func (f Failure) Error() string { return string(f) }

// Do carries out one call and reports what happened. The error is a Failure.
func (h *House) Do(call protocol.ToolCall) (report string, err error) {
	robot := call.TargetRobotName
	if robot != "rover" && robot != "arm" {
		return "", fail("There is no robot %s, only the rover and the arm.", robot)
	}
	switch call.Name {
	case "go_to":
		return h.goTo(robot, argument(call, "room"))
	case "unlock":
		return h.unlock(robot, argument(call, "furniture"), argument(call, "code"))
	case "open":
		return h.openDoor(robot, argument(call, "furniture"))
	case "pick_up":
		return h.pickUp(robot, argument(call, "object"))
	case "put_down":
		return h.putDown(robot, argument(call, "furniture"))
	}
	return "", fail("There is no tool %s.", call.Name)
}

func (h *House) goTo(robot, room string) (string, error) {
	switch {
	case robot != "rover":
		return "", fail("The arm is fixed to the kitchen worktop and can't drive.")
	case room != "hall" && room != "kitchen" && room != "living room":
		return "", fail("There is no room %q; there are hall, kitchen and living room.", room)
	case room == h.Room:
		return "", fail("The rover is in the %s already.", room)
	}
	h.Room = room
	return "The rover is in the " + room + ".", nil
}

func (h *House) unlock(robot, furniture, code string) (string, error) {
	switch {
	case robot != "arm":
		return "", fail("The rover can't work a lock, the arm can.")
	case furniture != "cupboard":
		return "", fail("Only the cupboard has a lock.")
	case h.Cupboard != "locked":
		return "", fail("The cupboard is not locked.")
	case code != h.code:
		return "", fail("The lock of the cupboard does not take the code %q.", code)
	}
	h.Cupboard = "shut"
	return "The arm has unlocked the cupboard.", nil
}

func (h *House) openDoor(robot, furniture string) (string, error) {
	switch {
	case robot != "arm":
		return "", fail("The rover can't open doors, the arm can.")
	case furniture != "cupboard":
		return "", fail("Only the cupboard can be opened.")
	case h.Cupboard == "locked":
		return "", fail("The cupboard is locked. It has to be unlocked with its code.")
	case h.Cupboard == "open":
		return "", fail("The cupboard is open already.")
	}
	h.Cupboard = "open"
	return "The arm has opened the cupboard.", nil
}

func (h *House) pickUp(robot, object string) (string, error) {
	switch {
	case robot != "rover":
		return "", fail("The arm can't carry, the rover can.")
	case object != "cup" && object != "plate":
		return "", fail("There is no %q to pick up; there are cup and plate.", object)
	case h.Holds != "nothing":
		return "", fail("The rover holds the %s and has no second gripper.", h.Holds)
	case *h.place(object) == "table" && h.Room != "living room":
		return "", fail("The %s is on the table in the living room, the rover is in the %s.", object, h.Room)
	case *h.place(object) == "cupboard" && h.Cupboard != "open":
		return "", fail("The rover can't see the %s; the cupboard is %s.", object, h.Cupboard)
	case *h.place(object) == "cupboard" && h.Room != "kitchen":
		return "", fail("The %s is in the cupboard in the kitchen, the rover is in the %s.", object, h.Room)
	}
	*h.place(object) = "rover"
	h.Holds = object
	return "The rover holds the " + object + ".", nil
}

func (h *House) putDown(robot, furniture string) (string, error) {
	switch {
	case robot != "rover":
		return "", fail("The arm holds nothing, and can't.")
	case h.Holds == "nothing":
		return "", fail("The rover holds nothing.")
	case furniture != "table" && furniture != "cupboard":
		return "", fail("Things can't be put on %q; there are the table and the cupboard.", furniture)
	case furniture == "table" && h.Room != "living room":
		return "", fail("The table is in the living room, the rover is in the %s.", h.Room)
	case furniture == "cupboard" && h.Room != "kitchen":
		return "", fail("The cupboard is in the kitchen, the rover is in the %s.", h.Room)
	case furniture == "cupboard" && h.Cupboard != "open":
		return "", fail("The cupboard is %s.", h.Cupboard)
	}
	object := h.Holds
	*h.place(object) = furniture
	h.Holds = "nothing"
	return fmt.Sprintf("The %s is %s.", object, where[furniture]), nil
}

// place is where the house keeps the place of an object.
func (h *House) place(object string) *string {
	if object == "cup" {
		return &h.Cup
	}
	return &h.Plate
}

// argument is an argument's text, empty when the call has none of that name.
func argument(call protocol.ToolCall, name string) string {
	raw, _ := protocol.Get(call.Arguments, name)
	text, _ := protocol.Text(raw)
	return text
}

func the(object string) string {
	if object == "nothing" {
		return object
	}
	return "the " + object
}

func fail(format string, args ...any) error { return Failure(fmt.Sprintf(format, args...)) }
