package learn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"agentd/defaultmodel/evaluate"
	"agentd/defaultmodel/household"
)

// decided is a held-out decision of a model.
type decided struct {
	Statuses bool           `json:"statuses"` // in a house with robot_statuses
	Kind     household.Kind `json:"kind"`     // of the planner's decision
	Right    bool           `json:"right"`
}

// held are the held-out decisions of a model. Those of two models are in the same order.
type held []decided

func (h held) right() []bool {
	list := make([]bool, len(h))
	for i := range h {
		list[i] = h[i].Right
	}
	return list
}

// Shares of the held-out decisions that are right.
type Shares struct {
	Known    evaluate.Share `json:"known"`    // in houses as agentd eval has them
	Statuses evaluate.Share `json:"statuses"` // in houses with robot_statuses and cancel_current_action
	Several  evaluate.Share `json:"several"`  // calls of several robots, in both
}

func (h held) shares() (s Shares) {
	add := func(to *evaluate.Share, right bool) {
		to.Of++
		if right {
			to.Count++
		}
	}
	for _, d := range h {
		if d.Statuses {
			add(&s.Statuses, d.Right)
		} else {
			add(&s.Known, d.Right)
		}
		if d.Kind == household.SeveralCalls {
			add(&s.Several, d.Right)
		}
	}
	return s
}

// blockSize is the number of held-out conversations that are measured at once. What a
// block measured is kept if the run is killed.
const blockSize = 20

// block is some held-out conversations.
type block struct {
	first, count int
	statuses     bool
}

func (b block) houses() string {
	if b.statuses {
		return evaluate.Statuses
	}
	return evaluate.Plain
}

// blocks of all held-out conversations: HeldOut as agentd eval has them, then half as many
// in further houses with robot_statuses.
func (o *Options) blocks() (list []block) {
	end := o.HeldOut
	for first := 0; first < end; first += blockSize {
		list = append(list, block{first, min(blockSize, end-first), false})
	}
	begin := (o.HeldOut + blockSize - 1) / blockSize * blockSize // another house
	end = begin + (o.HeldOut+1)/2
	for first := begin; first < end; first += blockSize {
		list = append(list, block{first, min(blockSize, end-first), true})
	}
	return list
}

// measure asks a model for the held-out decisions, except those that it was asked for.
// Those of round 0 are the first model's.
func (l *loop) measure(ctx context.Context, round int, model string) (held, error) {
	folder := filepath.Join(l.folder(round), heldFolder)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	file := func(b block) string { return filepath.Join(folder, fmt.Sprintf("from-%04d.json", b.first)) }
	var missing []block
	for _, b := range l.blocks() {
		if !exists(file(b)) {
			missing = append(missing, b)
		}
	}
	if len(missing) > 0 {
		l.Log("round %d: measuring in held-out houses", round)
		err := l.with(ctx, model, func(s Server) error {
			for _, b := range missing {
				list, err := l.block(ctx, s, b)
				if err != nil {
					return err
				}
				if err := writeJSON(file(b), list); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var all held
	for _, b := range l.blocks() {
		var list []held
		if _, err := readJSON(file(b), &list); err != nil {
			return nil, err
		}
		for _, episode := range list {
			all = append(all, episode...)
		}
	}
	return all, nil
}

// block measures some conversations.
func (l *loop) block(ctx context.Context, s Server, b block) ([]held, error) {
	list := make([]held, b.count)
	_, err := evaluate.Measure(ctx, s, evaluate.Options{
		First: b.first, Episodes: b.count, Seed: l.HeldOutSeed, ToolNames: evaluate.Known, Houses: b.houses(), Clients: l.Clients,
		Decided: func(episode int, kind household.Kind, right bool) {
			own := &list[episode-b.first]
			*own = append(*own, decided{b.statuses, kind, right})
		},
	})
	return list, err
}
