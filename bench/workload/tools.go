package workload

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"agentd/protocol"
)

// parameter of a tool.
type parameter struct {
	name, kind, description string
	words                   []string // the values of an enum
}

// maxParameters is the most parameters of a tool in toolTable.
const maxParameters = 3

// tool is a robot's tool.
type tool struct {
	name, description string // the description without its full stop
	parameters        []parameter
}

// Parameters that several tools have.
var (
	object = parameter{name: "object", kind: "string", description: "The name of the object."}
	place  = parameter{name: "place", kind: "string", description: "The name of the place."}
	device = parameter{name: "device", kind: "string", description: "The name of the device."}
	person = parameter{name: "person", kind: "string", description: "The name of the person."}
	speed  = parameter{name: "speed", kind: "number", description: "Metres a second, at most 1.5."}
	on     = parameter{name: "on", kind: "boolean", description: "Whether it shall be on."}

	// purpose is the last parameter of every tool: free text of any length.
	purpose = parameter{name: "purpose", kind: "string", description: "Why the robot does this, for the log."}
)

var toolTable = []tool{
	{"go_to", "Drive to a place and stop there", []parameter{place, speed}},
	{"follow_person", "Follow a person at a distance", []parameter{person, speed}},
	{"dock", "Drive to a charging station and connect to it", []parameter{{name: "station", kind: "integer", description: "Number of the station."}}},
	{"stop_moving", "Stop all wheels at once", nil},
	{"turn_by", "Turn on the spot", []parameter{{name: "degrees", kind: "integer", description: "From -180 to 180, clockwise."}}},
	{"pick_up", "Grasp an object and lift it", []parameter{object, {name: "force", kind: "number", description: "Newtons, at most 40."}}},
	{"put_down", "Put the held object down at a place", []parameter{place, {name: "gently", kind: "boolean", description: "Whether it is fragile."}}},
	{"hand_over", "Hold the object out to a person and wait until it is taken", []parameter{person, {name: "timeout", kind: "integer", description: "Seconds to wait."}}},
	{"push", "Push an object along the floor", []parameter{object, {name: "distance", kind: "number", description: "Metres."}}},
	{"open_container", "Open a drawer, a cupboard or a box", []parameter{place}},
	{"close_container", "Close a drawer, a cupboard or a box", []parameter{place}},
	{"pour", "Pour a liquid from the held vessel", []parameter{{name: "into", kind: "string", description: "The vessel to fill."}, {name: "millilitres", kind: "integer", description: "How much."}}},
	{"wipe", "Wipe a surface", []parameter{place, {name: "how", kind: "string", description: "With what.", words: []string{"dry", "wet", "foam"}}}},
	{"switch_device", "Switch a device on or off", []parameter{device, on}},
	{"set_level", "Set the level of a device that has one", []parameter{device, {name: "percent", kind: "integer", description: "From 0 to 100."}}},
	{"read_sensor", "Read a sensor", []parameter{{name: "sensor", kind: "string", description: "What to read.", words: []string{"temperature", "humidity", "light", "noise"}}, place}},
	{"take_picture", "Take a picture with a camera", []parameter{{name: "camera", kind: "string", description: "Which one.", words: []string{"front", "rear", "wrist"}}, {name: "zoom", kind: "integer", description: "From 1 to 8."}}},
	{"scan_code", "Read the bar code of an object", []parameter{object}},
	{"search_for", "Drive around until an object is seen", []parameter{object, place, {name: "minutes", kind: "integer", description: "When to give up."}}},
	{"weigh", "Put an object on the scales and read them", []parameter{object}},
	{"count_objects", "Count the objects of a kind at a place", []parameter{object, place}},
	{"announce", "Say something through the loudspeaker", []parameter{{name: "volume", kind: "integer", description: "From 1 to 10."}}},
	{"call_lift", "Call the lift to a floor", []parameter{{name: "floor", kind: "integer", description: "Number of the floor."}, {name: "direction", kind: "string", description: "Where to go next.", words: []string{"up", "down"}}}},
	{"wait_for", "Wait until something happens", []parameter{{name: "event", kind: "string", description: "What to wait for.", words: []string{"door_open", "person_near", "object_taken"}}, {name: "timeout", kind: "integer", description: "Seconds to wait."}}},
}

// newTools draws n different tools and names the site in their descriptions.
func newTools(r *rand.Rand, n int, site string) []tool {
	pool := slices.Clone(toolTable)
	for i := range pool {
		pool[i].description += " at " + site + "."
	}
	r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	return pool[:n]
}

// raw is the tool in an input's JSON.
func (t *tool) raw() protocol.Raw {
	parameters := protocol.Raw("{}")
	for _, p := range t.parameters {
		parameters = protocol.AppendMember(parameters, p.name, p.schema())
	}
	parameters = protocol.AppendMember(parameters, purpose.name, purpose.schema())
	raw := protocol.AppendMember(nil, "name", protocol.String(t.name))
	raw = protocol.AppendMember(raw, "description", protocol.String(t.description))
	return protocol.AppendMember(raw, "parameters", parameters)
}

func (p *parameter) schema() protocol.Raw {
	raw := protocol.AppendMember(nil, "type", protocol.String(p.kind))
	if p.words != nil {
		raw = protocol.AppendMember(raw, "enum", protocol.AppendElements(nil, quoted(p.words)...))
	}
	return protocol.AppendMember(raw, "description", protocol.String(p.description))
}

// value is a random value of one word.
func (p *parameter) value(r *rand.Rand) protocol.Raw {
	switch {
	case p.words != nil:
		return protocol.String(p.words[r.IntN(len(p.words))])
	case p.kind == "integer":
		return protocol.Raw(strconv.Itoa(1 + r.IntN(100)))
	case p.kind == "number":
		return protocol.Raw(strconv.FormatFloat(float64(1+r.IntN(15))/10, 'f', -1, 64))
	case p.kind == "boolean":
		return protocol.Raw(strconv.FormatBool(r.IntN(2) == 0))
	}
	return protocol.String(vocabulary[r.IntN(len(vocabulary))])
}

// arguments of a call, with the given number of words.
func (t *tool) arguments(r *rand.Rand, words int) protocol.Raw {
	arguments := protocol.Raw("{}")
	for _, p := range t.parameters {
		arguments = protocol.AppendMember(arguments, p.name, p.value(r))
	}
	return protocol.AppendMember(arguments, purpose.name, protocol.String(text(r, words-len(t.parameters), "")))
}

func quoted(list []string) []protocol.Raw {
	raw := make([]protocol.Raw, len(list))
	for i, s := range list {
		raw[i] = protocol.String(s)
	}
	return raw
}
