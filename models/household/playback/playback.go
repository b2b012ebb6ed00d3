// Package playback is an agent whose model repeats what it was taught, prompt by
// prompt: for tests of what asks an agent and must know what it will answer.
// Everything but the model is the real agent.
package playback

import (
	"context"
	"strings"
	"sync"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/models/household"
	"agentd/models/household/dataset"
	"agentd/protocol"
)

// Lost is what the model says to a prompt that it was not taught.
const Lost = "I am lost."

// Model may be asked by any number of goroutines, and taught by one at a time.
type Model struct {
	agent   *agent.Agent
	mu      sync.RWMutex // guards answers
	answers map[string]string
}

// New is a model that knows nothing.
func New() (*Model, error) {
	a, err := dataset.NewAgent()
	return &Model{agent: a, answers: map[string]string{}}, err
}

// Decide answers a request as the agent server does.
func (m *Model) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return m.run(ctx, req, m.recall)
}

// Responses is Decide as clients call it.
func (m *Model) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return m.Decide(ctx, req)
}

func (m *Model) recall(prompt string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if answer, ok := m.answers[prompt]; ok {
		return answer
	}
	return Lost
}

// Planner writes the planner's decision.
func Planner(e *household.Episode) (string, error) { return dataset.Notation(e.Expected()) }

// Teach takes an episode to its end, or to an answer that is no decision, and
// teaches the model to give the same answers. What it learned of a prompt before
// is forgotten.
func (m *Model) Teach(ctx context.Context, e *household.Episode, answer func(*household.Episode) (string, error)) error {
	for !e.Done() {
		text, err := answer(e)
		if err != nil {
			return err
		}
		out, err := e.Ask(ctx, pupil{m, text})
		if err != nil {
			return err
		}
		if out.Output == nil {
			return nil
		}
		e.Apply(*out.Output, out.Memory)
	}
	return nil
}

// pupil is a model that is being taught an answer.
type pupil struct {
	*Model
	answer string
}

// Responses gives the answer and keeps it.
func (p pupil) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return p.run(ctx, req, func(prompt string) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers[prompt] = p.answer
		return p.answer
	})
}

func (m *Model) run(ctx context.Context, req *protocol.AgentRequest, speak speaker) ([]protocol.AgentOutput, error) {
	plan, err := m.agent.Prepare(req)
	if err != nil {
		return nil, err
	}
	return m.agent.Run(ctx, plan, speak)
}

// speaker is a generator that answers prompts.
type speaker func(prompt string) string

// Generate answers every prompt as often as it was asked.
func (s speaker) Generate(_ context.Context, gs []agent.Generation, done func(int, agent.Result, error)) {
	for i := range gs {
		var r agent.Result
		for range gs[i].N {
			r.Completions = append(r.Completions, agent.Completion{Text: s(text(gs[i].Prompt)), Finish: agent.FinishStop})
		}
		done(i, r, nil)
	}
}

func text(prompt []format.Segment) string {
	var b strings.Builder
	for _, p := range prompt {
		b.WriteString(p.Text)
	}
	return b.String()
}
