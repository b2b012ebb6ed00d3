package household

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// op is an operation of robots.
type op int

// The operations.
const (
	opGo op = iota
	opPick
	opPut
	opOpen
	opClose
	opSwitch
	opSet
	opLook
	ops int = iota
)

// action is an operation with its targets.
type action struct {
	op     op
	robot  string
	target string // room, thing, place or device; "" for opLook
	thing  string // that opPut puts down
	on     bool
	value  int
}

// news is a text for the agent, with what a reader learns from it.
type news struct {
	text  string
	learn []func(*knowledge)

	// of the report of an action, for other forms of it: its first sentence, the others, why the action
	// failed, and names in them
	core                   string
	details                []string
	why                    string
	room, thing, at, state string
}

func (n *news) add(text string, learn ...func(*knowledge)) {
	if n.text != "" {
		n.text += " "
	}
	n.text += text
	if n.core == "" {
		n.core = text
	} else {
		n.details = append(n.details, text)
	}
	n.learn = append(n.learn, learn...)
}

// do carries out one action and reports it.
func (h *house) do(a action) *news {
	n := &news{text: a.robot + ":"}
	r := h.robot(a.robot)
	if r == nil {
		n.fail("there is no robot named %s", a.robot)
		return n
	}
	switch a.op {
	case opGo:
		h.goTo(n, r, a.target)
	case opLook:
		h.look(n, r)
	case opPick:
		h.pick(n, r, a.target)
	case opPut:
		h.put(n, r, a)
	case opOpen, opClose:
		h.openOrClose(n, r, a)
	case opSwitch, opSet:
		h.operate(n, r, a)
	}
	return n
}

// failed begins the report of an action that failed.
const failed = "failed: "

func (n *news) fail(why string, args ...any) {
	n.why = fmt.Sprintf(why, args...)
	n.add(failed + n.why + ".")
}

// never is a permanent failure. The agent explains it to the person.
func (n *news) never(thing, why string) {
	n.fail("%s", why)
	n.learn = append(n.learn, func(k *knowledge) { k.cause[thing] = why })
}

// closed reports that a container is in the way.
func (n *news) closed(p *place) {
	n.fail("the %s is closed", p.name)
	n.learn = append(n.learn, func(k *knowledge) { k.closes(p.name) })
}

func (h *house) goTo(n *news, r *robot, room string) {
	switch {
	case h.has(room):
		n.fail("the %s %s no room", room, is(room))
	case !slices.Contains(h.rooms, room):
		n.never(room, "there is no "+room)
	case h.blocked[room] && r.room != room:
		n.never(room, "the way to the "+room+" is blocked")
	default:
		r.room = room
		h.look(n, r)
	}
}

// look lists the contents of a robot's room.
func (h *house) look(n *news, r *robot) {
	room := r.room
	n.room = room
	n.add("You are in the "+room+".", func(k *knowledge) { k.room[r.name] = room })
	for _, p := range h.places {
		if p.room == room {
			n.learn = append(n.learn, func(k *knowledge) { k.roomOf[p.name] = room })
			h.list(n, p)
		}
	}
	for _, d := range h.devices {
		if d.room == room {
			state := d.state
			n.add(stateOf(d.name, state), func(k *knowledge) { k.roomOf[d.name], k.state[d.name] = room, state })
		}
	}
}

// list lists the visible things on a surface or in a container.
func (h *house) list(n *news, p *place) {
	if !p.open {
		n.add("The "+p.name+" is closed.", func(k *knowledge) { k.closes(p.name) })
		return
	}
	contents := slices.Clone(p.contents)
	n.add(listing(p.name, p.container, contents), func(k *knowledge) { k.sees(p.name, p.container, contents) })
}

func listing(place string, container bool, contents []string) string {
	list := cmp.Or(strings.Join(contents, ", "), "nothing")
	return fmt.Sprintf("%s the %s: %s.", upper(preposition(container)), place, list)
}

func (h *house) pick(n *news, r *robot, thing string) {
	p := h.holding(thing)
	switch {
	case r.holds == thing:
		n.fail("you hold the %s already", thing)
	case r.holds != "":
		n.fail("you hold the %s", r.holds)
	case p == nil || p.room != r.room:
		n.fail("the %s %s not here", thing, is(thing))
		n.learn = append(n.learn, func(k *knowledge) {
			if from, ok := k.place[thing]; ok && k.roomOf[from] == k.room[r.name] {
				k.leave(thing)
			}
		})
	case !p.open:
		n.closed(p)
	case h.heavy[thing]:
		n.never(thing, fmt.Sprintf("the %s %s too heavy", thing, is(thing)))
	case h.chance(moves):
		to := h.elsewhere(p)
		h.move(thing, to)
		n.fail("somebody took the %s. It is now %s", thing, at(to))
		n.learn = append(n.learn, toldOf(thing, to))
	case h.chance(slips):
		n.fail("the %s slipped. Try again", thing)
	default:
		p.remove(thing)
		r.holds = thing
		n.thing = thing
		n.add("You hold the "+thing+".", func(k *knowledge) {
			k.mention(thing)
			k.leave(thing)
			k.held[r.name] = thing
		})
	}
}

// elsewhere is another place for a thing, preferably an open one in another room.
func (h *house) elsewhere(from *place) *place {
	var list []*place
	for _, p := range h.places {
		if p.open && p.room != from.room {
			list = append(list, p)
		}
	}
	return oneOf(h.rand, list) // every room has a surface, and a house has two rooms
}

func (h *house) move(thing string, to *place) {
	for _, p := range h.places {
		p.remove(thing)
	}
	to.contents = append(to.contents, thing)
}

// at is a place with its room.
func at(p *place) string {
	return fmt.Sprintf("%s the %s in the %s", preposition(p.container), p.name, p.room)
}

// toldOf returns what a reader learns from "the thing is at the place".
func toldOf(thing string, p *place) func(*knowledge) {
	return func(k *knowledge) {
		k.roomOf[p.name] = p.room
		k.lies(thing, p.name, p.container)
	}
}

func (h *house) put(n *news, r *robot, a action) {
	p := h.place(a.target)
	switch {
	case r.holds == "":
		n.fail("you hold nothing")
	case a.thing != "" && a.thing != r.holds:
		n.fail("you hold the %s", r.holds)
	case p == nil || p.room != r.room:
		n.fail("the %s is not here", a.target)
	case !p.open:
		n.closed(p)
	case h.chance(slips):
		n.fail("the %s slipped. Try again", r.holds)
	default:
		thing := r.holds
		p.contents = append(p.contents, thing)
		r.holds = ""
		n.thing, n.at = thing, preposition(p.container)+" the "+p.name
		n.add(fmt.Sprintf("The %s %s %s.", thing, is(thing), n.at), func(k *knowledge) {
			delete(k.held, r.name)
			k.lies(thing, p.name, p.container)
		})
	}
}

func (h *house) openOrClose(n *news, r *robot, a action) {
	p := h.place(a.target)
	switch {
	case p == nil || p.room != r.room:
		n.fail("the %s is not here", a.target)
	case !p.container:
		n.fail("the %s can't be opened or closed", p.name)
	case a.op == opClose:
		p.open = false
		n.add("The "+p.name+" is closed.", func(k *knowledge) { k.closes(p.name) })
	case p.locked:
		n.never(p.name, fmt.Sprintf("the %s is locked", p.name))
	default:
		p.open = true
		n.add("The "+p.name+" is open.", func(k *knowledge) { k.container[p.name], k.open[p.name] = true, true })
		h.list(n, p)
	}
}

func (h *house) operate(n *news, r *robot, a action) {
	d := h.device(a.target)
	switch {
	case d == nil || d.room != r.room:
		n.fail("the %s is not here", a.target)
	case (a.op == opSet) != (d.unit != ""):
		n.fail("the %s can't do that", d.name)
	case d.broken:
		n.never(d.name, fmt.Sprintf("the %s is broken", d.name))
	default:
		d.state = "off"
		switch {
		case a.op == opSet:
			d.state = amount(a.value, d.unit)
		case a.on:
			d.state = "on"
		}
		state := d.state
		n.state = state
		n.add(stateOf(d.name, state), func(k *knowledge) { k.state[d.name] = state })
	}
}

// stateOf is the sentence of a device's state.
func stateOf(device, state string) string {
	if state == "on" || state == "off" {
		return fmt.Sprintf("The %s is %s.", device, state)
	}
	return fmt.Sprintf("The %s is at %s.", device, state)
}
