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
// cancelled, the generator is closed, or all candidates together would be too large
// (protocol.Problems).
//
// All prompts are made before the first one is generated: the generator gets
// them together and in order, so that the same request is computed in the same
// way whatever the goroutines of its inputs do. Where memories have to be shortened
// first, all of that is generated together, too, before the candidates.
func (a *Agent) Run(ctx context.Context, p *Plan, g Generator) ([]protocol.AgentOutput, error) {
	tasks := a.prepareAll(ctx, p)
	if err := ctx.Err(); ends(err) {
		return nil, err
	}
	if n := returned(p.requestID, tasks); n > maxReturned {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, fmt.Sprintf(
			"would make an answer of about %d bytes, since every candidate returns its memory, tools and prompt, and the request_id; at most %d are possible: send fewer candidates, inputs, tools or robots",
			n, maxReturned), "inputs")}
	}
	if r, ok := g.(Reserved); ok {
		r.AtMost(completions(tasks))
	}
	ask(ctx, g, tasks, (*task).first, func(t *task, r Result, err error) { a.shorten(ctx, t, r, err) })
	ask(ctx, g, tasks, (*task).second, a.finish)
	outputs := make([]protocol.AgentOutput, 0, p.outputs)
	for _, t := range tasks {
		if t.ended != nil {
			if err := ctx.Err(); ends(err) {
				return nil, err
			}
			return nil, t.ended
		}
		outputs = append(outputs, t.out...)
	}
	return outputs, nil
}

// task is one input on its way to its candidates.
type task struct {
	job        *job
	out        []protocol.AgentOutput
	generation Generation
	prompt     *format.Prompt // nil when nothing is to be generated
	shortening *shortening    // what is generated before, nil when nothing is
	steps      []protocol.Raw // those of shortening
	ended      error          // the request is over: see ends
}

// first is what shall be generated before the candidates.
func (t *task) first() *Generation {
	if t.shortening == nil {
		return nil
	}
	return &t.shortening.generation
}

// second is what shall be generated for the candidates.
func (t *task) second() *Generation {
	if t.prompt == nil || t.ended != nil {
		return nil
	}
	return &t.generation
}

// ask has what tasks wait for generated, all of it together. When the time is up
// before, nothing is generated.
func ask(ctx context.Context, g Generator, tasks []*task, of func(*task) *Generation, done func(*task, Result, error)) {
	late := ctx.Err()
	var asked []Generation
	var waiting []*task
	for _, t := range tasks {
		switch generation := of(t); {
		case generation == nil:
		case late != nil:
			done(t, Result{}, late)
		default:
			asked = append(asked, *generation)
			waiting = append(waiting, t)
		}
	}
	if len(asked) > 0 {
		g.Generate(ctx, asked, func(i int, r Result, err error) { done(waiting[i], r, err) })
	}
}

// completions is how many will be asked for at most.
func completions(tasks []*task) (n int) {
	for _, t := range tasks {
		if t.prompt != nil {
			n += t.generation.N
		}
		if t.shortening != nil {
			n += t.shortening.generation.N
		}
	}
	return n
}

// returned is about how many bytes the candidates of a request's tasks have.
func returned(requestID string, tasks []*task) (bytes int) {
	for _, t := range tasks {
		each := len(requestID) + len(t.job.in.Memory) + len(t.job.in.Instruction.Content)
		switch {
		case t.prompt != nil:
			each += len(t.prompt.Text) + len(t.prompt.Messages) + len(t.prompt.Tools) + len(t.job.in.Attributes)
		case len(t.out) > 0:
			for _, step := range t.out[0].InternalSteps {
				each += len(step)
			}
		}
		if s := t.shortening; s != nil {
			each += len(s.prompt.Text) + len(s.prompt.Messages) + len(s.prompt.Tools) + len(t.job.in.Attributes)
		}
		bytes += len(t.out) * each
	}
	return bytes
}

// guard makes a defect cost this input, not the server.
func (t *task) guard() {
	if p := recover(); p != nil {
		t.fail(&failure{CodeModelError, ComponentCommander, fmt.Errorf("the agent failed: %v", p)})
	}
}

// fail makes all candidates errors, unless the request is over.
func (t *task) fail(f *failure) {
	t.prompt, t.shortening = nil, nil
	if ends(f.err) {
		t.ended = f.err
		return
	}
	t.job.failAll(t.out, f.code, f.component, f.err)
	for k := range t.out {
		t.out[k].InternalSteps = t.steps
	}
}

// prepareAll prepares the inputs of a plan concurrently.
func (a *Agent) prepareAll(ctx context.Context, p *Plan) []*task {
	tasks := make([]*task, len(p.jobs))
	var group errgroup.Group
	group.SetLimit(maxConcurrentInputs)
	for i := range p.jobs {
		t := &task{job: &p.jobs[i]}
		tasks[i] = t
		group.Go(func() error {
			defer t.guard()
			t.out = make([]protocol.AgentOutput, t.job.in.NumOutputs)
			for k := range t.out {
				t.out[k] = protocol.AgentOutput{RequestID: p.requestID, SourceID: t.job.in.ID, CandidateIndex: k}
			}
			// Nobody waits for it any more; a correction takes no time.
			if err := ctx.Err(); ends(err) || err != nil && t.job.correction == nil {
				a.finish(t, Result{}, err)
				return nil
			}
			a.prepare(ctx, p.requestID, t)
			return nil
		})
	}
	_ = group.Wait() // no function of it fails
	return tasks
}

// prepare makes the prompt of an input, or its candidates where that needs no
// model.
func (a *Agent) prepare(ctx context.Context, requestID string, t *task) {
	j := t.job
	j.catalog, j.toolsErr = a.catalogs.get(j.in.Tools, tools.KnownRobots(j.in.Attributes))
	switch {
	case j.correction != nil && !a.memory.corrects():
		j.failAll(t.out, CodeInvalidCoaching, ComponentCommander, errNoCorrections)
		return
	case j.correction != nil:
		a.correct(j, t.out)
		return
	case j.toolsErr != nil:
		j.failAll(t.out, CodeInvalidTools, ComponentCommander, j.toolsErr)
		return
	}
	generation, prompt, failed := a.generation(requestID, j)
	if failed != nil {
		t.fail(failed)
		return
	}
	t.generation, t.prompt = generation, prompt
	if t.shortening, failed = a.memory.look(ctx, requestID, t); failed != nil {
		t.fail(failed)
	}
}

// shorten goes on with an input after what was generated to shorten its memory.
func (a *Agent) shorten(ctx context.Context, t *task, result Result, err error) {
	defer t.guard()
	if failed := a.memory.shorten(ctx, t, result, err); failed != nil {
		t.fail(failed)
	}
}

// finish makes the candidates of what was generated for an input.
func (a *Agent) finish(t *task, result Result, err error) {
	defer t.guard()
	j, g := t.job, &t.generation
	if err == nil && len(result.Completions) != g.N {
		err = ModelError{fmt.Errorf("%d completions came back where %d were asked for", len(result.Completions), g.N)}
	}
	if err != nil {
		code, component := classify(err)
		t.fail(&failure{code, component, err})
		return
	}
	turn := j.memory.Prepare(j.author(), j.in.Instruction.Content)
	step := newStep(j, t.prompt, len(t.steps), ComponentCommander, protocol.OriginModel)
	for k := range result.Completions {
		c := &result.Completions[k]
		if c.Err != nil && ends(c.Err) {
			t.ended = c.Err
			return
		}
		t.out[k].InternalSteps = t.steps
		a.candidate(&t.out[k], j, turn, step, &result, c, g.Seeds[k])
	}
	for k := g.N; k < len(t.out); k++ { // deterministic: the same again
		t.out[k] = t.out[0]
		t.out[k].CandidateIndex = k
	}
}

// failure is why an input has no candidates.
type failure struct {
	code      string
	component string
	err       error
}

// generation asks for the candidates of an input.
func (a *Agent) generation(requestID string, j *job) (Generation, *format.Prompt, *failure) {
	prompt, err := a.format.Render(j.input(a.cfg.HistoryMaxMessages, a.format.ShowsResults()))
	if err != nil {
		return Generation{}, nil, &failure{CodeModelError, ComponentCommander, err}
	}
	g := Generation{
		Prompt: prompt.Segments, N: j.sequences(), MaxTokens: a.cfg.MaxNewTokens,
		Greedy: j.greedy, Sampling: a.cfg.Sampling, SuppressControl: a.format.SuppressControl(),
	}
	g.Seeds = seeds(a.cfg.Seed, requestID, j.in.ID, g.N)
	g.IgnoreEnd = a.cfg.IgnoreEnd
	if g.StopRepeats = a.stopsRepeats(); g.StopRepeats {
		g.Calls = j.catalog.Calls
	}
	if a.cfg.Constrain == ConstrainOn && !g.IgnoreEnd {
		if g.Grammar, err = j.catalog.Grammar(); err != nil {
			return Generation{}, nil, &failure{CodeInvalidTools, ComponentCommander, err}
		}
	}
	return g, prompt, nil
}

// candidate makes one candidate of a completion.
func (a *Agent) candidate(out *protocol.AgentOutput, j *job, turn *memory.Append, step *stepMaker,
	result *Result, c *Completion, seed uint32,
) {
	if c.Err != nil {
		if c.Tokens > 0 { // what the model said until then tells why
			a.log.write(ComponentCommander, step.prompt, c.Text, c.Err)
			out.InternalSteps = withStep(out.InternalSteps, step.model(result, c, seed, nil))
		}
		code, component := classify(c.Err)
		j.fail(out, code, component, c.Err)
		return
	}
	if a.cfg.IgnoreEnd {
		decision := format.Decision{Say: c.Text}
		a.log.write(ComponentCommander, step.prompt, c.Text, nil)
		out.InternalSteps = withStep(out.InternalSteps, step.model(result, c, seed, nil))
		j.complete(out, turn, decision, j.change(decision, a.format.ResetsState()))
		return
	}
	decision, err := a.format.Parse(c.Text, j.catalog)
	code := CodeInvalidOutput
	switch c.Finish {
	case FinishRepeat:
		code, err = CodeTruncated, repeatedError(c.Repeated)
	case FinishLength:
		code = CodeTruncated
		err = fmt.Errorf("the answer reached the limit of %d new tokens before it ended; raise --max-new-tokens if it should be longer",
			c.Tokens)
	}
	a.log.write(ComponentCommander, step.prompt, c.Text+c.Stop, err)
	out.InternalSteps = withStep(out.InternalSteps, step.model(result, c, seed, decision.Reasoning))
	if err != nil {
		j.fail(out, code, ComponentCommander, err)
		return
	}
	j.complete(out, turn, decision, j.change(decision, a.format.ResetsState()))
}

// withStep is steps and one more. Candidates share the steps before.
func withStep(steps []protocol.Raw, step protocol.Raw) []protocol.Raw {
	return append(steps[:len(steps):len(steps)], step)
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
	if code == CodeTimeout {
		err = errTimeUp // a context's own words say nothing to a client
	}
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
