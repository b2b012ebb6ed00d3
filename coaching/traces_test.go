package coaching

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"agentd/coaching/backend"
	"agentd/coaching/store"
	"agentd/protocol"
)

// TestTracesHaveAnOrder runs random operations on one run from several goroutines. It looks
// for an order of their effects that a plain model of the states explains. Each effect lies
// between the start and the return of its operation.
func TestTracesHaveAnOrder(t *testing.T) {
	configs := []*protocol.CoachingSessionConfig{llmConfig(local()), llmConfig(local(), local())}
	rapid.Check(t, func(t *rapid.T) {
		// Giving way now and then mixes the goroutines more than their own speed.
		s, err := New(Options{Local: modelFunc(func(ctx context.Context, q backend.Question) (backend.Answer, error) {
			runtime.Gosched()
			return answers(declinedAnswer)(ctx, q)
		})})
		if err != nil {
			t.Fatal(err)
		}
		plans := make([][]string, rapid.IntRange(2, 4).Draw(t, "goroutines"))
		for i := range plans {
			plans[i] = rapid.SliceOfN(rapid.SampledFrom([]string{"put 0", "put 1", "post", "post", "delete", "put 0"}), 1, 5).Draw(t, "plan")
		}
		var clock atomic.Int64
		histories := make([][]operation, len(plans))
		var all sync.WaitGroup
		start := make(chan struct{})
		for g, plan := range plans {
			all.Go(func() {
				<-start
				for _, what := range plan {
					op := operation{what: what, began: clock.Add(1)}
					switch what {
					case "post":
						_, op.err = s.Coach(context.Background(), newRequest("r", "c"))
					case "delete":
						op.err = s.CloseSession(context.Background(), "r")
					default:
						op.err = s.Configure(context.Background(), "r", configs[what[len(what)-1]-'0'])
					}
					op.ended = clock.Add(1)
					histories[g] = append(histories[g], op)
				}
			})
		}
		close(start)
		all.Wait()
		rec, err := s.opts.Store.Get(context.Background(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if len(s.sessions) > 0 {
			t.Fatalf("%d sessions still run", len(s.sessions))
		}
		if !explained(histories, rec) {
			t.Fatalf("no order explains this, with the session %v at the end:\n%s", rec != nil, show(histories))
		}
	})
}

// operation is one call, and when it began and ended.
type operation struct {
	what         string
	err          error
	began, ended int64
}

// events is how many points in time an operation has: a request that was let in
// enters and leaves, a DELETE that closed begins to close and has closed.
func (op operation) events() int {
	if op.err == nil && (op.what == "post" || op.what == "delete") {
		return 2
	}
	return 1
}

// dumb is the dumb model of a run's session.
type dumb struct {
	state  store.State // "" when there is none
	config string
	active int
}

// apply lets an event happen, if it can in this state.
func (d dumb) apply(op operation, event int) (dumb, bool) {
	switch op.what {
	case "post":
		switch {
		case op.err != nil:
			return d, errors.Is(op.err, ErrUnknown) && d.state != store.Configured
		case event == 0:
			d.active++
			return d, d.state == store.Configured
		}
		d.active--
		return d, true
	case "delete":
		switch {
		case op.err != nil:
			return d, errors.Is(op.err, ErrUnknown) && d.state != store.Configured
		case event == 0:
			ok := d.state == store.Configured
			d.state = store.Closing
			return d, ok
		}
		return dumb{}, d.state == store.Closing && d.active == 0
	}
	switch {
	case errors.Is(op.err, ErrClosing):
		return d, d.state == store.Closing
	case errors.Is(op.err, ErrConflict):
		return d, d.state == store.Configured && d.config != op.what
	case op.err != nil:
		return d, false
	case d.state == "":
		return dumb{state: store.Configured, config: op.what}, true
	}
	return d, d.state == store.Configured && d.config == op.what
}

// explained searches for an order of all events.
func explained(histories [][]operation, last *store.Record) bool {
	type at struct {
		dumb
		progress string
	}
	seen := make(map[at]bool)
	var search func(d dumb, op, event []int) bool
	search = func(d dumb, op, event []int) bool {
		here := at{d, fmt.Sprint(op, event)}
		if seen[here] {
			return false
		}
		seen[here] = true
		// A pending effect must come before the end of its operation.
		deadline, left := int64(math.MaxInt64), false
		for g, h := range histories {
			if op[g] < len(h) {
				deadline, left = min(deadline, h[op[g]].ended), true
			}
		}
		if !left {
			return d.active == 0 && (d.state == store.Configured) == (last != nil)
		}
		for g, h := range histories {
			if op[g] == len(h) || h[op[g]].began > deadline {
				continue
			}
			next, ok := d.apply(h[op[g]], event[g])
			if !ok {
				continue
			}
			o, e := append([]int(nil), op...), append([]int(nil), event...)
			if e[g]++; e[g] == h[o[g]].events() {
				o[g], e[g] = o[g]+1, 0
			}
			if search(next, o, e) {
				return true
			}
		}
		return false
	}
	return search(dumb{}, make([]int, len(histories)), make([]int, len(histories)))
}

func show(histories [][]operation) string {
	var b strings.Builder
	for g, h := range histories {
		for _, op := range h {
			fmt.Fprintf(&b, "goroutine %d, %d to %d: %s: %v\n", g, op.began, op.ended, op.what, op.err)
		}
	}
	return b.String()
}

// TestOrderSearchCanFail keeps the search from accepting everything.
func TestOrderSearchCanFail(t *testing.T) {
	for _, c := range []struct {
		name    string
		history [][]operation
		exists  bool
		want    bool
	}{
		{"a request in a configured session", [][]operation{{{"put 0", nil, 1, 2}, {"post", nil, 3, 4}}}, true, true},
		{"a request in no session", [][]operation{{{"post", nil, 1, 2}}}, false, false},
		{"a request that was not let in though the session was there", [][]operation{{{"put 0", nil, 1, 2}, {"post", ErrUnknown, 3, 4}}}, true, false},
		{"two configurations at once", [][]operation{{{"put 0", nil, 1, 2}}, {{"put 1", nil, 3, 4}}}, true, false},
		{"a DELETE that returned before a request did", [][]operation{{{"put 0", nil, 1, 2}, {"post", nil, 3, 8}}, {{"delete", nil, 5, 6}}}, false, true},
		{"a DELETE that returned while a request was in it", [][]operation{{{"put 0", nil, 1, 2}, {"post", nil, 3, 8}}, {{"delete", nil, 5, 6}, {"put 1", nil, 9, 10}}}, false, false},
		{"a session that is left though it was closed", [][]operation{{{"put 0", nil, 1, 2}, {"delete", nil, 3, 4}}}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last *store.Record
			if c.exists {
				last = new(store.Record)
			}
			if got := explained(c.history, last); got != c.want {
				t.Errorf("explained: %v, want %v", got, c.want)
			}
		})
	}
}
