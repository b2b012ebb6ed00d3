package remote

import (
	"context"
	"errors"
	"testing"
)

func TestEventsLeadToTheStateOfTheDrawing(t *testing.T) {
	for name, c := range map[string]struct {
		events []event
		want   state
		ends   bool // calls in flight
	}{
		"before its first answer":                    {nil, unasked, false},
		"never reached":                              {[]event{gone, gone}, out, false},
		"compared":                                   {[]event{fits}, serving, false},
		"a new connection":                           {[]event{fits, reconnected}, replaced, false},
		"a new connection to the same process":       {[]event{fits, reconnected, confirmed}, serving, false},
		"a new connection, compared":                 {[]event{fits, reconnected, fits}, serving, false},
		"a comparison without an end":                {[]event{fits, reconnected, missed}, doubtful, false},
		"two comparisons without an end":             {[]event{fits, reconnected, missed, gone}, out, false},
		"one probe without an answer":                {[]event{fits, missed}, doubtful, false},
		"an answer after one probe without":          {[]event{fits, missed, reconnected, confirmed}, serving, false},
		"two probes without an answer":               {[]event{fits, missed, silent}, frozen, true},
		"no answer to probes but to requests":        {[]event{fits, missed, active}, replaced, false},
		"requests without an answer":                 {[]event{fits, stalled}, frozen, false},
		"frozen, then silent":                        {[]event{fits, stalled, silent}, frozen, true},
		"frozen, then refuses connections":           {[]event{fits, stalled, gone}, frozen, false},
		"frozen, then another model":                 {[]event{fits, stalled, unfit}, frozen, true},
		"frozen, then a part of an answer":           {[]event{fits, stalled, progressed}, out, false},
		"frozen, then compared and generates":        {[]event{fits, stalled, fits}, serving, false},
		"refuses connections":                        {[]event{fits, gone}, out, false},
		"refuses connections, then compared":         {[]event{fits, gone, fits}, serving, false},
		"another model":                              {[]event{fits, reconnected, unfit}, out, true},
		"out, and a probe is late":                   {[]event{fits, gone, missed, reconnected, confirmed, active}, out, false},
		"out, and a request has waited for its time": {[]event{fits, gone, stalled}, frozen, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &replica{why: errNotAsked}
			r.life, r.end = context.WithCancelCause(t.Context())
			for _, ev := range c.events {
				why := errors.New("why")
				if ev != gone && ev != unfit && ev != silent && ev != stalled {
					why = nil
				}
				r.on(ev, why)
			}
			if r.state != c.want || (r.life.Err() != nil) != c.ends {
				t.Errorf("state %d, want %d; calls ended: %t", r.state, c.want, r.life.Err() != nil)
			}
			if works := r.why == nil; works != r.state.works() {
				t.Errorf("state %d has the reason %v", r.state, r.why)
			}
			r.end(nil)
		})
	}
}

func TestEachEventEndsInAStateOfItsKind(t *testing.T) {
	for ev := range events {
		for s := range states {
			to := next[ev][s]
			switch {
			case ev == fits && to != serving, ev.endsCalls() && to.works():
				t.Errorf("event %d leads from %d to %d", ev, s, to)
			case ev != fits && !s.works() && to.works():
				t.Errorf("event %d gives work to an engine that was not compared: from %d to %d", ev, s, to)
			case s != unasked && to == unasked:
				t.Errorf("event %d forgets that the engine was asked: from %d", ev, s)
			}
		}
	}
}
