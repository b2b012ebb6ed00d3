package household

import (
	"strings"

	"agentd/protocol"
)

// noted confirms a statement.
func noted(text string) []*goal {
	return []*goal{{kind: told, result: "Noted: " + strings.ToLower(text[:1]) + text[1:]}}
}

// tellThing is a person's statement about the place of a thing.
func (e *Episode) tellThing() {
	thing := oneOf(e.rand, e.group.plan.things)
	p := e.house.holding(thing)
	if p == nil { // a robot has it, and the agent knows
		e.ask()
		return
	}
	n := &news{learn: []func(*knowledge){toldOf(thing, p)}}
	n.text = e.voice.say(toldOpenings, phrases[told], slots{"{thing}", the(thing), "{is}", is(thing), "{spot}", at(p)})
	e.instruct(protocol.InstructionUser, n)
	e.goals = noted(e.known.whereIs(thing))
}

// event is a report of the environment about somebody else's action.
func (e *Episode) event() {
	h := e.house
	if len(h.devices) > 0 && e.rand.IntN(2) == 0 {
		d := oneOf(e.rand, h.devices)
		if !d.broken && d.unit == "" {
			d.state = map[string]string{"on": "off", "off": "on"}[d.state]
			name, state, room := d.name, d.state, d.room
			n := &news{}
			n.add("Somebody turned the "+name+" in the "+room+" "+state+".", func(k *knowledge) {
				k.roomOf[name], k.state[name] = room, state
			})
			e.instruct(protocol.InstructionEnv, n)
			e.goals = noted(stateOf(name, state))
			return
		}
	}
	thing := oneOf(e.rand, e.group.plan.things)
	from := h.holding(thing)
	if from == nil {
		e.ask()
		return
	}
	to := h.elsewhere(from)
	h.move(thing, to)
	n := &news{}
	n.add("Somebody put the "+thing+" "+at(to)+".", toldOf(thing, to))
	e.instruct(protocol.InstructionEnv, n)
	e.goals = noted(e.known.whereIs(thing))
}

// ask is a person's question.
func (e *Episode) ask() {
	h, r := e.house, e.rand
	g := &goal{}
	kinds := []goalKind{askThing, askThing, askRobot, askHeld, askRoom, askState}
	switch g.kind = oneOf(r, kinds); {
	case g.kind == askThing:
		g.thing = e.someThing()
		if len(e.known.things) > 0 && r.IntN(3) > 0 {
			g.thing = oneOf(r, e.known.things)
		}
	case g.kind == askRoom:
		g.target = oneOf(r, h.rooms)
	case g.kind == askState && len(h.devices) > 0:
		g.target = oneOf(r, h.devices).name
	default:
		if g.kind == askState {
			g.kind = askRobot
		}
		g.robot = oneOf(r, e.group.plan.robots)
	}
	n := &news{}
	fill := e.slots(n, g)
	n.text = e.voice.say(questionOpenings, phrases[g.kind], fill)
	e.goals = []*goal{g}
	e.instruct(protocol.InstructionUser, n)
}

// reply answers the agent's question.
func (e *Episode) reply() {
	about := e.next.asks
	n := &news{}
	if e.next.which != nil {
		thing := oneOf(e.rand, e.next.which)
		n.text = e.voice.say(answerOpenings, whichAnswers, slots{"{thing}", the(thing)})
		for _, g := range e.goals {
			if g.thing == about && g.result == "" {
				g.thing = thing
			}
		}
		e.instruct(protocol.InstructionUser, n)
		return
	}
	fill := slots{"{thing}", the(about), "{place}", the(about), "{is}", is(about)}
	room := ""
	if p := e.house.place(about); p != nil {
		room = p.room
	} else if d := e.house.device(about); d != nil {
		room = d.room
	}
	p := e.house.holding(about)
	switch {
	case e.house.chance(doesNotKnow), room == "" && p == nil:
		n.learn = append(n.learn, func(k *knowledge) { k.nobody[about] = true })
		n.text = e.voice.say(answerOpenings, nobodyAnswers, fill)
	case room != "":
		n.learn = append(n.learn, func(k *knowledge) { k.roomOf[about] = room })
		n.text = e.voice.say(answerOpenings, placeAnswers, append(fill, "{room}", room))
	default:
		n.learn = append(n.learn, toldOf(about, p))
		n.text = e.voice.say(answerOpenings, thingAnswers, append(fill, "{spot}", at(p)))
	}
	e.instruct(protocol.InstructionUser, n)
}
