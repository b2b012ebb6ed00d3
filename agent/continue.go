package agent

import (
	"fmt"
	"slices"
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// readContinue reads extra_keys.continue, the token ids with which each candidate begins, as Params.Resume.
func (a *Agent) readContinue(v protocol.Raw, candidates int) (*generation.Result, protocol.Problems) {
	const name = "continue"
	bad := func(message string, at ...any) (*generation.Result, protocol.Problems) {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, message, append([]any{name}, at...)...)}
	}
	if v.Kind() != '[' {
		return nil, rawjson.Wrong(protocol.TypeList, "a list with the token ids of each candidate", v, name)
	}
	r := new(generation.Result)
	for list := range protocol.Elements(v) {
		k := len(r.Completions)
		if list.Kind() != '[' {
			return nil, rawjson.Wrong(protocol.TypeList, "the list of the candidate's token ids, [] for none", list, name, k)
		}
		c := generation.Completion{Finish: generation.FinishPaused}
		for id := range protocol.Elements(list) {
			if most := a.cfg.ContextLength; most > 0 && len(c.Tokens) == most {
				return bad(fmt.Sprintf("it has more token ids than the %d of the model's context; send token_ids as they were returned", most), k)
			}
			n, err := strconv.ParseInt(string(id), 10, 32)
			if err != nil || n < 0 {
				return bad("it must be a token id, as the step's token_ids has them", k, len(c.Tokens))
			}
			c.Tokens = append(c.Tokens, generation.Token(n))
		}
		r.Completions = append(r.Completions, c)
	}
	switch {
	case a.cfg.NoScheduling != "":
		return bad(a.cfg.NoScheduling + "; leave " + name + " out")
	case len(r.Completions) != candidates:
		return bad("it has " + strconv.Itoa(len(r.Completions)) + " lists, and num_outputs is " + strconv.Itoa(candidates) + "; give one for each candidate")
	}
	return r, nil
}

func (a *Agent) readPriority(v protocol.Raw) (int, protocol.Problems) {
	n, err := strconv.Atoi(string(v))
	var problem string
	switch {
	case err != nil || n < -maxPriority || n > maxPriority:
		problem = fmt.Sprintf("it must be an integer from %d to %d", -maxPriority, maxPriority)
	case n != 0 && a.cfg.NoScheduling != "":
		problem = a.cfg.NoScheduling + "; leave it out"
	default:
		return n, nil
	}
	return 0, protocol.Problems{protocol.NewProblem(protocol.TypeValue, problem, "priority")}
}

// checkContinue refuses what can't be combined with extra_keys.continue. Of equal completions it keeps one.
func (in *inputRun) checkContinue() protocol.Problems {
	problem := ""
	first := in.resume.Completions[0]
	switch {
	case in.correction != nil:
		problem = "a correction needs no model; leave continue or coaching out"
	case in.distinct:
		problem = "distinct candidates are searched for and can't be continued; leave continue or candidates out"
	case in.greedy:
		if slices.ContainsFunc(in.resume.Completions, func(c generation.Completion) bool { return !slices.Equal(c.Tokens, first.Tokens) }) {
			problem = "with inference_mode all candidates are equal; send the same token ids for each"
		}
		in.resume.Completions = in.resume.Completions[:1]
	}
	if problem == "" {
		return nil
	}
	return protocol.Problems{protocol.NewProblem(protocol.TypeValue, problem, "continue")}
}
