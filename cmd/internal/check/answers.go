package check

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// output is a candidate, read as leniently as Go does.
type output struct {
	RequestID string            `json:"request_id"`
	Source    int64             `json:"source_id"`
	Index     int               `json:"candidate_index"`
	Memory    json.RawMessage   `json:"memory"`
	Steps     []json.RawMessage `json:"internal_steps"`
	Output    *struct {
		Say   string `json:"say"`
		Calls []call `json:"tool_calls"`
	} `json:"output"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Robot     string          `json:"target_robot_name"`
}

// outputs are the candidates of an answer, none if it is not a list of objects.
func (x *exchange) outputs() (outs []output) {
	if x.status != http.StatusOK || json.Unmarshal(x.body, &outs) != nil {
		return nil
	}
	return outs
}

// said is a candidate's decision, or its error.
func (o *output) said() string {
	if o.Output == nil {
		return "an error: " + encode(o.Error)
	}
	return encode(o.Output)
}

// says reports whether the candidate is this reply.
func (o *output) says(text string) bool {
	return o.Output != nil && o.Output.Say == text && len(o.Output.Calls) == 0
}

// list is an answer with candidates of which something is right.
func list(about string, judge func(outs []output) bool) right {
	return right{text: about, judge: func(x *exchange) string {
		outs := x.outputs()
		return when(len(outs) > 0 && judge(outs))
	}}
}

// every is an answer of whose candidates each is right.
func every(about string, judge func(o output) bool) right {
	return list(about, func(outs []output) bool {
		return !slices.ContainsFunc(outs, func(o output) bool { return !judge(o) })
	})
}

// decided is an answer with candidates.
var decided = list("200 and a list of candidates", func([]output) bool { return true })

// failed is about an answer whose candidate has an error. It is not exercised by another.
func failed(r right) right {
	return right{text: r.text, judge: func(x *exchange) string {
		if outs := x.outputs(); len(outs) > 0 && outs[0].Error == nil {
			return Unexercised
		}
		return r.judge(x)
	}}
}

// without is an answer without problems in a part of its candidates: status, decision or form.
func without(part, about string) right {
	return right{text: about, judge: func(x *exchange) string {
		_, err := protocol.DecodeAgentOutputs(x.body)
		problems, _ := err.(protocol.Problems) //nolint:errorlint // the error of every decoder is one
		return when(!slices.ContainsFunc(problems, func(p protocol.Problem) bool { return partOf(p) == part }))
	}}
}

// partOf is the part of a candidate that a problem is about.
func partOf(p protocol.Problem) string {
	path := p.Path()
	switch {
	case strings.HasSuffix(path, ".status") || p.Type == protocol.TypeValue && !strings.Contains(p.Msg, "tool_calls"):
		return "status"
	case strings.Contains(path, "].output"):
		return "decision"
	}
	return "form"
}

// batch asks for six candidates of three inputs, which are not in the order of their ids.
const batch = `{"request_id":"check-batch","inputs":[` +
	`{"id":30,"instruction":{"type":"user","content":"Say yes."},"num_outputs":3},` +
	`{"id":-1,"instruction":{"type":"env","content":"done"}},` +
	`{"id":7,"instruction":{"type":"user","content":"Say no."},"num_outputs":2}]}`

// answered is a rule about the answer to the batch, which is asked once.
func answered(id, level string, r right) rule {
	sent := post(batch)
	sent.shared = "batch"
	return one(id, level, "4", sent, r)
}

// worded is a memory of words that a prompt must have.
const worded = `{"memory_list":["Be kind to cats"],"history":[{"author":"USER","content":"Where is Anna"},` +
	`{"author":"MODEL","content":"{\"say\": \"In the cellar\", \"action\": {}}"},{"author":"SYSTEM","content":"Bob has arrived"}]}`

const unusable = `"id":1,"tools":[{"description":"no name"}]`

// greedy asks for deterministic decoding.
var greedy = input(`"id":1,"extra_keys":{"inference_mode":true}`)

// answerRules are about the candidates, their order and their ids.
var answerRules = slices.Concat([]rule{
	answered("order/count", Must, list("each input has num_outputs candidates, one by default", func(outs []output) bool {
		return runs(outs, func(_ output, n int) int { return n }) == "[3 1 2]"
	})),
	answered("order/inputs", Must, list("candidates have the order of the inputs", func(outs []output) bool {
		return runs(outs, func(o output, _ int) int { return int(o.Source) }) == "[30 -1 7]"
	})),
	answered("order/index", Must, list("candidate_index counts from 0 for each input", func(outs []output) bool {
		for i, o := range outs {
			first := i == 0 || outs[i-1].Source != o.Source
			if first && o.Index != 0 || !first && o.Index != outs[i-1].Index+1 {
				return false
			}
		}
		return true
	})),
	answered("order/request-id", Must, every("request_id is the request's", func(o output) bool { return o.RequestID == "check-batch" })),
	answered("answer/form", Must, without("form", "candidates have the fields of AgentOutput, with their types")),
	answered("answer/status", Must, without("status", "completed with an output, or error with an error, never both")),
	answered("answer/decision", Must, without("decision", "an output has say and tool_calls, never both nonempty")),
	one("answer/error", Must, "4", post(input(unusable)), failed(without("form", "an error has code and message"))),
	one("order/id-largest", Should, "4", post(edit(cheap, `"id":1`, `"id":9223372036854775807`)),
		every("source_id as it came", func(o output) bool { return o.Source == math.MaxInt64 })),
	one("order/request-id-unicode", Must, "4", post(edit(cheap, `"RULE"`, `" RULE \u00e9 \"机\" \\ \n"`)),
		every("request_id as it came", func(o output) bool {
			return strings.HasPrefix(o.RequestID, " ") && strings.HasSuffix(o.RequestID, "é \"机\" \\ \n")
		})),
	one("order/many", Must, "4", post(ids()), lawful("36 candidates in order", wrongSequence)),
	chain("answer/after-refusals", Must, "4", "requests after refused ones are answered",
		step{post(input(`"id":"RULE"`)), refused}, step{post(`{"RULE`), refused}, step{post(cheap), decided}),
}, with(needHistory,
	one("answer/unusable-tool", Should, "4", post(edit(cheap, `}}}]`,
		`}}},{"id":2,"tools":[{}],"instruction":{"type":"user","content":"hi"}}]`)),
		every("an error of the second input only", func(o output) bool { return (o.Error != nil) == (o.Source == 2) })),
	one("steps/prompt", Should, "5", post(input(`"id":1,"memory":`+worded)),
		every("a prompt with the rules, the history and the instruction", func(o output) bool {
			if o.Output == nil {
				return true
			}
			var prompt string
			for _, s := range o.Steps {
				if step, err := protocol.DecodeInternalStep(protocol.Raw(s)); err == nil {
					prompt += step.FullPrompt
				}
			}
			return !slices.ContainsFunc([]string{"Be kind to cats", "Where is Anna", "In the cellar", "Bob has arrived", "hi"}, func(part string) bool {
				return !strings.Contains(prompt, part)
			})
		})),
	many("mode/deterministic", Must, "5", "inference_mode true gives equal candidates, now and later", func(p *probe) {
		said := map[string]bool{}
		for range 2 {
			for _, o := range p.take(post(edit(greedy, `"id":1`, `"id":1,"num_outputs":2`)), decided).outputs() {
				said[o.said()] = true
			}
		}
		if len(said) > 1 {
			p.fail("got %d different decisions", len(said))
		}
	}),
), with(needHistory, variants([]variant{
	{"mode/text", Should, `true`, `"true"`}, {"mode/text", Should, `true`, `1`}, {"mode/text", Should, `true`, `null`},
}, "5", post(greedy), refused)...))

// runs are values of runs of candidates with the same source: of its first one, and its length.
func runs(outs []output, value func(first output, n int) int) string {
	var list []int
	for len(outs) > 0 {
		n := 1
		for n < len(outs) && outs[n].Source == outs[0].Source {
			n++
		}
		list = append(list, value(outs[0], n))
		outs = outs[n:]
	}
	return fmt.Sprint(list)
}
