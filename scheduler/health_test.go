package scheduler

import (
	"errors"
	"testing"
	"time"

	"agentd/llama"
	"agentd/scheduler/core"
)

// TestRequestsMoveFromAContext that keeps failing, to one that is up, and at once from a device that is lost.
func TestRequestsMoveFromAContext(t *testing.T) {
	now := time.Unix(1000, 0)
	up, paused, gone := health{}, health{downUntil: now.Add(1)}, health{lost: true}
	for name, c := range map[string]struct {
		own        health
		others     []health
		cause      error
		down, lost bool
	}{
		"a first failure":                         {own: up, others: []health{up}, cause: errInjected},
		"one failure too many":                    {own: health{failures: maxFailures - 1}, others: []health{up}, cause: errInjected, down: true},
		"the one before it":                       {own: health{failures: maxFailures - 2}, others: []health{up}, cause: errInjected},
		"too many, and another is up":             {own: health{failures: maxFailures - 1}, others: []health{gone, up}, cause: errInjected, down: true},
		"too many, and the others are paused":     {own: health{failures: maxFailures - 1}, others: []health{paused, gone}, cause: errInjected},
		"too many, and there is no other":         {own: health{failures: maxFailures - 1}, cause: errInjected},
		"a lost device":                           {own: up, others: []health{up}, cause: llama.ErrLost, down: true, lost: true},
		"a lost device, and there is no other":    {own: up, cause: llama.ErrLost, down: true, lost: true},
		"a device that was lost before":           {own: gone, others: []health{up}, cause: llama.ErrLost, down: true},
		"a first failure, and there is no other":  {own: up, cause: errInjected},
		"a first failure, and another is paused":  {own: up, others: []health{paused}, cause: errInjected},
		"a failure after the loss of the device":  {own: gone, others: []health{up}, cause: errInjected, down: true},
		"a failure after it, and no other is up":  {own: gone, others: []health{paused}, cause: errInjected},
		"a failure in a pause that has not ended": {own: paused, others: []health{up}, cause: errInjected, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{now: func() time.Time { return now }}
			w := &worker{engine: e, workload: workload{health: c.own}}
			e.workers = []*worker{w}
			for _, h := range c.others {
				e.workers = append(e.workers, &worker{engine: e, workload: workload{health: h}})
			}
			if down, lost := w.recordFailure(errors.Join(errors.New("step"), c.cause)); down != c.down || lost != c.lost {
				t.Errorf("down %t, lost %t; want %t, %t", down, lost, c.down, c.lost)
			}
		})
	}
}

// ranged is a context whose sequences have these positions.
type ranged struct {
	backend
	first, last int
}

func (r ranged) Range(core.SeqID) (first, last int) { return r.first, r.last }

// TestPrefixesAreUsableWhileTheirWindowIsThere: cells that left the window of a sequence are gone, oldest first.
func TestPrefixesAreUsableWhileTheirWindowIsThere(t *testing.T) {
	const window = 4
	for name, c := range map[string]struct {
		first, last int
		whole       bool // only whole sequences can be copied
		usable, not []int
	}{
		"all cells":                       {first: 0, last: 9, usable: []int{1, 5, 10}, not: []int{11, 12}},
		"the oldest are gone":             {first: 5, last: 9, usable: []int{9, 10}, not: []int{3, 8, 11}},
		"one is gone":                     {first: 1, last: 9, usable: []int{5, 10}, not: []int{1, 2, 3, 4, 11}},
		"only the window is there":        {first: 6, last: 9, usable: []int{10}, not: []int{9, 11}},
		"not even the window":             {first: 7, last: 9, not: []int{9, 10, 11}},
		"no cell":                         {first: -1, last: -1, not: []int{1, 4, 5}},
		"a recurrent state":               {first: 9, last: 9, whole: true, usable: []int{10}, not: []int{1, 9, 11}},
		"a recurrent state without cells": {first: -1, last: -1, whole: true, not: []int{1, 2}},
	} {
		w := &worker{coreConfig: core.Config{PartialCopy: !c.whole}}
		w.back = ranged{first: c.first, last: c.last}
		usable := w.usable(window)
		for _, n := range c.usable {
			if !usable(0, n) {
				t.Errorf("%s: a prefix of %d tokens is not usable", name, n)
			}
		}
		for _, n := range c.not {
			if usable(0, n) {
				t.Errorf("%s: a prefix of %d tokens is usable", name, n)
			}
		}
	}
}
