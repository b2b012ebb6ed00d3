package agent

import (
	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/protocol"
)

// Plan is a request that has been checked and can be run.
type Plan struct {
	requestID string
	jobs      []job
	outputs   int // candidates in all
}

// job is one input of a plan.
type job struct {
	in         *protocol.AgentInput
	memory     *memory.Memory
	greedy     bool
	correction protocol.Raw // extra_keys.coaching, nil when absent
	// catalog and toolsErr are set by Run.
	catalog  *format.Catalog
	toolsErr error
	first    int // index of its first candidate among all outputs
	extra    int // sequences that its memory may need before those of its candidates
}

// Prepare checks what the agent owns of a request's inputs: memory and extra
// keys. The error is protocol.Problems, with the location of each. Unusable
// tools and corrections are no problems but errors of candidates; they are looked
// at by Run, since tools can cost much and a request may not be admitted.
func (a *Agent) Prepare(req *protocol.AgentRequest) (*Plan, error) {
	p := &Plan{requestID: req.RequestID, jobs: make([]job, len(req.Inputs))}
	var problems protocol.Problems
	for i := range req.Inputs {
		in := &req.Inputs[i]
		j := &p.jobs[i]
		j.in, j.first = in, p.outputs
		p.outputs += in.NumOutputs

		var ps protocol.Problems
		if j.memory, ps = memory.Parse(in.Memory, a.format.StateKey()); len(ps) > 0 {
			problems.AddAll(ps.At("inputs", i, "memory"))
		}
		if ps = j.readExtraKeys(); len(ps) > 0 {
			problems.AddAll(ps.At("inputs", i, "extra_keys"))
		}
		if len(problems) == protocol.MaxProblems {
			break
		}
		if j.correction == nil {
			j.extra = a.memory.sequences(j)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// readExtraKeys reads the options that the agent knows; others are not its.
func (j *job) readExtraKeys() (problems protocol.Problems) {
	for name, v := range protocol.Members(j.in.ExtraKeys) {
		switch name {
		case "inference_mode":
			if v.Kind() != 't' && v.Kind() != 'f' {
				problems = append(problems, protocol.NewProblem(protocol.TypeBool,
					"it must be true (deterministic) or false (sampled), not "+rawjson.KindName(v), name))
			}
			j.greedy = v.Kind() == 't'
		case "coaching":
			if v.Kind() != 'n' {
				j.correction = v
			}
		}
	}
	return problems
}

// Candidates is the number of sequences that the model may have to generate:
// deterministic candidates of an input count once, corrections not at all, and one
// more is counted where a summary may come first.
func (p *Plan) Candidates() int {
	n := 0
	for i := range p.jobs {
		n += p.jobs[i].sequences() + p.jobs[i].extra
	}
	return n
}

func (j *job) sequences() int {
	switch {
	case j.correction != nil:
		return 0
	case j.greedy:
		return 1
	}
	return j.in.NumOutputs
}

// author is that of the instruction.
func (j *job) author() memory.Author {
	if j.in.Instruction.Type == protocol.InstructionEnv {
		return memory.System
	}
	return memory.User
}

// input is what the format needs of the job: the newest entries of the history
// that fit, all when limit is 0. showsResults is the format's ShowsResults.
func (j *job) input(limit int, showsResults bool) *format.Input {
	history := j.memory.History
	first := 0
	if limit > 0 && len(history) > limit {
		first = len(history) - limit
		for first < len(history) && !mayBegin(history, first, showsResults) {
			first++
		}
	}
	return &format.Input{
		History: history[first:], First: first, Turns: j.memory.State.Turns,
		Author: j.author(), Instruction: j.in.Instruction.Content,
		Rules: j.memory.Rules, Summary: j.memory.Summary,
		Attributes: j.in.Attributes, RawTools: j.in.Tools, Catalog: j.catalog,
	}
}

// mayBegin tells whether what is shown of a history may begin with entry i.
func mayBegin(history []memory.Entry, i int, showsResults bool) bool {
	if showsResults {
		return history[i].Author != memory.System || len(history[i-1].Calls) == 0
	}
	return history[i].Author != memory.Model
}

// newTask reports whether the instruction starts a task: it comes from the user,
// and not in answer to a question that the agent asked within one.
func (j *job) newTask() bool {
	turn := j.memory.State.Turns[len(j.memory.History)-1]
	return j.author() == memory.User && turn.Kind != memory.KindClarification
}
