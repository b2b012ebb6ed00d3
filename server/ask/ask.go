// Package ask lets coaches choose if a model is unsure between the options of a decision.
package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/agent"
	"agentd/internal/base/budget"
	"agentd/protocol"
)

// Coach answers requests for repairs. A *coaching.Service is one; errors are as there.
type Coach interface {
	Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error)
}

// Decider decides requests. A *live.Service is one.
type Decider interface {
	DecideEach(
		ctx context.Context, req *protocol.AgentRequest, begun func(), each func(input int, out *protocol.AgentOutput),
	) ([]protocol.AgentOutput, error)
}

// Asker adds the choices of coaches to a Decider. If the set of an input with extra_keys.ask has several options, the
// coaches of that session choose one. Without a choice the most probable option stays. Make it with New.
type Asker struct {
	coach   Coach         // nil: coaching is off
	wait    time.Duration // how long an answer waits for a coach at most
	waiting atomic.Int64  // number of decisions that wait
	counts  *prometheus.CounterVec
}

// New makes an Asker that waits at most wait for a coach; coach may be nil. It fails if its metrics are registered.
func New(coach Coach, wait time.Duration, registry prometheus.Registerer) (*Asker, error) {
	a := &Asker{coach: coach, wait: wait}
	a.counts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_asks_total",
		Help: "Decisions with extra_keys.ask, by outcome (sure: nobody was asked; chosen: by a coach; fallback: the most probable option).",
	}, []string{"outcome"})
	for _, outcome := range []string{agent.AskSure, agent.AskChosen, agent.AskFallback} {
		a.counts.WithLabelValues(outcome)
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "agentd_asks_waiting", Help: "Decisions that wait for a coach to choose."},
		func() float64 { return float64(a.Waiting()) })
	return a, errors.Join(registry.Register(a.counts), registry.Register(gauge))
}

// Waiting returns the number of decisions that wait for a coach.
func (a *Asker) Waiting() int { return int(a.waiting.Load()) }

// DecideEach is the DecideEach of d with the choices of coaches. begun and each may be nil.
func (a *Asker) DecideEach(
	ctx context.Context, d Decider, req *protocol.AgentRequest, begun func(), each func(input int, out *protocol.AgentOutput),
) ([]protocol.AgentOutput, error) {
	sessions := map[int]string{} // by the index of the input
	for i := range req.Inputs {
		raw, _ := protocol.Get(req.Inputs[i].ExtraKeys, agent.KeyAsk)
		if session, ok := protocol.Text(raw); ok {
			sessions[i] = session
		}
	}
	if len(sessions) == 0 {
		return d.DecideEach(ctx, req, begun, each)
	}
	if begun == nil {
		begun = func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	settled := make([]*protocol.AgentOutput, len(req.Inputs))
	outs, err := d.DecideEach(ctx, req, begun, func(i int, out *protocol.AgentOutput) {
		session, asks := sessions[i]
		if !asks {
			if each != nil {
				each(i, out)
			}
			return
		}
		settled[i] = out
		asking.Go(func() {
			settled[i] = a.settle(ctx, d, req, i, session, out)
			if each != nil && !errors.Is(ctx.Err(), context.Canceled) {
				each(i, settled[i])
			}
		})
	})
	if err != nil {
		cancel()
	}
	asking.Wait()
	if err == nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	at := 0
	for i := range req.Inputs {
		if settled[i] != nil {
			outs[at] = *settled[i]
		}
		at += req.Inputs[i].NumOutputs
	}
	return outs, nil
}

// stated has the members of a step of an answer with options.
type stated struct {
	Probabilities []float64 `json:"probabilities"`
	Ask           *struct {
		Set     []int  `json:"set"`
		Outcome string `json:"outcome"`
	} `json:"ask"`
}

// where is the path in a step of the object about its candidate.
var where = []string{"input_elements", "generation", "candidate"}

// settle asks the coaches if the set of an answer has several options, and returns the answer with their choice.
func (a *Asker) settle(ctx context.Context, d Decider, req *protocol.AgentRequest, input int, session string, out *protocol.AgentOutput) *protocol.AgentOutput {
	in := &req.Inputs[input]
	var t stated
	if out.Output == nil || len(out.InternalSteps) == 0 {
		return out
	}
	last := len(out.InternalSteps) - 1
	step := out.InternalSteps[last]
	if json.Unmarshal(at(step, where...), &t) != nil || t.Ask == nil {
		return out
	}
	if t.Ask.Outcome == agent.AskSure {
		a.counts.WithLabelValues(agent.AskSure).Inc()
		return out
	}
	answered := *out
	chosen, err := a.ask(ctx, req.RequestID, session, in, out, &t)
	if err == nil {
		var corrected *protocol.AgentOutput
		if corrected, err = correct(ctx, d, req, in, chosen); err == nil {
			answered.Output, answered.Memory = corrected.Output, corrected.Memory
			generated := at(step, where[:2]...)
			step = set(corrected.InternalSteps[0], generated, where[:2]...)
		}
	}
	ask := at(step, append(where, "ask")...)
	outcome := agent.AskChosen
	if err != nil {
		outcome = agent.AskFallback
		ask = protocol.SetMember(ask, "reason", protocol.String(err.Error()))
	} else {
		ask = protocol.DeleteMember(ask, "reason")
		ask = protocol.SetMember(ask, "option", fmt.Appendf(nil, "%d", chosen.index))
	}
	a.counts.WithLabelValues(outcome).Inc()
	ask = protocol.SetMember(ask, "outcome", protocol.String(outcome))
	answered.InternalSteps = append(append([]protocol.Raw(nil), out.InternalSteps[:last]...), set(step, ask, append(where, "ask")...))
	return &answered
}

// at returns the member at a path of nested objects.
func at(v protocol.Raw, path ...string) protocol.Raw {
	for _, name := range path {
		v, _ = protocol.Get(v, name)
	}
	return v
}

// set returns v with the member at a path of nested objects replaced.
func set(v, member protocol.Raw, path ...string) protocol.Raw {
	for i, name := range slices.Backward(path) {
		member = protocol.SetMember(at(v, path[:i]...), name, member)
	}
	return member
}

// option is one of an input's options.
type option struct {
	index    int
	decision *protocol.AgentDecision
}

// ask lets the coaches of a session choose an option. The error says why they chose none.
func (a *Asker) ask(ctx context.Context, requestID, session string, in *protocol.AgentInput, out *protocol.AgentOutput, t *stated) (chosen option, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("asking failed: %v", p)
		}
	}()
	if a.coach == nil {
		return option{}, errors.New("coaching is off on this server")
	}
	raw, _ := protocol.Get(in.ExtraKeys, agent.KeyOptions)
	ask, options, err := question(requestID, session, in, out, t, raw)
	if err != nil {
		return option{}, err
	}
	if err := budget.Add(ctx, coachingCopies*int64(len(raw)+len(in.Memory)+len(in.Attributes))); err != nil {
		return option{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	res, err := a.coach.Coach(waiting, ask)
	switch {
	case errors.Is(waiting.Err(), context.DeadlineExceeded) && err != nil:
		return option{}, fmt.Errorf("no coach chose within %s, or within the request's time", a.wait)
	case err != nil:
		return option{}, err
	case res.Status != protocol.CoachingCorrected:
		return option{}, fmt.Errorf("no coach chose: %s", res.Reason)
	}
	correction, err := protocol.DecodeCorrection(res.Proposals[0].ExtraKeys)
	if err != nil {
		return option{}, fmt.Errorf("the coach's decision can't be read: %w", err)
	}
	decision := correction.Corrected()
	key := agent.DecisionKey(&decision)
	for i, d := range options {
		if agent.DecisionKey(d) == key {
			return option{i, d}, nil
		}
	}
	return option{}, errors.New("the coach's decision is not one of the options")
}

// coachingCopies is the number of copies in memory of a question to coaches, as with POST /v1/coaching.
const coachingCopies = 3

// Names in a coaching request about an unsure decision.
const (
	pointID    = "now"
	codeUnsure = "unsure"
)

// question returns the coaching request about a decision that is not taken yet, and its options. A repeated request
// gets the same id, so that coaches are asked once.
func question(
	requestID, session string, in *protocol.AgentInput, out *protocol.AgentOutput, t *stated, raw protocol.Raw,
) (*protocol.SpecializedCoachingRequest, []*protocol.AgentDecision, error) {
	var options []*protocol.AgentDecision
	for e := range protocol.Elements(raw) {
		d, err := agent.Option(e)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, d)
	}
	var b strings.Builder
	b.WriteString("The agent has not decided yet: it is unsure between these options, most probable first. Choose one of its options, and give it as the decision without a change.")
	for _, i := range t.Ask.Set {
		if i < 0 || i >= min(len(options), len(t.Probabilities)) {
			return nil, nil, fmt.Errorf("the set has option %d of %d", i, len(options))
		}
		fmt.Fprintf(&b, "\n- %.1f %%: %s", 100*t.Probabilities[i], options[i].AppendJSON(nil))
	}
	// What the prefix cache had must not make the same question another one.
	steps := slices.Clone(out.InternalSteps)
	steps[len(steps)-1] = set(steps[len(steps)-1], protocol.Raw("0"), where[0], where[1], "cached_tokens")
	step := int64(0)
	e := &protocol.AgentError{Code: codeUnsure, Message: b.String(), Component: agent.ComponentCommander}
	return &protocol.SpecializedCoachingRequest{
		RunID: session, RequestID: fmt.Sprintf("ask-%s-%d", requestID, in.ID), Kind: protocol.CoachingFailure,
		Stage:             protocol.CoachingStage{Goal: "Choose the right one of the agent's options."},
		TargetStepID:      step,
		Trajectory:        []protocol.TrajectoryStep{{ID: step, Input: *in, Error: e, InternalSteps: steps}},
		ReinjectionPoints: []protocol.ReinjectionPoint{{ID: pointID, InputStepID: &step}},
		AdditionalInfo:    protocol.AppendMember(nil, agent.KeyOptions, raw),
	}, options, nil
}

// correct returns the answer to an input with the chosen option, as a correction: the model computes nothing.
func correct(ctx context.Context, d Decider, req *protocol.AgentRequest, in *protocol.AgentInput, chosen option) (*protocol.AgentOutput, error) {
	again := *in
	again.ExtraKeys = protocol.AppendMember(nil, "coaching", protocol.CorrectionTo(chosen.decision).AppendJSON(nil))
	outs, err := d.DecideEach(ctx, &protocol.AgentRequest{RequestID: req.RequestID, Inputs: []protocol.AgentInput{again}}, nil, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the choice could not be applied: %w", err)
	case outs[0].Output == nil:
		return nil, fmt.Errorf("the choice could not be applied: %s", outs[0].Error.Message)
	}
	return &outs[0], nil
}
