package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// oneByOne is a core that runs so many sequences and has cells for all.
func oneByOne(running int) *Core {
	return New(Config{
		Policy: Policy{MaxSequences: 200, MaxRunning: running, BatchTokens: 64}, Cells: 10_000, MaxOutputs: 64, PartialCopy: true, Check: true,
	})
}

// TestEachSecondOfWaitingCountsAsAStepOfPriority: of two requests that wait, the one with the higher priority less the
// second of its arrival starts first.
func TestEachSecondOfWaitingCountsAsAStepOfPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := oneByOne(rapid.IntRange(1, 3).Draw(t, "running"))
		type waiter struct {
			rank, submitted, started int
		}
		var all []*waiter
		second, order := 0, 0
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			second += rapid.IntRange(0, 2).Draw(t, "seconds")
			for range rapid.IntRange(0, 2).Draw(t, "arrivals") {
				r := ask(RequestID(len(all)), []Token{Token(len(all)), 1}, 1, rapid.IntRange(1, 6).Draw(t, "tokens"))
				r.Priority, r.Since = rapid.IntRange(-4, 4).Draw(t, "priority"), second
				order++
				all = append(all, &waiter{rank: r.Priority - second, submitted: order})
				c.Submit(r)
			}
			c.Tick(second)
			plan := c.Plan()
			for _, id := range plan.Started {
				order++
				if w := all[id]; w.started == 0 { // else it was preempted before
					w.started = order
				}
			}
			if len(plan.Rows) > 0 {
				c.Commit(StepDecoded, anything(plan))
			}
		}
		for i, b := range all {
			for k, a := range all {
				if b.started > 0 && a.rank > b.rank && a.submitted < b.started && (a.started == 0 || a.started > b.started) {
					t.Fatalf("request %d of rank %d started before %d of rank %d, which waited", i, b.rank, k, a.rank)
				}
			}
		}
	})
}

// TestAFloodOfHighPriorityLeavesTheLowestItsTurn, whatever number of the flood waits, and does not interrupt it then.
func TestAFloodOfHighPriorityLeavesTheLowestItsTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running, backlog := rapid.IntRange(1, 4).Draw(t, "running"), rapid.IntRange(5, 12).Draw(t, "backlog")
		low, high := rapid.IntRange(-100, 99).Draw(t, "low"), 100
		c := oneByOne(running)
		id := RequestID(0)
		submit := func(priority, n, tokens, second int) RequestID {
			id++
			r := ask(id, []Token{Token(id)}, n, tokens)
			r.Priority, r.Since = priority, second
			c.Submit(r)
			return id
		}
		for range running + backlog {
			submit(high, 1, 3, 0)
		}
		starved := submit(low, 2, 8, 0)
		started, preempted := -1, uint64(0)
		for second := range 400 {
			c.Tick(second)
			plan := c.Plan()
			if started < 0 && slices.Contains(plan.Started, starved) {
				started, preempted = second, c.Stats().Preemptions
			}
			for _, e := range c.Commit(StepDecoded, anything(plan)) {
				switch {
				case e.Kind == RequestFinished && e.Request == starved:
					if least, most := high-low, high-low+backlog*4; started < least || started > most {
						t.Errorf("it started after %d seconds, want %d to %d", started, least, most)
					}
					if got := c.Stats().Preemptions; got != preempted {
						t.Errorf("%d sequences were preempted after its start", got-preempted)
					}
					return
				case e.Kind == RequestFinished:
					submit(high, 1, 3, second)
				}
			}
		}
		t.Errorf("a request of priority %d did not end beside a flood of %d; it started in second %d", low, high, started)
	})
}

// TestTimeInWhichARequestRunsIsNoWait: it protects neither from a higher priority nor counts as age after that.
func TestTimeInWhichARequestRunsIsNoWait(t *testing.T) {
	c := oneByOne(1)
	step := func(second int) *Plan {
		c.Tick(second)
		p := c.Plan()
		c.Commit(StepDecoded, anything(p))
		return p
	}
	c.Submit(ask(1, []Token{1}, 1, 100))
	step(0)
	urgent := ask(2, []Token{2}, 1, 2)
	urgent.Priority, urgent.Since = 5, 50
	c.Submit(urgent)
	if p := step(50); !slices.Equal(p.Started, []RequestID{2}) {
		t.Fatalf("%v starts, want the higher priority", p.Started)
	}
	later := ask(3, []Token{3}, 1, 2)
	later.Priority, later.Since = 5, 51
	c.Submit(later)
	if step(51); c.Started(3) {
		t.Fatal("two run at a time")
	}
	if p := step(52); !slices.Equal(p.Started, []RequestID{3}) {
		t.Errorf("%v starts, want the higher priority: the other one has waited for 2 seconds", p.Started)
	}
}

// TestClientsOfOnePriorityTakeTurnsHoweverOldTheyAre: age counts among priorities only.
func TestClientsOfOnePriorityTakeTurnsHoweverOldTheyAre(t *testing.T) {
	c := oneByOne(1)
	submit := func(id RequestID, client string, second int) {
		r := ask(id, []Token{Token(id)}, 1, 1)
		r.Client, r.Since = client, second
		c.Submit(r)
	}
	for id := range RequestID(4) {
		submit(id, "many", 0)
	}
	c.Tick(30)
	c.Commit(StepDecoded, anything(c.Plan()))
	submit(9, "few", 30)
	var order []RequestID
	for !c.Idle() {
		p := c.Plan()
		order = append(order, p.Started...)
		if len(p.Rows) > 0 {
			c.Commit(StepDecoded, anything(p))
		}
	}
	if want := []RequestID{1, 9, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("%v started, want %v", order, want)
	}
}
