package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentd/defaultmodel/household"
	"agentd/protocol"
)

// PerHouse is the number of conversations in each house of a round. Their prompts share a
// prefix.
const PerHouse = 8

// streamRounds separates the houses of rounds from those of data sets, whose stream is
// the number of the group, and from those of measurements, whose stream is above 1 << 63.
const streamRounds = 1 << 62

// houseSeed is the seed of a house of a round, for household.NewGroup. Rounds count from 1.
func houseSeed(seed uint64, round, house int) uint64 {
	return rand.New(rand.NewPCG(seed, streamRounds+uint64(round)<<32+uint64(house))).Uint64()
}

// houseOptions are those of the training's houses, half of which are busy. In half of
// these and of the others, inputs have robot_statuses.
func houseOptions(house int) household.Options {
	return household.Options{Split: household.Train, Busy: house%2 == 0, Statuses: house%4 < 2}
}

// Agent is what a round needs of an agent server; a client of package protocol/client.
type Agent interface {
	household.Server
	PutCoachingSession(ctx context.Context, runID string, c *protocol.CoachingSessionConfig) error
	Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error)
	DeleteCoachingSession(ctx context.Context, runID string) error
}

// Work counts what happened in houses.
type Work struct {
	Tasks       int `json:"tasks"`
	Decisions   int `json:"decisions"`
	Corrections int `json:"corrections"` // decisions that the coach replaced: its calls
}

func (w *Work) add(o Work) {
	w.Tasks += o.Tasks
	w.Decisions += o.Decisions
	w.Corrections += o.Corrections
}

// CallsPer100 is the number of coach calls for 100 tasks; 0 of no task.
func (w Work) CallsPer100() float64 {
	if w.Tasks == 0 {
		return 0
	}
	return 100 * float64(w.Corrections) / float64(w.Tasks)
}

// worker lets an agent work in a house and writes down the exchanges.
type worker struct {
	agent    Agent
	coach    *Coach
	coachURL string
	name     string // of the house, unique among those that work at once

	mu        sync.Mutex // guards the rest
	exchanges [PerHouse]bytes.Buffer
	work      Work
}

// house runs all conversations of a house. It returns the exchanges as agentd export
// reads them: wrong decisions have the outcome failure, right ones and corrections
// success.
func (w *worker) house(ctx context.Context, g *household.Group) (Work, []byte, error) {
	group, all := errgroup.WithContext(ctx)
	for i := range PerHouse {
		group.Go(func() error { return w.conversation(all, i, g.Episode(i)) })
	}
	err := group.Wait()
	var lines []byte
	for i := range w.exchanges {
		lines = append(lines, w.exchanges[i].Bytes()...)
	}
	return w.work, lines, err
}

func (w *worker) conversation(ctx context.Context, i int, e *household.Episode) (err error) {
	run := fmt.Sprintf("%s-%d", w.name, i)
	opened := false
	defer func() {
		w.coach.Forget(run)
		if opened {
			err = errors.Join(err, w.agent.DeleteCoachingSession(context.WithoutCancel(ctx), run))
		}
	}()
	for step := int64(1); !e.Done(); step++ {
		in := e.Input()
		in.ExtraKeys = protocol.AppendMember(in.ExtraKeys, "return", protocol.Raw(`["token_ids","logprobs"]`))
		request := &protocol.AgentRequest{RequestID: fmt.Sprintf("%s-%d", run, step), Inputs: []protocol.AgentInput{in}}
		out, err := w.ask(ctx, request)
		if err != nil {
			return err
		}
		right := out.Output != nil && household.Same(*out.Output, e.Expected())
		w.note(i, run, request, out, right)
		if !right {
			if !opened {
				if err := w.agent.PutCoachingSession(ctx, run, w.session(run)); err != nil {
					return err
				}
				opened = true
			}
			if out, err = w.correct(ctx, i, run, step, e, request, out); err != nil {
				return fmt.Errorf("%s: %w", request.RequestID, err)
			}
		}
		e.Apply(*out.Output, out.Memory)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.work.Tasks += e.Score().Tasks
	w.work.Decisions += e.Score().Decisions
	return nil
}

// session names the coach of a run.
func (w *worker) session(run string) *protocol.CoachingSessionConfig {
	c := protocol.NewCoachingSessionConfig()
	c.CaptureLogs = false
	b := protocol.NewCoachingBackend("planner", protocol.BackendOpenAI)
	b.Endpoint, b.DefaultModel = w.coachURL+"/"+run+"/v1", "planner"
	c.Backends = []protocol.CoachingBackend{b}
	return c
}

// correct asks for the repair of a wrong step and posts it.
func (w *worker) correct(ctx context.Context, i int, run string, step int64, e *household.Episode, wrong *protocol.AgentRequest, out *protocol.AgentOutput) (*protocol.AgentOutput, error) {
	w.coach.Expect(run, e.Expected())
	in := wrong.Inputs[0]
	kind := protocol.CoachingSuboptimal
	if out.Output == nil {
		kind = protocol.CoachingFailure
	}
	repair, err := w.agent.Coach(ctx, &protocol.SpecializedCoachingRequest{
		RunID: run, RequestID: wrong.RequestID, Kind: kind, TargetStepID: step,
		Stage:             protocol.CoachingStage{ID: new(int64), Goal: "Each decision is the planner's."},
		Trajectory:        []protocol.TrajectoryStep{{ID: step, Input: in, Output: out.Output, Error: out.Error}},
		ReinjectionPoints: []protocol.ReinjectionPoint{{ID: point, InputStepID: &step}},
	})
	if err != nil {
		return nil, err
	}
	if repair.Status != protocol.CoachingCorrected {
		return nil, fmt.Errorf("coaching ended as %s: %s", repair.Status, repair.Reason)
	}
	in.ExtraKeys = protocol.AppendMember(protocol.Raw(`{"inference_mode":true}`), "coaching", repair.Proposals[0].ExtraKeys)
	request := &protocol.AgentRequest{RequestID: wrong.RequestID, Inputs: []protocol.AgentInput{in}}
	out, err = w.ask(ctx, request)
	switch {
	case err != nil:
		return nil, err
	case out.Output == nil:
		return nil, fmt.Errorf("the agent takes no correction: %s: %s", out.Error.Code, out.Error.Message)
	case !household.Same(*out.Output, e.Expected()):
		return nil, fmt.Errorf("the correction became another decision: %s", out.Output.AppendJSON(nil))
	}
	w.note(i, run, request, out, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.work.Corrections++
	return out, nil
}

func (w *worker) ask(ctx context.Context, request *protocol.AgentRequest) (*protocol.AgentOutput, error) {
	outs, err := w.agent.Responses(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(outs) != 1 {
		return nil, fmt.Errorf("the agent gave %d answers to one question", len(outs))
	}
	return &outs[0], nil
}

// note writes down an exchange.
func (w *worker) note(i int, run string, request *protocol.AgentRequest, out *protocol.AgentOutput, right bool) {
	outcome := "failure"
	if right {
		outcome = "success"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.exchanges[i], "{\"request\": %s, \"response\": %s, \"outcomes\": [{\"outcome\": %q}], \"run_id\": %s}\n",
		request.AppendJSON(nil), protocol.EncodeResponse([]protocol.AgentOutput{*out}), outcome, protocol.String(run))
}
