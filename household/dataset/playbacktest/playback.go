// Package playbacktest has an agent, for tests, whose model repeats what it was taught.
package playbacktest

import (
	"context"
	"strings"
	"sync"

	"agentd/agent"
	"agentd/household"
	"agentd/household/dataset"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Untaught is Playback's answer to a prompt that it was not taught.
const Untaught = "I am lost."

// Playback is an agent whose model repeats the answers it was taught, prompt by
// prompt. Everything but
// the model is the real agent. Any number of goroutines may ask it; one at a time
// may teach it.
type Playback struct {
	agent   *agent.Agent
	mu      sync.RWMutex // guards answers
	answers map[string]string
}

// New returns a Playback that was taught nothing.
func New() (*Playback, error) {
	a, err := dataset.NewAgent(agent.ConstrainOff)
	return &Playback{agent: a, answers: map[string]string{}}, err
}

// Decide answers a request as the agent server does.
func (p *Playback) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return p.run(ctx, req, p.recall)
}

// Responses is Decide as clients call it.
func (p *Playback) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return p.Decide(ctx, req)
}

func (p *Playback) recall(prompt string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if answer, ok := p.answers[prompt]; ok {
		return answer
	}
	return Untaught
}

// PlannerAnswer is the planner's decision as the model writes it.
func PlannerAnswer(e *household.Episode) (string, error) { return dataset.Notation(e.Expected()) }

// Teach runs an episode to its end, or to an answer that is not a decision. The model
// will repeat these answers; a later lesson replaces an earlier one for a prompt.
func (p *Playback) Teach(ctx context.Context, e *household.Episode, answer func(*household.Episode) (string, error)) error {
	for !e.Done() {
		text, err := answer(e)
		if err != nil {
			return err
		}
		out, err := e.Ask(ctx, lesson{p, text})
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

// lesson answers every prompt with one text and remembers it.
type lesson struct {
	*Playback
	answer string
}

// Responses returns the answer and stores it under the prompt.
func (l lesson) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return l.run(ctx, req, func(prompt string) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answers[prompt] = l.answer
		return l.answer
	})
}

func (p *Playback) run(ctx context.Context, req *protocol.AgentRequest, speak speaker) ([]protocol.AgentOutput, error) {
	plan, err := p.agent.Prepare(req, nil)
	if err != nil {
		return nil, err
	}
	return p.agent.Run(ctx, plan, speak)
}

// speaker is a generator made of a function from prompt to answer.
type speaker func(prompt string) string

// GenerateAll returns N completions for each prompt.
func (s speaker) GenerateAll(_ context.Context, requests []generation.Request, done func(int, *generation.Result, error)) {
	for i := range requests {
		var prompt strings.Builder
		for _, p := range dataset.Pieces(requests[i].Prompt) {
			prompt.WriteString(p.Text)
		}
		r := new(generation.Result)
		for range requests[i].N {
			c := generation.Completion{Text: s(prompt.String()), Finish: generation.FinishStop}
			r.Completions = append(r.Completions, c)
		}
		done(i, r, nil)
	}
}

// Keep does nothing: there is no queue.
func (speaker) Keep(int) {}
