// Package evaluate measures how well an agent decides in the simulated household. It
// uses held-out houses and wordings, and asks through the protocol as users do.
package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentd/household"
	"agentd/protocol"
)

// Tool names of a measurement.
const (
	Known  = "known"  // names that training has
	Unseen = "unseen" // names that no training has
	// Reports are known names, and reports of the simulation in forms that no training has.
	Reports = "reports"
)

// Options of a measurement.
type Options struct {
	Episodes  int                // conversations, four in each house
	Seed      uint64             // the houses and conversations are a function of it
	ToolNames string             // Known, Unseen or Reports
	Tasks     bool               // also let the agent do whole tasks alone
	Clients   int                // conversations at a time; at least 1
	Progress  func(episodes int) // gets how many have ended, one call at a time; may be nil
}

// Share is a part of a number.
type Share struct {
	Count int `json:"count"`
	Of    int `json:"of"`
}

// Percent of the share, 0 of nothing.
func (s Share) Percent() float64 {
	if s.Of == 0 {
		return 0
	}
	return 100 * float64(s.Count) / float64(s.Of)
}

// String is the percentage with the total. It is rounded down, so that a missed goal does
// not look reached.
func (s Share) String() string {
	if s.Of == 0 {
		return "none"
	}
	tenths := 1000 * s.Count / s.Of
	return fmt.Sprintf("%d.%d %% of %d", tenths/10, tenths%10, s.Of)
}

func (s *Share) add(has bool) {
	s.Of++
	if has {
		s.Count++
	}
}

// ByKind are shares by the kind of the planner's decision.
type ByKind [household.Kinds]Share

// MarshalJSON writes the kinds by name.
func (k ByKind) MarshalJSON() ([]byte, error) {
	named := map[string]Share{}
	for kind, share := range k {
		named[household.Kind(kind).String()] = share
	}
	return json.Marshal(named)
}

// Result of a measurement. All but Tasks counts the steps on the planner's path.
type Result struct {
	Episodes int            `json:"episodes"` // that were measured to their end
	Valid    Share          `json:"valid"`    // outputs that are decisions, right or wrong
	Right    Share          `json:"right"`    // decisions as the planner takes them
	Kinds    ByKind         `json:"kinds"`    // Right, in parts
	Calls    Share          `json:"calls"`    // decisions with the planner's calls, or without one as the planner's
	Tasks    Share          `json:"tasks"`    // finished; see Measure
	Errors   map[string]int `json:"errors"`   // outputs that are not decisions, by the code of their error
}

// measurement is a running measurement.
type measurement struct {
	server household.Server
	Options

	mu     sync.Mutex // guards result
	result Result
}

// Measure measures a server in conversations along the planner's path. A different
// decision counts as wrong and is corrected in the server's memory. With Tasks, a copy of
// the conversation continues from there with the server's own decisions. It finishes the
// task with the right final reply within household.Patience times the planner's steps. A
// refusal counts only if the planner refuses too.
//
// With an error the result holds what was measured before.
func Measure(ctx context.Context, s household.Server, o Options) (Result, error) {
	m := &measurement{server: s, Options: o, result: Result{Errors: map[string]int{}}}
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Clients))
	for i := range o.Episodes {
		group.Go(func() error {
			if all.Err() != nil { // of another conversation, or the end
				return all.Err()
			}
			return m.conversation(all, i)
		})
	}
	err := group.Wait()
	return m.result, errors.Join(ctx.Err(), err)
}

// perHouse is the number of conversations in each house, with the same tools. They share
// a long prompt prefix, which is most of the work.
const perHouse = 4

// Episode is the i-th conversation of a measurement.
func (o *Options) Episode(i int) *household.Episode {
	h := household.Options{Split: household.Eval}
	switch o.ToolNames {
	case Unseen:
		h.ToolNames = household.Unseen
	case Reports:
		h.Reports = household.HeldOutReports
	}
	return household.NewGroup(o.house(i), h).Episode(i % perHouse)
}

// streamHouses separates these houses from the houses of data sets, whose stream is the number
// of the group. The held-out houses there were used to tune the training.
const streamHouses = 1 << 63

// house is the seed of the house of the i-th conversation.
func (o *Options) house(i int) uint64 {
	return rand.New(rand.NewPCG(o.Seed, streamHouses+uint64(i/perHouse))).Uint64()
}

// conversation measures the i-th episode.
func (m *measurement) conversation(ctx context.Context, i int) error {
	e := m.Episode(i)
	for !e.Done() {
		if err := m.task(ctx, e); err != nil {
			return err
		}
	}
	m.count(func(r *Result) {
		r.Episodes++
		if m.Progress != nil {
			m.Progress(r.Episodes)
		}
	})
	return nil
}

func (m *measurement) count(f func(*Result)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.result)
}

// task follows the planner's path to the end of a task. The agent is on that path by
// itself up to its first wrong decision.
func (m *measurement) task(ctx context.Context, e *household.Episode) error {
	steps, last := e.Planned()
	goal := aim{budget: household.Patience * steps, refusal: last == household.Refusal}
	finished, strayed := true, false
	for tasks := e.Score().Tasks; e.Score().Tasks == tasks && !e.Done(); goal.budget-- {
		out, err := e.Ask(ctx, m.server)
		if err != nil {
			return err
		}
		right := out.Output != nil && household.Same(*out.Output, e.Expected())
		m.count(func(r *Result) {
			r.Calls.add(out.Output != nil && household.SameCalls(*out.Output, e.Expected()))
			r.Valid.add(out.Output != nil)
			r.Right.add(right)
			r.Kinds[e.Kind()].add(right)
			if out.Error != nil {
				r.Errors[out.Error.Code]++
			}
		})
		if right {
			e.Apply(*out.Output, out.Memory)
			continue
		}
		if m.Tasks && !strayed {
			if finished, err = m.alone(ctx, e.Fork(), out, goal); err != nil {
				return err
			}
		}
		strayed = true
		memory, err := e.Correct(ctx, m.server)
		if err != nil {
			return err
		}
		e.Apply(e.Expected(), memory)
	}
	if m.Tasks {
		m.count(func(r *Result) { r.Tasks.add(finished) })
	}
	return nil
}

// aim is the goal of a task for an agent without corrections.
type aim struct {
	budget  int  // decisions that are left for it
	refusal bool // it may end in one
}

// alone continues without corrections after the agent's first wrong decision, which
// counts. It reports whether the task is finished.
func (m *measurement) alone(ctx context.Context, e *household.Episode, out *protocol.AgentOutput, goal aim) (finished bool, err error) {
	for before := e.Score(); out.Output != nil; {
		refuses := e.Kind() == household.Refusal
		e.Apply(*out.Output, out.Memory)
		goal.budget--
		if now := e.Score(); now.Tasks > before.Tasks {
			return now.Finished > before.Finished && (goal.refusal || !refuses), nil
		}
		if e.Done() || goal.budget == 0 {
			break
		}
		if out, err = e.Ask(ctx, m.server); err != nil {
			return false, err
		}
	}
	return false, nil
}
