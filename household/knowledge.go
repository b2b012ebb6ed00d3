package household

import (
	"slices"
	"strings"
)

// knowledge holds what the agent's prompt says about the house. Later texts replace earlier
// ones.
type knowledge struct {
	robots    []string            // the known robots, in their order
	things    []string            // in the order in which they were first mentioned
	place     map[string]string   // thing to place
	held      map[string]string   // robot to thing
	room      map[string]string   // robot to room
	roomOf    map[string]string   // place or device to room
	container map[string]bool     // place: things are in it, not on it
	open      map[string]bool     // container
	contents  map[string][]string // place, when all that is there is known
	state     map[string]string   // device
	cause     map[string]string   // thing, place, device or room: why it can't be used
	nobody    map[string]bool     // things and places of which nobody knows where they are
}

func newKnowledge(robots []string) *knowledge {
	return &knowledge{
		robots: robots, place: map[string]string{}, held: map[string]string{}, room: map[string]string{},
		roomOf: map[string]string{}, container: map[string]bool{}, open: map[string]bool{}, contents: map[string][]string{},
		state: map[string]string{}, cause: map[string]string{}, nobody: map[string]bool{},
	}
}

func (k *knowledge) learn(n *news) {
	for _, f := range n.learn {
		f(k)
	}
}

func (k *knowledge) mention(thing string) {
	if !slices.Contains(k.things, thing) {
		k.things = append(k.things, thing)
	}
}

// leave removes a thing from its place.
func (k *knowledge) leave(thing string) {
	if from, ok := k.place[thing]; ok {
		if list, ok := k.contents[from]; ok {
			k.contents[from] = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == thing })
		}
		delete(k.place, thing)
	}
}

// lies records that a thing was put or seen at a place.
func (k *knowledge) lies(thing, place string, container bool) {
	k.mention(thing)
	delete(k.nobody, thing)
	k.container[place] = container
	if k.place[thing] == place {
		return
	}
	k.leave(thing)
	k.place[thing] = place
	if list, ok := k.contents[place]; ok {
		k.contents[place] = append(slices.Clone(list), thing)
	}
}

// sees records that exactly these things are at a place.
func (k *knowledge) sees(place string, container bool, contents []string) {
	k.container[place] = container
	if container {
		k.open[place] = true
	}
	for _, thing := range k.things {
		if k.place[thing] == place && !slices.Contains(contents, thing) {
			delete(k.place, thing)
		}
	}
	for _, thing := range contents {
		k.lies(thing, place, container)
	}
	k.contents[place] = append([]string{}, contents...)
}

func (k *knowledge) closes(place string) {
	k.container[place] = true
	k.open[place] = false
}

// holder is the robot that holds a thing, or "".
func (k *knowledge) holder(thing string) string {
	for _, r := range k.robots {
		if k.held[r] == thing {
			return r
		}
	}
	return ""
}

// closed reports whether a place is known to be closed.
func (k *knowledge) closed(place string) bool {
	open, known := k.open[place]
	return known && !open
}

// meant are the things that a person may mean by a name: the thing of that name, else
// those with that noun.
func (k *knowledge) meant(name string) []string {
	if slices.Contains(k.things, name) {
		return []string{name}
	}
	var list []string
	for _, thing := range k.things {
		if strings.HasSuffix(thing, " "+name) {
			list = append(list, thing)
		}
	}
	return list
}

// twins are things that share their noun with another.
func (k *knowledge) twins() []string {
	var list []string
	for _, thing := range k.things {
		if _, noun, ok := strings.Cut(thing, " "); ok && len(k.meant(noun)) > 1 {
			list = append(list, thing)
		}
	}
	return list
}
