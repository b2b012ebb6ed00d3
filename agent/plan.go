package agent

import (
	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Plan is a validated request. [Agent.Run] runs it, once.
type Plan struct {
	requestID string
	inputs    []*inputRun
	outputs   int // candidates of all inputs

	// Completions is the most that Run generates. Greedy candidates of an input share one unless they are
	// distinct, corrections need none, and a summary may need one more.
	Completions int
	// Priority is the highest of the inputs that ask for completions.
	Priority int

	begun func()                                     // see Watch; nil without it
	each  func(input int, out *protocol.AgentOutput) // see Watch

	Latencies []Latency     // of all generations, set by Run
	Summaries SummaryCounts // set by Run
}

// Watch makes Run report candidates early. Run calls begun when only the engine or ctx can still fail the request, then
// each for every complete candidate, from any goroutine. If Run returns an error, that is the error of the others.
func (p *Plan) Watch(begun func(), each func(input int, out *protocol.AgentOutput)) {
	p.begun, p.each = begun, each
}

// inputRun is the state of one input, from its validation to its candidates.
type inputRun struct {
	input      *protocol.AgentInput
	memory     *memory.Memory
	greedy     bool         // extra_keys.inference_mode
	correction protocol.Raw // extra_keys.coaching, nil if absent
	returns    wanted
	adapter    Adapter // the zero value: none
	distinct   bool    // extra_keys.candidates
	options    []protocol.AgentDecision
	ask        bool               // extra_keys.ask
	resume     *generation.Result // extra_keys.continue
	priority   int

	// Run sets the following.
	catalog    *format.Catalog
	version    string                 // of the weights, if steps report it
	continues  bool                   // the prompt begins with the tokens in the memory
	earlier    map[int]string         // the attributes that these tokens contain, as in chain
	differsAt  int                    // the code point from which the prompt differs from its rendered messages; -1: nowhere
	out        []protocol.AgentOutput // the complete candidates have a status
	turn       *memory.Append         // shared by the completed candidates, as step is
	step       *stepMaker
	watch      func(out *protocol.AgentOutput) // see Plan.Watch; nil without it
	delivered  []bool                          // candidates that watch was called with
	request    generation.Request              // its Prompt is set by generate
	prompt     *format.Prompt                  // nil if the candidates need no generation
	shortening *shortening                     // a summary to generate first, or nil
	steps      []protocol.Raw                  // of shortening
	counts     SummaryCounts                   // of shortening
	latencies  []Latency
	best       int    // the most probable option
	chances    []byte // see appendChances
	ended      error  // the error that fails the whole request, see ends
	span       inputSpan
}

func (c *SummaryCounts) add(o SummaryCounts) {
	c.Whole += o.Whole
	c.Truncated += o.Truncated
	c.Failed += o.Failed
	c.Cut += o.Cut
}

// Prepare validates memory and extra keys of a request for an engine with these adapters (or nil). The error is
// protocol.Problems. Tools and corrections are checked by Run, since that may take long and fails single candidates.
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

// readExtraKeys reads the extra keys that the agent knows. Others belong to other programs.
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
