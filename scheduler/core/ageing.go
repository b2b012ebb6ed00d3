package core

import (
	"cmp"
	"math"
	"slices"
)

// class is the requests of one priority, groups[from:to].
type class struct {
	priority, from, to int
	// rank orders classes: the priority minus the second at which the oldest waiting request was submitted. So each
	// second of waiting adds 1 to the priority. It is the least integer if none waits.
	rank int
}

// Tick sets the time in seconds, from any origin, for the age of requests. It must not decrease.
func (c *Core) Tick(second int) { c.second = second }

// sortClasses sorts the priorities by rank, highest first. The requests of one priority stay together in their order,
// in which clients take turns. So all requests of a priority benefit from the wait of its oldest one.
func (c *Core) sortClasses() {
	c.classes = c.classes[:0]
	for i, g := range c.groups {
		last := len(c.classes) - 1
		if last < 0 || c.classes[last].priority != g.Priority {
			c.classes = append(c.classes, class{priority: g.Priority, from: i, rank: math.MinInt})
			last++
		}
		k := &c.classes[last]
		k.to = i + 1
		if !g.started || len(g.waiting) > 0 {
			k.rank = max(k.rank, g.Priority-g.Since)
		}
	}
	order := func(a, b class) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.priority, a.priority))
	}
	if slices.IsSortedFunc(c.classes, order) {
		return
	}
	slices.SortFunc(c.classes, order)
	sorted := make([]*group, 0, len(c.groups))
	for i := range c.classes {
		k := &c.classes[i]
		sorted = append(sorted, c.groups[k.from:k.to]...)
		k.from, k.to = len(sorted)-(k.to-k.from), len(sorted)
	}
	c.groups = sorted
	c.version++
}

// setLevel sets the level of a request that gets a sequence: its priority plus the wait, in seconds, of the oldest
// request of that priority.
func (c *Core) setLevel(g *group) {
	g.level = g.Priority
	for _, k := range c.classes {
		if k.priority == g.Priority {
			g.level = max(g.level, k.rank+c.second)
		}
	}
	if g.running == 1 { // which is this one
		g.ran = c.second
	}
}
