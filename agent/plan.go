package agent

import (
	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Plan is a validated request. Run runs it once.
type Plan struct {
	requestID string
	inputs    []*inputRun
	outputs   int // candidates of all inputs

	// Completions is the most that Run asks a Generator for. Deterministic candidates of an input need one
	// together unless they are distinct, corrections need none. A summary may need one more.
	Completions int
	// Priority is the highest of the inputs that ask for completions.
	Priority int

	begun func()                                     // of Watch, nil: nobody watches
	each  func(input int, out *protocol.AgentOutput) // of Watch

	Latencies []Latency     // of the generations, set by Run
	Summaries SummaryCounts // what became of the summaries, set by Run
}

// Watch makes Run call begun once only the engine or ctx can fail the request, and then
// each with every complete candidate, from any goroutine. The others have the error of Run.
func (p *Plan) Watch(begun func(), each func(input int, out *protocol.AgentOutput)) {
	p.begun, p.each = begun, each
}

// inputRun is one input from its validation to its candidates.
type inputRun struct {
	input      *protocol.AgentInput
	memory     *memory.Memory
	greedy     bool
	correction protocol.Raw // extra_keys.coaching, nil if absent
	returns    wanted
	adapter    Adapter // the zero value: none
	distinct   bool    // extra_keys.candidates
	options    []protocol.AgentDecision
	ask        bool               // extra_keys.ask
	resume     *generation.Result // extra_keys.continue
	priority   int

	// Run sets the others.
	catalog    *format.Catalog
	version    string                 // of the weights, if returns asks for it
	continues  bool                   // the prompt goes on with the tokens of the memory
	earlier    map[int]string         // the attributes that those show, as in chain
	leaves     int                    // the character of the prompt where it leaves its messages; -1: nowhere
	out        []protocol.AgentOutput // complete where there is a status
	turn       *memory.Append         // what completed candidates share, as step is
	step       *stepMaker
	watch      func(out *protocol.AgentOutput) // see Plan.Watch; nil: nobody does
	given      []bool                          // candidates that watch has had
	request    generation.Request              // its Prompt is set by generate
	prompt     *format.Prompt                  // nil if nothing is to be generated
	shortening *shortening                     // generated before the candidates, nil if nothing is
	steps      []protocol.Raw                  // of shortening
	counts     SummaryCounts                   // of shortening
	latencies  []Latency
	best       int    // the most probable option
	chances    []byte // see appendChances
	ended      error  // the request is over: see ends
	span       inputSpan
}

func (c *SummaryCounts) add(o SummaryCounts) {
	c.Whole += o.Whole
	c.Truncated += o.Truncated
	c.Failed += o.Failed
	c.Cut += o.Cut
}

// Prepare validates memory and extra keys of a request for an engine with these adapters; nil: it has none. The
// error is protocol.Problems. Run looks at tools and corrections: they can cost much, and their errors are
// candidates'.
func (a *Agent) Prepare(req *protocol.AgentRequest, adapters Adapters) (*Plan, error) {
	p := &Plan{requestID: req.RequestID, inputs: make([]*inputRun, len(req.Inputs))}
	var problems protocol.Problems
	for i := range req.Inputs {
		in := &inputRun{input: &req.Inputs[i]}
		p.inputs[i] = in
		p.outputs += in.input.NumOutputs

		var ps protocol.Problems
		if in.memory, ps = memory.Parse(in.input.Memory, a.format.StateKey()); len(ps) > 0 {
			problems.AddAll(ps.At("inputs", i, "memory"))
		}
		if ps = a.readExtraKeys(in, adapters); len(ps) > 0 {
			problems.AddAll(ps.At("inputs", i, "extra_keys"))
		}
		if len(problems) == protocol.MaxProblems {
			break
		}
		if n := in.completions(); n > 0 {
			if p.Completions == 0 {
				p.Priority = in.priority
			}
			p.Completions, p.Priority = p.Completions+n, max(p.Priority, in.priority)
		}
		if in.correction == nil && a.summarizer != nil {
			p.Completions += min(1, len(in.memory.History)) // the prompt's size is not known yet
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// readExtraKeys reads the options of the agent. Other options belong to other programs.
func (a *Agent) readExtraKeys(in *inputRun, adapters Adapters) (problems protocol.Problems) {
	in.returns = a.cfg.returns
	asked := false
	for name, v := range protocol.Members(in.input.ExtraKeys) {
		var more protocol.Problems
		switch name {
		case "inference_mode":
			if v.Kind() != 't' && v.Kind() != 'f' {
				more = rawjson.Wrong(protocol.TypeBool, "true (deterministic) or false (sampled)", v, name)
			}
			in.greedy = v.Kind() == 't'
		case "coaching":
			if v.Kind() != 'n' {
				in.correction = v
			}
		case "adapter":
			in.adapter, more = readAdapter(v, adapters)
		case "return":
			in.returns, more = a.readReturn(v)
			asked = true
		case "continue":
			in.resume, more = a.readContinue(v, in.input.NumOutputs)
		case "priority":
			in.priority, more = a.readPriority(v)
		case "candidates":
			in.distinct, more = a.readCandidates(v)
		case KeyOptions:
			in.options, more = a.readOptions(v)
		case KeyAsk:
			in.ask, more = a.readAsk(v)
		}
		problems = append(problems, more...)
	}
	if in.distinct && !in.greedy {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue,
			"distinct candidates are the most probable ones; set inference_mode to true, or leave candidates out",
			"candidates", candidatesDistinct))
	}
	if in.distinct && !asked {
		in.returns.logprobs, in.returns.masks = false, false // they have none
	}
	if in.distinct && in.returns.scores() {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue,
			"distinct candidates have a probability, but no logprobs of their tokens and no "+returnMask+"; leave one of candidates and these out", "return"))
	}
	if in.options != nil && len(problems) == 0 {
		problems = in.checkOptions(asked)
	}
	if in.ask && len(problems) == 0 {
		problems = in.checkAsk()
	}
	if in.resume != nil {
		problems = append(problems, in.checkContinue()...)
	}
	return problems
}

func (in *inputRun) completions() int {
	switch {
	case in.correction != nil:
		return 0
	case in.greedy && !in.distinct:
		return 1
	}
	return in.input.NumOutputs
}

// startsTask reports whether the instruction starts a task: the user's, and no answer to a question.
func (in *inputRun) startsTask() bool {
	turn := in.memory.State.Turns[len(in.memory.History)-1]
	return memory.AuthorOf(in.input.Instruction.Type) == memory.User && turn.Kind != memory.KindClarification
}
