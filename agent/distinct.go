package agent

import (
	"fmt"
	"math"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Members of extra_keys.candidates.
const (
	candidatesDistinct = "distinct"
	candidatesRank     = "rank"
	rankLogprob        = "logprob"
)

// CodeFewerCandidates is the error code of candidates for which the search found no further distinct decision.
const CodeFewerCandidates = "fewer_candidates"

// readCandidates reads extra_keys.candidates. If distinct is false, the candidates are drawn independently.
func (a *Agent) readCandidates(v protocol.Raw) (distinct bool, problems protocol.Problems) {
	const name = "candidates"
	if v.Kind() != '{' {
		return false, rawjson.Wrong(protocol.TypeDict, `an object such as {"distinct": true, "rank": "logprob"}`, v, name)
	}
	ranked := false
	for member, m := range protocol.Members(v) {
		text, isText := protocol.Text(m)
		switch {
		case member == candidatesDistinct && (m.Kind() == 't' || m.Kind() == 'f'):
			distinct = m.Kind() == 't'
		case member == candidatesDistinct:
			problems = append(problems, rawjson.Wrong(protocol.TypeBool, "true or false", m, name, member)...)
		case member == candidatesRank && isText && text == rankLogprob:
			ranked = true
		case member == candidatesRank:
			problems = append(problems, protocol.NewProblem(protocol.TypeLiteral, `it must be "`+rankLogprob+`"`, name, member))
		default:
			problems = append(problems, protocol.NewProblem(protocol.TypeExtraForbidden,
				`there are only "`+candidatesDistinct+`" and "`+candidatesRank+`"; leave this member out`, name, member))
		}
	}
	bad := func(message string, at ...any) {
		problems = append(problems, protocol.NewProblem(protocol.TypeValue, message, at...))
	}
	switch {
	case len(problems) > 0:
	case ranked && !distinct:
		bad(`only distinct candidates are ranked; set "`+candidatesDistinct+`" to true, or leave "`+candidatesRank+`" out`, name, candidatesRank)
	case distinct && a.cfg.NoDistinct != "":
		bad(a.cfg.NoDistinct+"; leave "+name+" out", name, candidatesDistinct)
	case distinct && a.cfg.IgnoreEnd:
		bad("answers of a fixed length are not decisions; leave "+name+" out", name, candidatesDistinct)
	}
	return distinct, problems
}

// DecisionKey is [tools.DecisionKey].
func DecisionKey(d *protocol.AgentDecision) string { return tools.DecisionKey(d) }

// appendBranch appends the members of a candidate's generation that a search or a choice reports.
func appendBranch(b []byte, c *generation.Completion, in *inputRun) []byte {
	probability := math.Exp(min(0, c.Branch.Logprob))
	if c.Branch.Option != nil {
		probability = c.Branch.Option.Probability
	}
	b = appendFloat(append(b, `,"candidate":{"probability":`...), probability, 64)
	b = appendFloat(append(b, `,"logprob":`...), min(0, c.Branch.Logprob), 64)
	b = fmt.Appendf(b, `,"paths":%d`, c.Branch.Paths)
	if o := c.Branch.Option; o != nil {
		b = fmt.Appendf(b, `,"option":%d,"label_mass":`, o.Index)
		b = appendFloat(b, o.Mass, 64)
		b = appendFloat(append(b, `,"omitted":`...), o.Omitted, 64)
		if o.Index == in.best {
			b = append(b, in.chances...)
		}
		return append(b, '}')
	}
	return fmt.Appendf(b, `,"exact":%t}`, c.Branch.Exact)
}
