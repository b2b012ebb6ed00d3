package agent

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// KeyOptions is the member of extra_keys with the options of an input: the decisions from which the model chooses.
const KeyOptions = "options"

// Unsure is the option not to decide. As a decision it is a reply with this text.
const Unsure = "unsure"

// CodeInvalidOptions is the code of an input whose options are not decisions with its tools.
const CodeInvalidOptions = "invalid_options"

// readOptions reads extra_keys.options. Each candidate's decision is one of them.
func (a *Agent) readOptions(v protocol.Raw) (options []protocol.AgentDecision, problems protocol.Problems) {
	bad := func(message string, at ...any) {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue, message, append([]any{KeyOptions}, at...)...))
	}
	if v.Kind() != '[' {
		return nil, rawjson.Wrong(protocol.TypeList, `a list of decisions such as {"say": "", "tool_calls": [...]}`, v, KeyOptions)
	}
	first := map[string]int{}
	for e := range protocol.Elements(v) {
		i := len(options)
		if i == MaxOptions {
			bad(fmt.Sprintf("it has more than %d options; leave some out", MaxOptions))
			return nil, problems
		}
		d, err := Option(e)
		if err != nil {
			if more, ok := errors.AsType[protocol.Problems](err); ok {
				problems.AddAll(more.At(KeyOptions, i))
			}
			d = &protocol.AgentDecision{}
		}
		options = append(options, *d)
		key := DecisionKey(d)
		if same, twice := first[key]; twice && len(problems) == 0 {
			bad(fmt.Sprintf("it is the same decision as option %d; leave one out", same), i)
		}
		first[key] = i
	}
	switch {
	case len(problems) > 0:
	case len(options) < 2:
		bad("it has fewer than 2 options; add some, or leave " + KeyOptions + " out")
	case a.cfg.NoDistinct != "":
		bad(a.cfg.NoDistinct + ", nor for options; leave " + KeyOptions + " out")
	case a.cfg.IgnoreEnd:
		bad("answers of a fixed length are not decisions; leave " + KeyOptions + " out")
	}
	return options, problems
}

// Option decodes an element of extra_keys.options. The error is protocol.Problems.
func Option(e protocol.Raw) (*protocol.AgentDecision, error) {
	if text, ok := protocol.Text(e); ok && text == Unsure {
		return &protocol.AgentDecision{Say: Unsure}, nil
	}
	return protocol.DecodeAgentDecision(e)
}

// checkOptions refuses extra keys that can't be combined with options.
func (in *inputRun) checkOptions(asked bool) protocol.Problems {
	if !asked {
		in.returns = wanted{}
	}
	var reason string
	switch {
	case !in.greedy:
		reason = "candidates are the options, most probable first; set inference_mode to true, or leave options out"
	case in.distinct:
		reason = "candidates are the options or a search; leave options or candidates out"
	case in.correction != nil:
		reason = "a correction needs no model; leave options or coaching out"
	case in.resume != nil:
		reason = "options are not generated and can't be continued; leave continue or options out"
	case in.returns.any():
		reason = "options are not generated, so they have no sampled tokens; leave return or options out"
	default:
		return nil
	}
	return protocol.Problems{protocol.NewProblem(protocol.TypeValue, reason, KeyOptions)}
}

// ranked makes the candidates' completions from the options' probabilities: candidate k gets the k-th most probable.
func (a *Agent) ranked(in *inputRun, result *generation.Result) *generation.Result {
	c := &result.Completions[0]
	if c.Chances == nil {
		return result // with an error
	}
	list := slices.DeleteFunc(c.Chances.Options(), func(o generation.Option) bool { return math.IsInf(c.Chances.Logprobs[o.Index], -1) })
	ranked := *result
	ranked.Completions = make([]generation.Completion, len(in.out))
	if len(list) > 0 {
		in.best, in.chances = list[0].Index, a.appendChances(nil, in, list)
	}
	for k := range ranked.Completions {
		if k >= len(list) {
			ranked.Completions[k] = generation.Completion{Finish: generation.FinishError, Err: fmt.Errorf("%w: there are %d options with a probability above 0", generation.ErrFewer, len(list))}
			continue
		}
		o := &list[k]
		texts, err := format.Written(a.format, in.catalog, &in.options[o.Index])
		if err != nil {
			ranked.Completions[k] = generation.Completion{Finish: generation.FinishError, Err: err}
			continue
		}
		ranked.Completions[k] = generation.Completion{
			Tokens: in.request.Choice.Answers[o.Index][0], Text: textOf(texts[0]), Finish: generation.FinishStop,
			Branch: &generation.Branch{Logprob: c.Chances.Logprobs[o.Index], Paths: c.Chances.Paths[o.Index], Option: o},
		}
	}
	return &ranked
}
