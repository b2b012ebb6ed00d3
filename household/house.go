package household

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// place is a surface or a container in a room.
type place struct {
	name, room   string
	container    bool
	open, locked bool // of a container
	contents     []string
}

// device can be switched, or, with a unit, set to a number.
type device struct {
	name, room string
	unit       string // "", degrees or percent
	state      string // on, off, or a number with the unit
	broken     bool
}

// robot is a robot with its place and what it holds.
type robot struct{ name, room, holds string }

// plan is the part of a house that the episodes of a group share: rooms, places, devices,
// things and robots.
type plan struct {
	rooms   []string
	places  []place
	devices []device
	things  []string
	robots  []string
}

// Sizes of a house. Small ones keep prompts short.
const (
	minRooms, maxRooms   = 2, 4
	minThings, maxThings = 3, 6
	maxRobots            = 3
	busyRobots           = 2 // at least, in a busy house
)

func newPlan(r *rand.Rand, o Options) *plan {
	n := &namer{rand: r, split: o.Split, plain: o.Plain}
	p := new(plan)
	manyRooms, manyThings, manyRobots, fewRobots := maxRooms, maxThings, maxRobots, 1
	if o.Busy {
		fewRobots = busyRobots
	}
	if o.Lesson {
		manyRooms, manyThings, manyRobots = minRooms, minThings, maxRobots-1
	}
	for range minRooms + r.IntN(manyRooms-minRooms+1) {
		room := n.draw(roomWords)
		p.rooms = append(p.rooms, room)
		for range 1 + r.IntN(2) {
			p.places = append(p.places, place{name: n.draw(surfaceWords), room: room, open: true})
		}
		if r.IntN(3) > 0 {
			p.places = append(p.places, place{name: n.draw(containerWords), room: room, container: true})
		}
		switch r.IntN(5) {
		case 0, 1:
			p.devices = append(p.devices, device{name: n.draw(switchWords), room: room})
		case 2:
			p.devices = append(p.devices, device{name: n.draw(degreeWords), room: room, unit: "degrees"})
		case 3:
			p.devices = append(p.devices, device{name: n.draw(percentWords), room: room, unit: "percent"})
		}
	}
	p.things = n.drawThings(minThings + r.IntN(manyThings-minThings+1))
	for range fewRobots + r.IntN(manyRobots-fewRobots+1) {
		p.robots = append(p.robots, n.draw(robotWords))
	}
	return p
}

// house is the true state. Only the simulator reads it.
type house struct {
	rooms   []string
	places  []*place
	devices []*device
	robots  []*robot
	heavy   map[string]bool // things
	blocked map[string]bool // rooms
	rand    *rand.Rand
}

// Chances of failures, in percent.
const (
	slips      = 6 // a thing slips when it is picked up or put down
	moves      = 4 // somebody takes away what the robot reaches for
	lockedUp   = 12
	outOfOrder = 10
	tooHeavy   = 6
	cutOff     = 4
)

// newHouse furnishes a plan at random.
func newHouse(p *plan, r *rand.Rand) *house {
	h := &house{rooms: p.rooms, heavy: map[string]bool{}, blocked: map[string]bool{}, rand: r}
	for _, pl := range p.places {
		pl.open = !pl.container || r.IntN(2) == 0
		pl.locked = !pl.open && h.chance(lockedUp)
		h.places = append(h.places, &pl)
	}
	for _, d := range p.devices {
		d.broken = h.chance(outOfOrder)
		d.state = "off"
		if r.IntN(2) == 0 {
			d.state = "on"
		}
		if d.unit != "" {
			d.state = amount(someValue(r, d.unit), d.unit)
		}
		h.devices = append(h.devices, &d)
	}
	for _, name := range p.robots {
		h.robots = append(h.robots, &robot{name: name, room: oneOf(r, p.rooms)})
	}
	for _, name := range p.things {
		at := oneOf(r, h.places)
		at.contents = append(at.contents, name)
		h.heavy[name] = h.chance(tooHeavy)
	}
	if h.chance(cutOff) {
		h.blocked[oneOf(r, h.rooms)] = true
	}
	return h
}

func (h *house) chance(percent int) bool { return h.rand.IntN(100) < percent }

// someValue is a valid setting for a device of that unit.
func someValue(r *rand.Rand, unit string) int {
	if unit == "degrees" {
		return 15 + r.IntN(12)
	}
	return 10 * r.IntN(11)
}

func amount(n int, unit string) string { return fmt.Sprintf("%d %s", n, unit) }

func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

func (h *house) robot(name string) *robot {
	return find(h.robots, func(r *robot) bool { return r.name == name })
}

func (h *house) place(name string) *place {
	return find(h.places, func(p *place) bool { return p.name == name })
}

func (h *house) device(name string) *device {
	return find(h.devices, func(d *device) bool { return d.name == name })
}

// holding is the place of a thing, nil if a robot has it or it does not exist.
func (h *house) holding(thing string) *place {
	return find(h.places, func(p *place) bool { return slices.Contains(p.contents, thing) })
}

func (p *place) remove(thing string) {
	p.contents = slices.DeleteFunc(slices.Clone(p.contents), func(s string) bool { return s == thing })
}

// has reports whether a place, device, thing or robot has that name.
func (h *house) has(name string) bool {
	holds := func(r *robot) bool { return r.holds == name }
	return h.place(name) != nil || h.device(name) != nil || h.robot(name) != nil || h.holding(name) != nil || slices.ContainsFunc(h.robots, holds)
}

// preposition is on or in, depending on the place.
func preposition(container bool) string {
	if container {
		return "in"
	}
	return "on"
}
