package household

import (
	"fmt"
	"slices"
	"strings"
)

// goalKind is the kind of a person's goal.
type goalKind int

const (
	wantGo     goalKind = iota
	wantBring           // thing to target
	wantTake            // thing
	wantOpen            // target
	wantClose           // target
	wantSwitch          // target on or off
	wantSet             // target to value
	wantCheck           // what is on or in target
	askThing            // where thing is
	askRobot            // where robot is
	askHeld             // what robot holds
	askRoom             // who is in target
	askState            // of target
	told                // nothing; result is the confirmation
)

// goal is one thing that a person wants one robot to do, or wants to know.
type goal struct {
	kind   goalKind
	robot  string
	thing  string
	target string // room, place or device
	on     bool
	value  int
	unit   string
	result string // the sentence that ends it; "" until then
}

// decision is the right next step: a question, actions of several robots, or a reply.
type decision struct {
	actions []action
	say     string
	asks    string // the thing or place that say asks about; "" when it doesn't
	which   []string
}

// can reports which operations have tools.
type can func(op) bool

// decide is the right decision, with actions in the order of the request. It marks the
// goals that it ends.
func decide(k *knowledge, goals []*goal, tools can) decision {
	var d decision
	busy := map[string]bool{}
	for _, g := range goals {
		if g.result != "" || busy[g.robot] {
			continue
		}
		s := &step{k: k, g: g, can: tools}
		s.run()
		switch {
		case s.act != nil:
			busy[g.robot] = true
			d.actions = append(d.actions, *s.act)
		case s.ask != "":
			busy[g.robot] = true
			if d.say == "" {
				d.say, d.asks, d.which = s.ask, s.about, s.which
			}
		}
	}
	if len(d.actions) > 0 {
		return decision{actions: d.actions}
	}
	if d.say == "" {
		var results []string
		for _, g := range goals {
			results = append(results, g.result)
		}
		d.say = strings.Join(results, " ")
	}
	return d
}

// step finds the next step towards a goal: an action or a question. result reports that
// there is none.
type step struct {
	k     *knowledge
	g     *goal
	can   can
	act   *action
	ask   string
	about string
	which []string
}

func (s *step) do(o op, target string) {
	s.act = &action{op: o, robot: s.g.robot, target: target}
}

// Beginnings of the replies that end a task.
const (
	finished = "Done: "
	cannot   = "I can't: "
)

func (s *step) done(text string, args ...any) {
	s.g.result = finished + fmt.Sprintf(text, args...) + "."
}
func (s *step) cant(why string)    { s.g.result = cannot + why + "." }
func (s *step) answer(text string) { s.g.result = text }

// lacks ends the goal if the operation has no tool.
func (s *step) lacks(o op) bool {
	if s.can(o) {
		return false
	}
	s.cant("I have no tool to " + toDo[o])
	return true
}

// toDo names the operations in refusals.
var toDo = [ops]string{
	opGo: "move a robot", opPick: "pick things up", opPut: "put things down", opOpen: "open things", opClose: "close things",
	opSwitch: "switch devices", opSet: "set devices", opLook: "look around",
}

func (s *step) run() {
	k, g := s.k, s.g
	if g.kind < askThing && !slices.Contains(k.robots, g.robot) {
		s.cant("there is no robot named " + g.robot)
		return
	}
	if g.thing != "" && g.kind != told {
		switch list := k.meant(g.thing); {
		case len(list) == 1:
			g.thing = list[0]
		case len(list) > 1:
			names := make([]string, len(list))
			for i, name := range list {
				names[i] = the(name)
			}
			s.ask = fmt.Sprintf("Which %s: %s?", g.thing, join(names, "or"))
			s.about, s.which = g.thing, list
			return
		}
	}
	switch g.kind {
	case wantGo:
		if k.room[g.robot] == g.target {
			s.done("%s is in the %s", g.robot, g.target)
		} else if !s.lacks(opGo) {
			s.goTo(g.target)
		}
	case wantBring:
		s.bring()
	case wantTake:
		s.take()
	case wantOpen, wantClose:
		s.openOrClose()
	case wantSwitch, wantSet:
		s.operate()
	case wantCheck:
		s.check()
	default:
		s.reply()
	}
}

// reaches reports whether the robot is at a place or device that is open. If not, it sets
// the step for that, or ends the goal.
func (s *step) reaches(target string, open bool) bool {
	room, known := s.k.roomOf[target]
	switch {
	case s.k.cause[target] != "":
		s.cant(s.k.cause[target])
	case !known:
		s.where(target)
	case s.k.room[s.g.robot] != room:
		if !s.lacks(opGo) {
			s.goTo(room)
		}
	case open && s.k.closed(target):
		if !s.lacks(opOpen) {
			s.do(opOpen, target)
		}
	default:
		return true
	}
	return false
}

func (s *step) goTo(room string) {
	if why := s.k.cause[room]; why != "" {
		s.cant(why)
		return
	}
	s.do(opGo, room)
}

// where asks for missing information.
func (s *step) where(name string) {
	if s.k.nobody[name] {
		s.cant(fmt.Sprintf("I don't know where the %s %s", name, is(name)))
		return
	}
	s.ask, s.about = fmt.Sprintf("Where %s the %s?", is(name), name), name
}

func (s *step) bring() {
	k, g := s.k, s.g
	if k.place[g.thing] == g.target {
		s.done("the %s %s %s the %s", g.thing, is(g.thing), preposition(k.container[g.target]), g.target)
		return
	}
	if s.lacks(opPick) {
		return
	}
	switch _, known := k.roomOf[g.target]; {
	case !known:
		s.where(g.target)
	case k.held[g.robot] != g.thing:
		s.get()
	case s.reaches(g.target, true) && !s.lacks(opPut):
		s.do(opPut, g.target)
		s.act.thing = g.thing
	}
}

func (s *step) take() {
	switch {
	case s.k.held[s.g.robot] == s.g.thing:
		s.done("%s holds the %s", s.g.robot, s.g.thing)
	case s.lacks(opPick):
	default:
		s.get()
	}
}

// get takes the robot to a thing and picks it up. It puts down first what it holds.
func (s *step) get() {
	k, g := s.k, s.g
	if k.cause[g.thing] != "" {
		s.cant(k.cause[g.thing])
		return
	}
	if holder := k.holder(g.thing); holder != "" {
		s.cant(fmt.Sprintf("%s holds the %s", holder, g.thing))
		return
	}
	place, known := k.place[g.thing]
	switch {
	case !known:
		s.where(g.thing)
	case !s.reaches(place, true):
	case k.held[g.robot] != "":
		if !s.lacks(opPut) {
			s.do(opPut, place)
			s.act.thing = k.held[g.robot]
		}
	default:
		s.do(opPick, g.thing)
	}
}

func (s *step) openOrClose() {
	k, g := s.k, s.g
	o, state := opOpen, "open"
	if g.kind == wantClose {
		o, state = opClose, "closed"
	}
	switch open, known := k.open[g.target]; {
	case known && open == (o == opOpen):
		s.done("the %s is %s", g.target, state)
	case s.lacks(o):
	case s.reaches(g.target, false):
		s.do(o, g.target)
	}
}

func (s *step) operate() {
	k, g := s.k, s.g
	o, want := opSwitch, "off"
	switch {
	case g.kind == wantSet:
		o, want = opSet, amount(g.value, g.unit)
	case g.on:
		want = "on"
	}
	switch {
	case k.state[g.target] == want:
		s.g.result = finished + "t" + stateOf(g.target, want)[1:]
	case s.lacks(o):
	case s.reaches(g.target, false):
		s.do(o, g.target)
		s.act.on, s.act.value = g.on, g.value
	}
}

// check looks at a place with unknown contents.
func (s *step) check() {
	k, g := s.k, s.g
	if contents, ok := k.contents[g.target]; ok {
		s.answer(listing(g.target, k.container[g.target], contents))
		return
	}
	if s.reaches(g.target, true) && !s.lacks(opLook) {
		s.do(opLook, "")
	}
}

// reply answers a question from knowledge.
func (s *step) reply() {
	k, g := s.k, s.g
	switch g.kind {
	case askThing:
		s.answer(k.whereIs(g.thing))
	case askRobot:
		s.answer("I don't know where " + g.robot + " is.")
		if room, ok := k.room[g.robot]; ok {
			s.answer(fmt.Sprintf("%s is in the %s.", g.robot, room))
		}
	case askHeld:
		s.answer(g.robot + " holds nothing.")
		if thing := k.held[g.robot]; thing != "" {
			s.answer(fmt.Sprintf("%s holds the %s.", g.robot, thing))
		}
	case askRoom:
		var list []string
		for _, r := range k.robots {
			if k.room[r] == g.target {
				list = append(list, r)
			}
		}
		switch len(list) {
		case 0:
			s.answer("I know of no robot in the " + g.target + ".")
		case 1:
			s.answer(fmt.Sprintf("%s is in the %s.", list[0], g.target))
		default:
			s.answer(fmt.Sprintf("%s are in the %s.", join(list, "and"), g.target))
		}
	case askState:
		s.answer("I don't know how the " + g.target + " is set.")
		if state, ok := k.state[g.target]; ok {
			s.answer(stateOf(g.target, state))
		}
	}
}

func (k *knowledge) whereIs(thing string) string {
	if holder := k.holder(thing); holder != "" {
		return fmt.Sprintf("%s holds the %s.", holder, thing)
	}
	if place, ok := k.place[thing]; ok {
		text := fmt.Sprintf("The %s %s %s the %s", thing, is(thing), preposition(k.container[place]), place)
		if room, ok := k.roomOf[place]; ok {
			text += " in the " + room
		}
		return text + "."
	}
	return fmt.Sprintf("I don't know where the %s %s.", thing, is(thing))
}
