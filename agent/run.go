package agent

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Run makes the candidates of a plan, those of the first input first. Failures
// are candidates with an error; Run itself fails only when the context was
// cancelled or the generator is closed.
func (a *Agent) Run(ctx context.Context, p *Plan, g Generator) ([]protocol.AgentOutput, error) {
	outputs := make([]protocol.AgentOutput, p.outputs)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentInputs)
	for i := range p.jobs {
		j := &p.jobs[i]
		mine := outputs[j.first : j.first+j.in.NumOutputs]
		for k := range mine {
			mine[k] = protocol.AgentOutput{RequestID: p.requestID, SourceID: j.in.ID, CandidateIndex: k}
		}
		group.Go(func() (err error) {
			defer func() { // a defect costs this input, not the server
				if p := recover(); p != nil {
					j.failAll(mine, CodeModelError, ComponentCommander, fmt.Errorf("the agent failed: %v", p))
				}
			}()
			return a.runInput(groupCtx, p.requestID, j, g, mine)
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return outputs, nil
}

// runInput makes the candidates of one input.
func (a *Agent) runInput(ctx context.Context, requestID string, j *job, g Generator, out []protocol.AgentOutput) error {
	if j.correction != nil {
		a.correct(j, out)
		return nil
	}
	if j.toolsErr != nil {
		j.failAll(out, CodeInvalidTools, ComponentCommander, j.toolsErr)
		return nil
	}
	generation, prompt, failure := a.generation(requestID, j)
	if failure != nil {
		j.failAll(out, failure.code, ComponentCommander, failure.err)
		return nil
	}
	result, err := g.Generate(ctx, generation)
	if err == nil && len(result.Completions) != generation.N {
		err = ModelError{fmt.Errorf("%d completions came back where %d were asked for", len(result.Completions), generation.N)}
	}
	if err != nil {
		if ends(err) {
			return err
		}
		code, component := classify(err)
		j.failAll(out, code, component, err)
		return nil
	}

	turn := j.memory.Prepare(j.author(), j.in.Instruction.Content)
	step := newStep(j, prompt, protocol.OriginModel)
	for k := range result.Completions {
		c := &result.Completions[k]
		if c.Err != nil && ends(c.Err) {
			return c.Err
		}
		a.candidate(&out[k], j, turn, step, &result, c, generation.Seeds[k])
	}
	for k := generation.N; k < len(out); k++ { // deterministic: the same again
		index := out[k].CandidateIndex
		out[k] = out[0]
		out[k].CandidateIndex = index
	}
	return nil
}

// failure is why no generation could be made.
type failure struct {
	code string
	err  error
}

// generation asks for the candidates of an input.
func (a *Agent) generation(requestID string, j *job) (Generation, *format.Prompt, *failure) {
	prompt, err := a.format.Render(j.input(a.cfg.HistoryMaxMessages))
	if err != nil {
		return Generation{}, nil, &failure{CodeModelError, err}
	}
	g := Generation{
		Prompt: prompt.Pieces, N: j.sequences(), MaxTokens: a.cfg.MaxNewTokens,
		Greedy: j.greedy, Sampling: a.cfg.Sampling, SuppressControl: a.format.SuppressControl(),
	}
	g.Seeds = seeds(a.cfg.Seed, requestID, j.in.ID, g.N)
	if a.cfg.Constrain == ConstrainOn {
		if g.Grammar, err = j.catalog.Grammar(); err != nil {
			return Generation{}, nil, &failure{CodeInvalidTools, err}
		}
	}
	return g, prompt, nil
}

// candidate makes one candidate of a completion.
func (a *Agent) candidate(out *protocol.AgentOutput, j *job, turn *memory.Append, step *stepMaker,
	result *Result, c *Completion, seed uint32,
) {
	if c.Err != nil {
		code, component := classify(c.Err)
		j.fail(out, code, component, c.Err)
		return
	}
	decision, err := a.format.Parse(c.Text, j.catalog)
	code := CodeInvalidOutput
	if c.Finish == FinishLength {
		code = CodeTruncated
		err = fmt.Errorf("the answer reached the limit of %d new tokens before it ended; raise --max-new-tokens if it should be longer",
			c.Tokens)
	}
	a.log.write(step.prompt, c.Text+c.Stop, err)
	out.InternalSteps = []protocol.Raw{step.model(result, c, seed, decision.Reasoning)}
	if err != nil {
		j.fail(out, code, ComponentCommander, err)
		return
	}
	j.complete(out, turn, decision, j.change(decision, a.format.ResetsState()))
}

// change is what a decision does to the reasoning in the memory.
func (j *job) change(d format.Decision, resets bool) memory.Change {
	c := memory.Change{Final: d.Say != "", NewTask: resets && j.newTask()}
	if len(d.Calls) > 0 {
		c.Reasoning = d.Reasoning
	}
	return c
}

// complete makes a candidate a completed one.
func (j *job) complete(out *protocol.AgentOutput, turn *memory.Append, d format.Decision, change memory.Change) {
	out.Status = protocol.StatusCompleted
	out.Output = &protocol.AgentDecision{Say: d.Say, ToolCalls: toolCalls(d.Calls)}
	out.Memory = turn.Decision(memory.AppendDecision(nil, d.Say, d.Calls), change)
}

func toolCalls(calls []tools.Call) []protocol.ToolCall {
	if len(calls) == 0 {
		return nil
	}
	list := make([]protocol.ToolCall, len(calls))
	for i, c := range calls {
		list[i] = protocol.ToolCall{Name: c.Name, Arguments: c.Arguments, TargetRobotName: c.Robot}
	}
	return list
}

// fail makes a candidate an error; its memory is the input's.
func (j *job) fail(out *protocol.AgentOutput, code, component string, err error) {
	out.Status, out.Output = protocol.StatusError, nil
	out.Memory = j.in.Memory
	out.Error = &protocol.AgentError{Code: code, Message: err.Error(), Component: component}
}

func (j *job) failAll(out []protocol.AgentOutput, code, component string, err error) {
	for k := range out {
		j.fail(&out[k], code, component, err)
	}
}

// ends reports whether an error ends the whole request.
func ends(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed)
}
