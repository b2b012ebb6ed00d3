package agent

import (
	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/protocol"
)

// Plan is a validated request. Run runs it once.
type Plan struct {
	requestID string
	inputs    []plannedInput
	outputs   int // candidates of all inputs

	latencies []Latency     // set by Run
	summaries SummaryCounts // set by Run
}

// plannedInput is one validated input.
type plannedInput struct {
	input      *protocol.AgentInput
	memory     *memory.Memory
	greedy     bool
	correction protocol.Raw // extra_keys.coaching, nil if absent
	extra      int          // completions that its memory may need before the candidates
	returns    wanted
	adapter    Adapter // the zero value: none
	distinct   bool    // extra_keys.candidates

	// Run sets these.
	catalog  *format.Catalog
	toolsErr error
	version  string // of the weights, if returns asks for it
}

// Summaries returns what became of the summaries, after Run.
func (p *Plan) Summaries() SummaryCounts { return p.summaries }

func (c *SummaryCounts) add(o SummaryCounts) {
	c.Whole += o.Whole
	c.Truncated += o.Truncated
	c.Failed += o.Failed
	c.Cut += o.Cut
}

// Prepare validates the parts of a request's inputs that the agent owns: memory and extra keys.
// The error is protocol.Problems. Unusable tools and corrections are errors of candidates and
// no problems. Run looks at them, since tools can cost much and a request may not be admitted.
func (a *Agent) Prepare(req *protocol.AgentRequest) (*Plan, error) { return a.PrepareWith(req, nil) }

// PrepareWith is Prepare for an engine with adapters, which extra_keys.adapter names.
func (a *Agent) PrepareWith(req *protocol.AgentRequest, adapters Adapters) (*Plan, error) {
	p := &Plan{requestID: req.RequestID, inputs: make([]plannedInput, len(req.Inputs))}
	var problems protocol.Problems
	for i := range req.Inputs {
		in := &p.inputs[i]
		in.input = &req.Inputs[i]
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
		if in.correction == nil {
			in.extra = a.memory.completions(in)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// readExtraKeys reads the options of the agent. Other options belong to other programs.
func (a *Agent) readExtraKeys(in *plannedInput, adapters Adapters) (problems protocol.Problems) {
	in.returns = a.cfg.returns
	asked := false
	for name, v := range protocol.Members(in.input.ExtraKeys) {
		var more protocol.Problems
		switch name {
		case "inference_mode":
			if v.Kind() != 't' && v.Kind() != 'f' {
				more = protocol.Problems{protocol.NewProblem(protocol.TypeBool,
					"it must be true (deterministic) or false (sampled), not "+rawjson.KindName(v), name)}
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
		case "candidates":
			in.distinct, more = a.readCandidates(v)
		}
		problems = append(problems, more...)
	}
	if in.distinct && !in.greedy {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue,
			"distinct candidates are the most probable ones, and draws among them were removed; "+
				"set inference_mode to true, or leave candidates out", "candidates", candidatesDistinct))
	}
	if in.distinct && !asked {
		in.returns.logprobs = false // they have none
	}
	if in.distinct && in.returns.logprobs {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue,
			"distinct candidates have a probability, but no logprobs of their tokens; leave one of candidates and "+returnLogprobs+" out", "return"))
	}
	return problems
}

// Completions returns the most completions that Run asks a Generator for. Deterministic
// candidates of an input need one together unless they are distinct, corrections need none. A summary may need one more.
func (p *Plan) Completions() int {
	n := 0
	for i := range p.inputs {
		n += p.inputs[i].completions() + p.inputs[i].extra
	}
	return n
}

func (in *plannedInput) completions() int {
	switch {
	case in.correction != nil:
		return 0
	case in.greedy && !in.distinct:
		return 1
	}
	return in.input.NumOutputs
}

// author returns the author of the instruction.
func (in *plannedInput) author() memory.Author {
	if in.input.Instruction.Type == protocol.InstructionEnv {
		return memory.System
	}
	return memory.User
}

// formatInput makes the format's view of the input, with the newest limit entries of the history
// or, for 0, all. showsResults is the format's ShowsResults.
func (in *plannedInput) formatInput(limit int, showsResults bool) *format.Input {
	history := in.memory.History
	first := 0
	if limit > 0 && len(history) > limit {
		first = len(history) - limit
		for first < len(history) && !mayBegin(history, first, showsResults) {
			first++
		}
	}
	return &format.Input{
		History: history[first:], First: first, Turns: in.memory.State.Turns,
		Author: in.author(), Instruction: in.input.Instruction.Content,
		Rules: in.memory.Rules, Summary: in.memory.Summary,
		Attributes: in.input.Attributes, RawTools: in.input.Tools, Catalog: in.catalog,
	}
}

// mayBegin reports whether the visible history may begin with entry i. A result never appears
// without its call, and most chat templates refuse to begin with the model.
func mayBegin(history []memory.Entry, i int, showsResults bool) bool {
	if showsResults {
		return history[i].Author != memory.System || len(history[i-1].Calls) == 0
	}
	return history[i].Author != memory.Model
}

// startsTask reports whether the instruction starts a new task: it comes from the user, and does
// not answer a question of the agent.
func (in *plannedInput) startsTask() bool {
	turn := in.memory.State.Turns[len(in.memory.History)-1]
	return in.author() == memory.User && turn.Kind != memory.KindClarification
}
