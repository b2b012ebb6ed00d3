package household

import (
	"slices"
	"strings"

	"agentd/protocol"
)

// Chances of what people say and omit, in percent.
const (
	saysFrom     = 50 // where a thing is, when the agent doesn't know
	saysFromOld  = 8  // and when it does
	saysRoom     = 65 // the room of a place, when the agent doesn't know it
	saysRoomOld  = 8
	saysNoun     = 50 // the cup for the red cup
	namesRobot   = 50
	stranger     = 2  // a robot that isn't there
	nowhere      = 4  // a room or thing that isn't there
	doesNotKnow  = 15 // the answer to a question
	tellsAtFirst = 25
	picksTwin    = 40 // a thing that has its noun in common with another one
	asksPossible = 80 // what the robot has a tool for, where it has few
)

// mix is the distribution of what people say, as cumulative percentages.
type mix struct{ events, questions, several, inTurn, one int }

var (
	usual = mix{events: 5, questions: 9, several: 22, inTurn: 38, one: 44}
	busy  = mix{events: 3, questions: 6, several: 14, inTurn: 50, one: 60}
)

// start begins the conversation: with the plan of the house or with a task.
func (e *Episode) start() {
	switch e.group.brief {
	case briefSummary:
		n := e.planOf(false)
		e.known.learn(n)
		e.memory = protocol.AppendMember(e.memory, "summary", protocol.String(n.text))
	case briefStatus:
		e.instruct(protocol.InstructionEnv, e.planOf(true))
		e.goals = []*goal{{kind: told, result: "Noted."}}
		e.plan()
		return
	}
	if e.house.chance(tellsAtFirst) && !e.group.options.Lesson {
		e.tellThing()
	} else {
		e.newTask()
	}
	e.plan()
}

// planOf describes the rooms with their contents, and the places of the robots.
func (e *Episode) planOf(robots bool) *news {
	n := &news{}
	for _, room := range e.house.rooms {
		var list []string
		for _, p := range e.house.places {
			if p.room == room {
				list = append(list, p.name)
			}
		}
		for _, d := range e.house.devices {
			if d.room == room {
				list = append(list, d.name)
			}
		}
		n.add("The "+room+" has: "+strings.Join(list, ", ")+".", func(k *knowledge) {
			for _, name := range list {
				k.roomOf[name] = room
			}
		})
	}
	if robots {
		for _, r := range e.house.robots {
			name, room := r.name, r.room
			n.add(name+" is in the "+room+".", func(k *knowledge) { k.room[name] = room })
		}
	}
	return n
}

// newTask makes the next statement of a person or the environment.
func (e *Episode) newTask() {
	e.goals = nil
	n, m := e.rand.IntN(100), usual
	if e.group.options.Busy {
		m = busy
	}
	if e.group.options.Lesson {
		n = max(n, m.one)
	}
	switch {
	case n < m.events:
		e.tellThing()
	case n < m.questions:
		e.event()
	case n < m.several:
		e.ask()
	case n < m.inTurn && len(e.group.plan.robots) > 1:
		e.several(false)
	case n < m.one:
		e.several(true)
	default:
		e.one()
	}
}

// one is a task for one robot.
func (e *Episode) one() {
	g := e.goal(false)
	name := e.house.chance(namesRobot) || e.group.bare
	g.robot = e.group.plan.robots[0]
	if name {
		g.robot = oneOf(e.rand, e.group.plan.robots)
		if e.house.chance(stranger) && !e.group.bare {
			g.robot = e.unheard(robotWords)
		}
	}
	n := &news{}
	fill := e.slots(n, g)
	n.text = e.voice.instruct(g, fill, name)
	e.goals = []*goal{g}
	e.instruct(protocol.InstructionUser, n)
}

// several are short tasks for different robots at once, or for one robot in sequence.
func (e *Episode) several(inTurn bool) {
	robots := slices.Clone(e.group.plan.robots)
	e.rand.Shuffle(len(robots), func(i, j int) { robots[i], robots[j] = robots[j], robots[i] })
	if inTurn {
		robots = []string{robots[0], robots[0]}
	}
	n := &news{}
	var fills []slots
	for _, robot := range robots {
		g := e.goal(true)
		g.robot = robot
		e.goals = append(e.goals, g)
		fills = append(fills, e.slots(n, g))
	}
	n.text = e.voice.several(e.goals, fills)
	e.instruct(protocol.InstructionUser, n)
}

// unheard is a name that nothing in the house has.
func (e *Episode) unheard(p pool) string {
	o := e.group.options
	names := &namer{rand: e.rand, split: o.Split, plain: o.Plain, used: slices.Concat(e.group.plan.rooms, e.group.plan.robots)}
	return names.draw(p)
}

// needs has the operation that a goal needs first of all.
var needs = map[goalKind]op{
	wantGo: opGo, wantBring: opPick, wantTake: opPick, wantOpen: opOpen, wantClose: opClose, wantSwitch: opSwitch, wantSet: opSet, wantCheck: opLook,
}

// goal draws a task. Easy ones need no carrying.
func (e *Episode) goal(easy bool) *goal {
	h, r := e.house, e.rand
	for {
		g := &goal{}
		switch n := r.IntN(100); {
		case n < 44 && !easy:
			g.kind, g.thing, g.target = wantBring, e.someThing(), oneOf(r, h.places).name
		case n < 53 && !easy:
			g.kind, g.thing = wantTake, e.someThing()
		case n < 62:
			g.kind, g.target = wantGo, oneOf(r, h.rooms)
			if h.chance(nowhere) {
				g.target = e.unheard(roomWords)
			}
		case n < 74:
			p := oneOf(r, h.places)
			if !p.container {
				continue
			}
			g.kind, g.target = wantOpen, p.name
			if p.open != h.chance(10) {
				g.kind = wantClose
			}
		case n < 94:
			if len(h.devices) == 0 {
				continue
			}
			d := oneOf(r, h.devices)
			g.kind, g.target, g.on = wantSwitch, d.name, d.state == "off"
			if h.chance(8) {
				g.on = !g.on
			}
			if d.unit != "" {
				g.kind, g.unit, g.on, g.value = wantSet, d.unit, false, someValue(r, d.unit)
			}
		default:
			if easy {
				continue
			}
			g.kind, g.target = wantCheck, oneOf(r, h.places).name
		}
		if len(e.group.tools.tools) < minTools && !e.group.tools.can(needs[g.kind]) && h.chance(asksPossible) {
			continue
		}
		return g
	}
}

func (e *Episode) someThing() string {
	if e.house.chance(nowhere) {
		return e.unheard(bareWords)
	}
	if twins := e.known.twins(); len(twins) > 0 && e.house.chance(picksTwin) {
		return oneOf(e.rand, twins)
	}
	return oneOf(e.rand, e.group.plan.things)
}

// slots fills the slots of a goal's wording. It also returns what the sentence says
// about the places of things.
func (e *Episode) slots(n *news, g *goal) slots {
	h, k := e.house, e.known
	spoken, from := g.thing, ""
	if p := h.holding(g.thing); p != nil {
		_, known := k.place[g.thing]
		chance := saysFrom
		if e.group.options.Lesson {
			chance = 100
		}
		if known {
			chance = saysFromOld
		}
		if g.kind < askThing && h.chance(chance) {
			from = " from the " + p.name + " in the " + p.room
			if p.container {
				from = " out of the " + p.name + " in the " + p.room
			}
			n.learn = append(n.learn, toldOf(g.thing, p))
		}
	}
	if noun := g.thing[strings.LastIndexByte(g.thing, ' ')+1:]; noun != g.thing && from == "" && h.chance(saysNoun) {
		if list := k.meant(noun); len(list) > 1 || len(list) == 1 && list[0] == g.thing {
			spoken, g.thing = noun, noun
		}
	}
	return h.slots(g, spoken, from, e.saysRoom(n, g.target))
}

// saysRoom decides whether a place or device is named with its room.
func (e *Episode) saysRoom(n *news, target string) bool {
	room := ""
	if p := e.house.place(target); p != nil {
		room = p.room
	} else if d := e.house.device(target); d != nil {
		room = d.room
	}
	if room == "" {
		return false
	}
	chance := saysRoom
	if e.group.options.Lesson {
		chance = 100
	}
	if e.known.roomOf[target] != "" {
		chance = saysRoomOld
	}
	if !e.house.chance(chance) {
		return false
	}
	n.learn = append(n.learn, func(k *knowledge) { k.roomOf[target] = room })
	return true
}

// Patience is the factor of the planner's steps that an agent may take for a task.
const Patience = 2

// Rooms of the house.
func (e *Episode) Rooms() []string { return slices.Clone(e.group.plan.rooms) }

// Robots of the house.
func (e *Episode) Robots() []string { return slices.Clone(e.group.plan.robots) }

// Fork is an independent copy of the episode in its present state.
func (e *Episode) Fork() *Episode {
	f := e.group.Episode(e.index)
	for _, d := range e.past {
		f.Apply(d, e.memory)
	}
	return f
}

// Steps is the number of decisions taken for the present task.
func (e *Episode) Steps() int { return e.steps }

// Planned is the number of the planner's decisions to the end of the task, and the kind
// of the last one.
func (e *Episode) Planned() (steps int, last Kind) {
	f := e.Fork()
	for tasks := f.score.Tasks; f.score.Tasks == tasks && !f.done; steps++ {
		last = f.Kind()
		f.Apply(f.Expected(), f.memory)
	}
	return steps, last
}

// reopen reconsiders goals that were reached, since a later call may have undone them. A
// goal with a later one for the same robot stays reached, because that may have to undo
// it.
func (e *Episode) reopen(calls []protocol.ToolCall) {
	idle := func(c protocol.ToolCall) bool {
		return !slices.ContainsFunc(e.next.actions, func(a action) bool { return a.robot == c.TargetRobotName })
	}
	if !slices.ContainsFunc(calls, idle) {
		return
	}
	for i, g := range e.goals {
		followed := slices.ContainsFunc(e.goals[i+1:], func(later *goal) bool { return later.robot == g.robot })
		if g.kind != told && !followed {
			g.result = ""
		}
	}
}

// Kind classifies the right decision.
type Kind int

// The kinds of decisions.
const (
	FirstCall        Kind = iota // of a task: the robot, the tool and its arguments come from what a person said
	NextCall                     // after a report of what the call before did, or after an answer to a question
	CallAfterFailure             // after a report that it failed
	SeveralCalls                 // of several robots at once
	Question                     // about what nobody said
	Answer                       // to a question
	Refusal                      // with the reason
	Confirmation                 // of what was done or said
	Kinds            int  = iota
)

func (k Kind) String() string {
	return [...]string{
		"first call", "next call", "call after a failure", "calls of several robots", "question", "answer", "refusal", "confirmation",
	}[k]
}

// Kind of the right decision.
func (e *Episode) Kind() Kind {
	switch {
	case len(e.next.actions) > 1:
		return SeveralCalls
	case len(e.next.actions) == 1 && e.failed:
		return CallAfterFailure
	case len(e.next.actions) == 1 && e.steps > 0:
		return NextCall
	case len(e.next.actions) == 1:
		return FirstCall
	case e.next.asks != "":
		return Question
	}
	kind := Answer
	for _, g := range e.goals {
		switch {
		case strings.HasPrefix(g.result, cannot):
			return Refusal
		case g.kind == told, strings.HasPrefix(g.result, finished):
			kind = Confirmation
		}
	}
	return kind
}
