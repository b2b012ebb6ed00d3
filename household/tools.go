package household

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"agentd/protocol"
)

// role is the meaning of an argument.
type role int

const (
	roleRoom role = iota
	roleThing
	rolePlace
	roleBox
	roleDevice
	roleOn
	roleOpen
	roleNumber
	roles int = iota
)

// parameter of a tool. words are the two texts of a state, true first; without
// them it is a boolean.
type parameter struct {
	role        role
	name        string
	description string
	words       []string
}

// tool is a tool of the agent. A tool with two ops has a state parameter that selects
// one.
type tool struct {
	name        string
	description string
	ops         []op
	on          []bool // of opSwitch: what the tool can switch to
	parameters  []parameter
}

// toolbox is the vocabulary of tools of a group.
type toolbox struct{ tools []tool }

// Sizes of a toolbox, but of those that are cut.
const minTools, maxTools = 4, 7

// cut leaves one to three tools: the one for moving and others.
func (b *toolbox) cut(r *rand.Rand) {
	others := slices.DeleteFunc(slices.Clone(b.tools), func(t tool) bool {
		return len(t.ops) == 0 || t.ops[0] == opGo || len(t.on) == 1 // half of a pair
	})
	b.tools = slices.DeleteFunc(b.tools, func(t tool) bool { return len(t.ops) == 0 || t.ops[0] != opGo })
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	b.tools = append(b.tools, others[:min(len(others), r.IntN(minTools-1))]...)
	r.Shuffle(len(b.tools), func(i, j int) { b.tools[i], b.tools[j] = b.tools[j], b.tools[i] })
}

// newToolbox draws the tools of a group: always those for moving, mostly those for
// carrying, containers and devices, split or merged.
func newToolbox(r *rand.Rand, o Options) *toolbox {
	b := &toolbox{}
	m := &maker{rand: r, names: o.ToolNames, invented: oneOf(r, []int{0, 50, 100})}
	if o.Plain || o.Split == Eval && o.ToolNames == Known {
		m.invented = 0
	}
	if o.Split == Train && !o.Plain {
		m.mixed = oneOf(r, []int{0, 0, 50})
	}
	m.add(b, toolGo, []op{opGo}, nil, roleRoom)
	if r.IntN(4) > 0 {
		m.add(b, toolLook, []op{opLook}, nil)
	}
	carries := r.IntN(8) > 0
	if carries {
		m.add(b, toolPick, []op{opPick}, nil, roleThing)
		if r.IntN(3) == 0 {
			m.add(b, toolPut, []op{opPut}, nil, roleThing, rolePlace)
		} else {
			m.add(b, toolPut, []op{opPut}, nil, rolePlace)
		}
	}
	switch r.IntN(5) {
	case 0:
	case 1, 2:
		m.add(b, toolDoor, []op{opOpen, opClose}, nil, roleBox, roleOpen)
	default:
		m.add(b, toolOpen, []op{opOpen}, nil, roleBox)
		m.add(b, toolClose, []op{opClose}, nil, roleBox)
	}
	switch r.IntN(5) {
	case 0:
	case 1, 2:
		m.add(b, toolSwitch, []op{opSwitch}, []bool{true, false}, roleDevice, roleOn)
	default:
		if len(b.tools)+2 <= maxTools {
			m.add(b, toolOn, []op{opSwitch}, []bool{true}, roleDevice)
			m.add(b, toolOff, []op{opSwitch}, []bool{false}, roleDevice)
		}
	}
	if len(b.tools) < maxTools && r.IntN(3) > 0 {
		m.add(b, toolSet, []op{opSet}, nil, roleDevice, roleNumber)
	}
	for len(b.tools) < minTools || len(b.tools) < maxTools && r.IntN(4) == 0 && !o.Lesson {
		m.distract(b)
	}
	r.Shuffle(len(b.tools), func(i, j int) { b.tools[i], b.tools[j] = b.tools[j], b.tools[i] })
	return b
}

// maker words the tools of one toolbox.
type maker struct {
	rand     *rand.Rand
	names    ToolNames
	invented int // percent of the names that are made-up words
	mixed    int // percent of the others that are mixed of two of training
	used     []string
}

func (m *maker) add(b *toolbox, kind int, o []op, on []bool, list ...role) {
	w := toolWordings[kind]
	t := tool{description: oneOf(m.rand, w.descriptions), ops: o, on: on}
	for t.name == "" || slices.Contains(m.used, t.name) {
		switch {
		case m.rand.IntN(100) < m.invented:
			t.name = invent(m.rand, Split(m.names))
		case m.names == Unseen:
			t.name = oneOf(m.rand, w.unseen)
		case m.mixed > 0 && m.rand.IntN(100) < m.mixed:
			t.name = mixedName(m.rand)
		default:
			t.name = oneOf(m.rand, w.names)
		}
	}
	m.used = append(m.used, t.name)
	for _, r := range list {
		t.parameters = append(t.parameters, m.parameter(t.parameters, r))
	}
	if m.rand.IntN(4) == 0 {
		slices.Reverse(t.parameters)
	}
	b.tools = append(b.tools, t)
}

// parameter words a parameter with its own name.
func (m *maker) parameter(others []parameter, r role) parameter {
	w := parameterWords[r]
	p := parameter{role: r, description: oneOf(m.rand, w.descriptions)}
	for p.name == "" || slices.ContainsFunc(others, func(o parameter) bool { return o.name == p.name }) {
		p.name = oneOf(m.rand, w.names)
	}
	if m.rand.IntN(2) == 0 {
		switch r {
		case roleOn:
			p.words = []string{"on", "off"}
		case roleOpen:
			p.words = []string{"open", "closed"}
		}
	}
	return p
}

func (m *maker) distract(b *toolbox) {
	d := oneOf(m.rand, distractors)
	name := d.name
	if m.rand.IntN(100) < m.invented {
		name = invent(m.rand, Split(m.names))
	}
	if slices.ContainsFunc(b.tools, func(t tool) bool { return t.description == d.description || t.name == name }) {
		return
	}
	t := tool{name: name, description: d.description}
	if d.parameter != "" {
		t.parameters = []parameter{{role: -1, name: d.parameter, description: "What."}}
	}
	b.tools = append(b.tools, t)
}

// can reports whether an operation has a tool.
func (b *toolbox) can(o op) bool {
	return slices.ContainsFunc(b.tools, func(t tool) bool { return slices.Contains(t.ops, o) })
}

// raw are the tools in the form of an input.
func (b *toolbox) raw() []protocol.Raw {
	list := make([]protocol.Raw, len(b.tools))
	for i := range b.tools {
		t := &b.tools[i]
		parameters := protocol.Raw("{}")
		for _, p := range t.parameters {
			parameters = protocol.AppendMember(parameters, p.name, p.schema())
		}
		raw := protocol.AppendMember(protocol.Raw("{}"), "name", protocol.String(t.name))
		raw = protocol.AppendMember(raw, "description", protocol.String(t.description))
		list[i] = protocol.AppendMember(raw, "parameters", parameters)
	}
	return list
}

func (p *parameter) schema() protocol.Raw {
	kind := "string"
	switch {
	case p.words != nil:
	case p.role == roleOn || p.role == roleOpen:
		kind = "boolean"
	case p.role == roleNumber:
		kind = "integer"
	}
	raw := protocol.AppendMember(protocol.Raw("{}"), "type", protocol.String(kind))
	if p.words != nil {
		raw = protocol.AppendMember(raw, "enum", protocol.Raw(fmt.Sprintf(`["%s","%s"]`, p.words[0], p.words[1])))
	}
	return protocol.AppendMember(raw, "description", protocol.String(p.description))
}

// call is an action in the words of the toolbox.
func (b *toolbox) call(a action) protocol.ToolCall {
	for i := range b.tools {
		t := &b.tools[i]
		if slices.Contains(t.ops, a.op) && (t.on == nil || slices.Contains(t.on, a.on)) {
			arguments := protocol.Raw("{}")
			for _, p := range t.parameters {
				arguments = protocol.AppendMember(arguments, p.name, p.value(a))
			}
			return protocol.ToolCall{Name: t.name, Arguments: arguments, TargetRobotName: a.robot}
		}
	}
	return protocol.ToolCall{} // the planner asks can before
}

func (p *parameter) value(a action) protocol.Raw {
	state := a.on
	switch p.role {
	case roleNumber:
		return protocol.Raw(strconv.Itoa(a.value))
	case roleThing:
		if a.op == opPut {
			return protocol.String(a.thing)
		}
		return protocol.String(a.target)
	case roleOpen:
		state = a.op == opOpen
	case roleOn:
	default:
		return protocol.String(a.target)
	}
	if p.words == nil {
		return protocol.Raw(strconv.FormatBool(state))
	}
	if state {
		return protocol.String(p.words[0])
	}
	return protocol.String(p.words[1])
}

// action decodes a call. The error is about a call that is wrong or does nothing here.
func (b *toolbox) action(c protocol.ToolCall) (action, error) {
	a := action{robot: c.TargetRobotName}
	i := slices.IndexFunc(b.tools, func(t tool) bool { return t.name == c.Name })
	if i < 0 {
		return a, fmt.Errorf("there is no tool %s", c.Name)
	}
	t := &b.tools[i]
	if len(t.ops) == 0 {
		return a, fmt.Errorf("%s changes nothing", c.Name)
	}
	a.op = t.ops[0]
	if len(t.on) == 1 {
		a.on = t.on[0]
	}
	for _, p := range t.parameters {
		v, ok := protocol.Get(c.Arguments, p.name)
		if !ok || !p.read(&a, v) {
			return a, fmt.Errorf("the argument %s is wrong", p.name)
		}
	}
	return a, nil
}

// read decodes an argument.
func (p *parameter) read(a *action, v protocol.Raw) bool {
	text, isText := protocol.Text(v)
	var state bool
	switch p.role {
	case roleNumber:
		n, err := strconv.Atoi(string(v))
		a.value = n
		return err == nil
	case roleThing:
		if a.op == opPut {
			a.thing = text
		} else {
			a.target = text
		}
		return isText
	case roleOn, roleOpen:
		switch {
		case p.words == nil && (string(v) == "true" || string(v) == "false"):
			state = string(v) == "true"
		case isText && slices.Contains(p.words, text):
			state = text == p.words[0]
		default:
			return false
		}
	default:
		a.target = text
		return isText
	}
	if p.role == roleOn {
		a.on = state
	} else if !state {
		a.op = opClose
	}
	return true
}
