package core

import (
	"math/bits"
	"time"
)

// stepTimes holds how long steps take, by their cost, the sum of [Core.rowCost]. A step reads the model's weights once,
// so more rows can cost little time: on fast processors a hundred rows take hardly longer than one.
//
// Point k holds means of steps whose cost has k bits. An older step counts less.
type stepTimes [16]stepTime // no steps: zero

type stepTime struct{ cost, time float64 }

// timeMemory is about the number of steps that a point remembers.
const timeMemory = 8

// observe adds a step. A step that something else delayed counts as twice the mean at most.
func (t *stepTimes) observe(cost float64, took time.Duration) {
	p, seconds := &t[min(len(t)-1, bits.Len(uint(cost)))], took.Seconds()
	if p.cost == 0 || seconds < p.time/2 { // the steps before may have read weights from a disk
		*p = stepTime{cost, seconds}
		return
	}
	p.cost += (cost - p.cost) / timeMemory
	p.time += (min(seconds, 2*p.time) - p.time) / timeMemory
}

// doubles returns the cost of the rows that double the time of a step of some cost. Times are on lines between the
// points. Below the first one they fall as from the last one to the first, and above the last one they are proportional
// to the cost. Since a step has a constant part, the rows cost at least as much as the step: if the points say less, one
// of them is old, or of a step that read weights from a disk.
func (t *stepTimes) doubles(cost float64) float64 {
	var before, first stepTime
	for _, p := range t {
		if first.cost == 0 {
			first = p
		} else if p.time > first.time {
			before.time = max(0, first.time-first.cost*(p.time-first.time)/(p.cost-first.cost))
		}
	}
	aim := 0.0
	for _, p := range t {
		if p.time <= before.time {
			continue // no steps, or noise
		}
		slope := (p.time - before.time) / (p.cost - before.cost)
		if aim == 0 && cost <= p.cost {
			aim = 2 * (before.time + slope*(cost-before.cost))
		}
		if aim > 0 && aim <= p.time {
			return max(cost, before.cost+(aim-before.time)/slope-cost)
		}
		before = p
	}
	if aim == 0 {
		return cost
	}
	return max(cost, before.cost*aim/before.time-cost)
}

// Observe takes the time of the planned step, before its Commit. Prompts get rows by it, see [Policy.PrefillChunk].
func (c *Core) Observe(took time.Duration) {
	cost := 0.0
	for _, f := range c.scheduled {
		cost += float64(len(f.tokens)+len(f.drafts)) * c.rowCost(f.seq)
	}
	c.times.observe(cost, took)
}
