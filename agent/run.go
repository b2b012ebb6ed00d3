package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Run makes the candidates of a plan. Failures are candidates with an error. Run itself fails when ctx was cancelled,
// when the generator is closed, or when all candidates together would be too large: protocol.Problems, or the error
// of ctx's budget. g may be nil for a plan without completions. It gets the prompts of all inputs together and in
// order, so that a request is always computed in the same way; before them, it gets the prompts of all summaries.
func (a *Agent) Run(ctx context.Context, p *Plan, g Generator) ([]protocol.AgentOutput, error) {
	runs := p.inputs
	var preparing errgroup.Group
	preparing.SetLimit(maxConcurrentInputs)
	for _, in := range runs {
		preparing.Go(func() error {
			a.prepare(ctx, p.requestID, in)
			return nil
		})
	}
	_ = preparing.Wait() // its functions return no error
	defer func() {
		for _, in := range runs {
			in.endSpan() // those that no generation ended
		}
	}()
	if err := ctx.Err(); ends(err) {
		return nil, err
	}
	returned, held, completions := estimate(p.requestID, runs)
	if returned > maxReturned {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, fmt.Sprintf(
			"would make an answer of about %d bytes, since every candidate returns its memory, tools and prompt, and the request_id; at most %d are possible: send fewer candidates, inputs, tools or robots",
			returned, maxReturned), "inputs")}
	}
	if err := budget.Add(ctx, held); err != nil {
		return nil, err
	}
	if g != nil {
		g.Keep(completions)
	}
	if p.each != nil {
		p.begun()
		for i, in := range p.inputs {
			in.delivered = make([]bool, len(in.out))
			in.watch = func(out *protocol.AgentOutput) { p.each(i, out) }
			in.deliver() // candidates that needed no generation
		}
	}
	a.generate(ctx, g, runs, (*inputRun).summary, func(in *inputRun, r *generation.Result, err error) {
		defer in.deliver()
		defer in.guard()
		if f := a.summarizer.shorten(ctx, in, r, err); f != nil {
			in.fail(f)
		}
	})
	for _, in := range runs {
		p.Summaries.add(in.counts)
	}
	a.generate(ctx, g, runs, (*inputRun).candidates, func(in *inputRun, r *generation.Result, err error) { a.finish(ctx, in, r, err) })
	outputs := make([]protocol.AgentOutput, 0, p.outputs)
	for _, in := range runs {
		p.Latencies = append(p.Latencies, in.latencies...)
		if in.ended != nil {
			if err := ctx.Err(); ends(err) {
				return nil, err
			}
			return nil, in.ended
		}
		outputs = append(outputs, in.out...)
	}
	return outputs, nil
}

// summary returns the generation of a summary, nil without one.
func (in *inputRun) summary() (*generation.Request, *format.Prompt) {
	if in.shortening == nil {
		return nil, nil
	}
	return &in.shortening.request, in.shortening.prompt
}

// candidates returns the generation of the candidates, nil if they need none.
func (in *inputRun) candidates() (*generation.Request, *format.Prompt) {
	if in.prompt == nil || in.ended != nil {
		return nil, nil
	}
	return &in.request, in.prompt
}

// tokenizeAll tokenizes the prompts that of returns. A prompt that fails gives its part of the admission back.
func (a *Agent) tokenizeAll(
	ctx context.Context, g Generator, runs []*inputRun, of func(*inputRun) (*generation.Request, *format.Prompt),
) []error {
	errs := make([]error, len(runs))
	var left atomic.Int64
	left.Store(int64(completionsLeft(runs, of)))
	var tokenizing errgroup.Group
	tokenizing.SetLimit(runtime.GOMAXPROCS(0))
	for i, in := range runs {
		request, prompt := of(in)
		if request == nil {
			continue
		}
		if errs[i] = ctx.Err(); errs[i] != nil {
			continue
		}
		tokenizing.Go(func() error {
			if errs[i] = a.tokenize(ctx, request, prompt); errs[i] != nil && g != nil {
				g.Keep(int(left.Add(-int64(request.N))))
			}
			return nil
		})
	}
	_ = tokenizing.Wait() // errors are in errs
	return errs
}

// completionsLeft counts the completions of the generations that of returns, and of the candidates afterwards.
func completionsLeft(runs []*inputRun, of func(*inputRun) (*generation.Request, *format.Prompt)) (n int) {
	for _, in := range runs {
		now, _ := of(in)
		if now != nil {
			n += now.N
		}
		if later, _ := in.candidates(); later != nil && later != now {
			n += later.N
		}
	}
	return n
}

// generate tokenizes a prompt of each run in parallel and generates all together, unless ctx has ended.
func (a *Agent) generate(ctx context.Context, g Generator, runs []*inputRun, of func(*inputRun) (*generation.Request, *format.Prompt),
	done func(*inputRun, *generation.Result, error),
) {
	errs := a.tokenizeAll(ctx, g, runs, of)
	var requests []generation.Request
	var waiting []*inputRun
	for i, in := range runs {
		request, _ := of(in)
		switch {
		case request == nil:
		case errs[i] != nil:
			done(in, nil, errs[i])
		case g == nil:
			done(in, nil, errNotAdmitted)
		default:
			if in.span.IsRecording() {
				request.Context = in.span.ctx
			}
			if in.watch != nil && request == &in.request && in.options == nil {
				request.Watch = func(e generation.Event) { a.finishEarly(ctx, in, e.Result, e.Completion) }
			}
			requests = append(requests, *request)
			waiting = append(waiting, in)
		}
	}
	if len(requests) == 0 {
		return
	}
	g.Keep(completionsLeft(runs, of)) // failed inputs need none
	g.GenerateAll(ctx, requests, func(i int, r *generation.Result, err error) {
		if err == nil && ctx.Err() == nil && !r.Paused() { // else not all candidates ended by themselves
			waiting[i].latencies = append(waiting[i].latencies, latencyOf(r))
		}
		if r != nil && waiting[i].span.IsRecording() {
			waiting[i].span.finish = nil // of the last generation: that of the candidates
			waiting[i].span.Add(r)
		}
		done(waiting[i], r, err)
	})
}

// guard is deferred. It turns a panic into an error of this input.
func (in *inputRun) guard() {
	if p := recover(); p != nil {
		in.fail(&failure{CodeModelError, ComponentCommander, fmt.Errorf("the agent failed: %v", p)})
	}
}

// fail makes all undelivered candidates errors, unless the whole request has failed.
func (in *inputRun) fail(f *failure) {
	in.prompt, in.shortening = nil, nil
	if ends(f.err) {
		in.ended = f.err
		return
	}
	for k := range in.out {
		if in.delivered == nil || !in.delivered[k] {
			in.failOne(&in.out[k], f)
			in.out[k].InternalSteps = in.steps
		}
	}
}

// deliver calls watch with the complete candidates that are not delivered yet.
func (in *inputRun) deliver() {
	for k := range in.delivered {
		if in.out[k].Status != "" && !in.delivered[k] {
			in.delivered[k] = true
			in.watch(&in.out[k])
		}
	}
}

// prepare renders the prompt of an input, or makes its candidates if they need no model.
func (a *Agent) prepare(ctx context.Context, requestID string, in *inputRun) {
	in.span = a.startSpan(ctx, in)
	ctx = in.span.ctx
	defer func() {
		if in.prompt == nil {
			in.endSpan()
		}
	}()
	defer in.guard()
	in.out = make([]protocol.AgentOutput, in.input.NumOutputs)
	for k := range in.out {
		in.out[k] = protocol.AgentOutput{RequestID: requestID, SourceID: in.input.ID, CandidateIndex: k}
	}
	// The client has left, or the deadline has passed, after which only a correction is still made.
	if err := ctx.Err(); ends(err) || err != nil && in.correction == nil {
		a.finish(ctx, in, nil, err)
		return
	}
	robots := tools.KnownRobots(in.input.Attributes)
	var err error
	in.catalog, err = a.catalogs.get(ofTools, in.input.Tools, robots, func(raw []protocol.Raw) (*tools.Set, error) {
		return tools.Normalise(raw, robots, a.cfg.DefaultRobot)
	})
	switch {
	case in.correction != nil && a.summarizer != nil:
		in.fail(&failure{CodeInvalidCoaching, ComponentCommander, errNoCorrections})
		return
	case in.correction != nil:
		a.correct(in)
		return
	case err != nil:
		in.fail(&failure{CodeInvalidTools, ComponentCommander, err})
		return
	}
	if (in.returns.any() || a.cfg.AlwaysVersion || in.options != nil) && a.cfg.ModelVersion != nil {
		if in.version, err = a.cfg.ModelVersion(ctx); err != nil {
			in.fail(failed(err))
			return
		}
	}
	f := a.render(ctx, requestID, in)
	if f == nil && a.summarizer != nil {
		in.shortening, f = a.summarizer.shortening(ctx, requestID, in)
	}
	if f != nil {
		in.fail(f)
	}
}

// render sets the prompt of an input and the request for its candidates.
func (a *Agent) render(ctx context.Context, requestID string, in *inputRun) *failure {
	prompt, err := a.rendered(in, false)
	if err != nil {
		return &failure{CodeModelError, ComponentCommander, err}
	}
	params := generation.Params{
		N: in.completions(), MaxTokens: a.cfg.MaxNewTokens, Sampling: a.sampling(in.greedy),
		Seeds:           seeds(a.cfg.Seed, requestID, in.input.ID, in.completions()),
		SuppressControl: a.format.SuppressControl(), IgnoreEnd: a.cfg.IgnoreEnd, StopRepeats: a.stopsRepeats(),
		Scores: in.returns.scores(), Masks: in.returns.masks, Adapter: in.adapter.ID, Resume: in.resume, Priority: in.priority,
	}
	if a.cfg.ConsecutiveSeeds {
		for i := range params.Seeds {
			params.Seeds[i] = params.Seeds[0]&(1<<30-1) + uint32(i)
		}
	}
	if in.distinct {
		params.Distinct = &generation.Distinct{Key: func(text string) (string, bool) {
			d, err := a.format.Parse(text, in.catalog)
			if err != nil {
				return "", false
			}
			return DecisionKey(&d.AgentDecision), true
		}}
	}
	if a.cfg.Sessions {
		params.Session = session(in)
	}
	if a.cfg.Constrain == ConstrainOn && !a.cfg.IgnoreEnd {
		if params.Grammar, err = in.catalog.Grammar(); err != nil {
			return &failure{CodeInvalidTools, ComponentCommander, err}
		}
	}
	in.prompt, in.request = prompt, generation.Request{Params: params}
	if in.options == nil {
		return nil
	}
	err = a.choose(ctx, &in.request, prompt, in.catalog, in.options, true, func(text string) (format.Decision, error) {
		return a.format.Parse(text, in.catalog)
	})
	if errors.As(err, new(*ChoiceError)) || errors.Is(err, format.ErrThinks) {
		return &failure{CodeInvalidOptions, ComponentCommander, fmt.Errorf("extra_keys.options: %w", err)}
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// rendered returns the prompt of an input, with the newest HistoryMaxMessages entries of the history, or the prompt
// that asks for a summary. For inputs that ask for token ids, it begins with the memory's tokens if it shows all
// entries.
func (a *Agent) rendered(in *inputRun, summarize bool) (*format.Prompt, error) {
	history, first := in.memory.History, 0
	if limit := a.cfg.HistoryMaxMessages; limit > 0 && len(history) > limit {
		first = len(history) - limit
		for first < len(history) && !a.mayBegin(history, first) {
			first++
		}
	}
	in.continues, in.earlier, in.differsAt = false, nil, -1
	shown := format.Input{
		Request: in.input, Memory: in.memory, First: first, Catalog: in.catalog, Summarize: summarize, FindTurn: in.returns.tokenIDs,
	}
	if in.returns.tokenIDs && first == 0 && !summarize && in.correction == nil {
		if p, err := a.continued(in, shown); p != nil || err != nil {
			return p, err
		}
	}
	return a.format.Render(&shown)
}

// mayBegin reports whether a shortened history may begin with entry i: not with the result of a call, nor, in a format
// that does not show results, with a decision.
func (a *Agent) mayBegin(history []memory.Entry, i int) bool {
	if a.format.ShowsResults() {
		return history[i].Author != memory.System || len(history[i-1].Calls) == 0
	}
	return history[i].Author != memory.Model
}

func (a *Agent) sampling(greedy bool) generation.Sampling {
	s := a.cfg.Sampling
	if greedy {
		s.Temperature = 0
	}
	return s
}

// finish makes the candidates of an input from the result of its generation.
func (a *Agent) finish(ctx context.Context, in *inputRun, result *generation.Result, err error) {
	defer in.endSpan()
	defer in.deliver()
	defer in.guard()
	if err = complete(result, in.request.N, err); err != nil {
		in.fail(failed(err))
		return
	}
	if in.options != nil {
		result = a.ranked(in, result)
	}
	for k := range result.Completions {
		if err := result.Completions[k].Err; err != nil && ends(err) {
			in.ended = err
			return
		}
		a.candidate(ctx, in, result, k)
	}
	in.repeatFirst(len(result.Completions)) // deterministic candidates are equal
}

// finishEarly makes a candidate whose completion has ended before the others.
func (a *Agent) finishEarly(ctx context.Context, in *inputRun, result *generation.Result, k int) {
	defer in.deliver()
	defer in.guard()
	if err := result.Completions[k].Err; err == nil || !ends(err) {
		a.candidate(ctx, in, result, k)
	}
}

// repeatFirst makes candidates n and later copies of the first.
func (in *inputRun) repeatFirst(n int) {
	for k := n; k < len(in.out); k++ {
		in.out[k] = in.out[0]
		in.out[k].CandidateIndex = k
	}
}

// complete returns the error of a generation, or that of a result without n completions.
func complete(r *generation.Result, n int, err error) error {
	if err == nil && len(r.Completions) != n {
		return fmt.Errorf("%d completions came back where %d were requested", len(r.Completions), n)
	}
	return err
}

// candidate makes candidate k from its completion, unless it was made before.
func (a *Agent) candidate(ctx context.Context, in *inputRun, result *generation.Result, k int) {
	c, out := &result.Completions[k], &in.out[k]
	if out.Status != "" {
		return
	}
	if in.turn == nil {
		in.turn = in.memory.Prepare(memory.AuthorOf(in.input.Instruction.Type), in.input.Instruction.Content)
		in.step = newStep(in, in.prompt, len(in.steps), ComponentCommander, protocol.OriginModel, in.request.Prompt)
		in.step.form = a.format.CallForm()
		if in.shortening != nil {
			in.step.cut = in.shortening.cut
		}
	}
	turn, step, seed := in.turn, in.step, in.request.Seeds[0] // of the whole search
	if !in.distinct && in.options == nil {
		seed = in.request.Seeds[k]
	}
	out.InternalSteps = in.steps
	if c.Err != nil {
		if len(c.Tokens) > 0 { // the partial output may explain the error
			a.log.write(ComponentCommander, step.prompt, c.Text, c.Err)
			out.InternalSteps = withStep(out.InternalSteps, step.model(result, c, seed, &format.Decision{}, -1))
		}
		in.failOne(out, failed(c.Err))
		return
	}
	decision, err := format.Decision{AgentDecision: protocol.AgentDecision{Say: c.Text}}, error(nil)
	code := CodeInvalidOutput
	if !a.cfg.IgnoreEnd {
		decision, err = a.format.Parse(c.Text, in.catalog)
		switch c.Finish {
		case generation.FinishRepeat:
			code, err = CodeTruncated, repeatedError(c.Repeated)
		case generation.FinishLength:
			code = CodeTruncated
			err = fmt.Errorf("the answer reached the limit of %d new tokens before it ended; raise max_new_tokens on the server for longer answers",
				len(c.Tokens))
		}
		if err != nil && code == CodeTruncated {
			decision = format.Decision{Reasoning: decision.Reasoning, Complete: format.Complete(a.format, c.Text, in.catalog)}
		}
	}
	a.log.write(ComponentCommander, step.prompt, c.Text+c.Stop, err)
	differs := -1
	if err != nil {
		in.failOne(out, &failure{code, ComponentCommander, err})
	} else {
		in.complete(out, turn, decision)
		if in.returns.tokenIDs {
			a.storeTokens(in, out, &decision, c)
			differs = a.differs(ctx, in, out, step, c)
		} else {
			in.dropTokens(out)
		}
	}
	out.InternalSteps = withStep(out.InternalSteps, step.model(result, c, seed, &decision, differs))
}

// withStep returns a copy of steps with one more: candidates share steps.
func withStep(steps []protocol.Raw, step protocol.Raw) []protocol.Raw {
	return append(steps[:len(steps):len(steps)], step)
}

// complete sets a candidate's decision and memory.
func (in *inputRun) complete(out *protocol.AgentOutput, turn *memory.Append, d format.Decision) {
	// A user's instruction starts a task, unless it answers the model's question.
	starts := memory.AuthorOf(in.input.Instruction.Type) == memory.User &&
		in.memory.State.Turns[len(in.memory.History)-1].Kind != memory.KindClarification
	change := memory.Change{Final: d.Say != "", NewTask: starts}
	if len(d.ToolCalls) > 0 {
		change.Reasoning = d.Reasoning
	}
	out.Status = protocol.StatusCompleted
	out.Output = &d.AgentDecision
	out.Memory = turn.Decision(memory.WriteDecision(d.Say, d.ToolCalls, false), change)
}

// failOne makes a candidate an error. Its memory is the input's.
func (in *inputRun) failOne(out *protocol.AgentOutput, f *failure) {
	out.Status, out.Output = protocol.StatusError, nil
	out.Memory = in.input.Memory
	err := f.err
	if f.code == CodeTimeout {
		err = errTimeUp // the text of a context's error does not help a client
		if late := (*generation.LateError)(nil); errors.As(f.err, &late) {
			err = fmt.Errorf("%w: %w", late, errTimeUp)
		}
	}
	out.Error = &protocol.AgentError{Code: f.code, Message: err.Error(), Component: f.component}
}
