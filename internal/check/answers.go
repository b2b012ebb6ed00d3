package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// batch asks for six candidates of three inputs, which are not in the order of their ids.
const batch = `{"request_id":"check-batch","inputs":[` +
	`{"id":30,"instruction":{"type":"user","content":"Say yes."},"num_outputs":3},` +
	`{"id":-1,"instruction":{"type":"env","content":"done"}},` +
	`{"id":7,"instruction":{"type":"user","content":"Say no."},"num_outputs":2}]}`

// output is a candidate, read as leniently as Go does.
type output struct {
	RequestID string            `json:"request_id"`
	Source    int64             `json:"source_id"`
	Index     int               `json:"candidate_index"`
	Status    string            `json:"status"`
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

// outputs are the candidates of an answer, which must be a list of objects.
func (p *probe) outputs(x *exchange) (outs []output) {
	p.last = x
	if err := x.decode(&outs); x.status != http.StatusOK || err != nil || len(outs) == 0 {
		p.fail("got %s; right is 200 and a list of candidates", x)
	}
	return outs
}

// first is the first candidate of an answer.
func (p *probe) first(body string) output { return p.outputs(p.send(post(body)))[0] }

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

// each is a rule about every candidate of an answer.
func each(id, level, about, body string, judge func(p *probe, o output) bool) rule {
	return many(id, level, "5", about, func(p *probe) {
		for _, o := range p.outputs(p.send(post(body))) {
			if !judge(p, o) {
				p.fail("got %s and memory %s", o.said(), shown(string(o.Memory)))
			}
		}
	})
}

// answered is a rule about the answer to the batch.
func answered(id, level, about string, judge func(outs []output, x *exchange) error) rule {
	return many(id, level, "4", about, func(p *probe) {
		x := p.once("batch", post(batch))
		if err := judge(p.outputs(x), x); err != nil {
			p.fail("%v", err)
		}
	})
}

// strict is a rule about a part of the answer to the batch.
func strict(part, about string) rule {
	return answered("answer/"+part, Must, about, func(_ []output, x *exchange) error { return problemsOf(x, part) })
}

const unusable = `"id":1,"tools":[{"description":"no name"}]`

// answerRules are about the candidates, their order and their ids.
var answerRules = slices.Concat([]rule{
	answered("order/count", Must, "each input has num_outputs candidates, one by default", func(outs []output, _ *exchange) error {
		return want(runs(outs, func(_ output, n int) int { return n }), "[3 1 2]")
	}),
	answered("order/inputs", Must, "candidates have the order of the inputs", func(outs []output, _ *exchange) error {
		return want(runs(outs, func(o output, _ int) int { return int(o.Source) }), "[30 -1 7]")
	}),
	answered("order/index", Must, "candidate_index counts from 0 for each input", func(outs []output, _ *exchange) error {
		for i, o := range outs {
			first := i == 0 || outs[i-1].Source != o.Source
			if first && o.Index != 0 || !first && o.Index != outs[i-1].Index+1 {
				return fmt.Errorf("candidate %d of input %d has candidate_index %d", i, o.Source, o.Index)
			}
		}
		return nil
	}),
	answered("order/request-id", Must, "each candidate has the request's request_id", func(outs []output, _ *exchange) error {
		i := slices.IndexFunc(outs, func(o output) bool { return o.RequestID != "check-batch" })
		return want(i, "-1")
	}),
	strict("fields", "candidates have the fields of AgentOutput, with their types"),
	strict("status", "completed with an output, or error with an error, never both"),
	strict("memory", "memory is an object"),
	strict("steps", "internal_steps are objects"),
	strict("decision", "an output has say and tool_calls, never both nonempty"),
	answered("answer/null", Should, "absent fields are left out, not null", func(_ []output, x *exchange) error {
		var outs []map[string]json.RawMessage
		err := x.decode(&outs)
		for _, o := range outs {
			for name, v := range o {
				if string(v) == "null" {
					err = fmt.Errorf("%s is null", name)
				}
			}
		}
		return err
	}),
	many("answer/error", Must, "4", "an error has code and message and leaves status 200", func(p *probe) {
		x := p.send(post(edit(plain, `"id":1`, unusable)))
		if p.outputs(x)[0].Error == nil {
			p.unexercised("no candidate failed")
		}
		p.none(problemsOf(x, "error"))
	}),
	echo("order/id-negative", Must, "-5"),
	echo("order/id-largest", Should, "9223372036854775807"),
	echo("order/id-smallest", Should, "-9223372036854775808"),
	each("order/request-id-unicode", Must, "request_id returns as it came", edit(edit(cheap, `"RULE"`, `"\u00e9 \"机\" \\ \n"`), `"hi"`, `"RULE"`),
		func(_ *probe, o output) bool { return o.RequestID == "é \"机\" \\ \n" }),
	many("answer/after-refusals", Must, "4", "a request after refused ones is answered", func(p *probe) {
		for _, bad := range badRequests[:5] {
			p.send(post(edit(edit(plain, bad.old, bad.replacement), ruleName, "bad RULE")))
		}
		p.expect(p.send(post(cheap)), ok)
	}),
}, with(needResume,
	many("order/large-batch", Should, "4", "512 candidates of 256 inputs are in order", func(p *probe) {
		outs := p.outputs(p.send(long(beforeInputs, `{"id":#,"num_outputs":2`+rest+`,`, 255, edit(lastInput, `"id":0`, `"id":0,"num_outputs":2`))))
		for i, o := range outs {
			if o.Source != int64((i/2+1)%256) || o.Index != i%2 || len(outs) != 512 {
				p.fail("of %d candidates number %d is %d/%d", len(outs), i, o.Source, o.Index)
			}
		}
	}),
), with(needHistory,
	many("answer/unusable-tool", Should, "4", "a tool without a name fails its own input only", func(p *probe) {
		outs := p.outputs(p.send(post(edit(cheap, `}}}]`, `}}},{"id":2,"tools":[{}],"instruction":{"type":"user","content":"hi"}}]`))))
		if len(outs) != 2 || outs[0].Error != nil || outs[1].Error == nil {
			p.fail("got %s", p.last)
		}
	}),
	each("answer/code", May, "the code of a tool without a name is invalid_tools", edit(plain, `"id":1`, unusable+`,"num_outputs":2`),
		func(_ *probe, o output) bool { return o.Error != nil && o.Error.Code == "invalid_tools" }),
	answered("answer/step-form", Should, "an internal step has the fields that exporters read", func(outs []output, _ *exchange) error {
		for _, o := range outs {
			for _, step := range o.Steps {
				if _, err := protocol.DecodeInternalStep(protocol.Raw(step)); err != nil && step[0] == '{' {
					return err
				}
			}
		}
		return nil
	}),
	many("mode/deterministic", Must, "5", "inference_mode true gives equal candidates, now and later", func(p *probe) {
		said := map[string]bool{}
		for range 2 {
			for _, o := range p.outputs(p.send(post(edit(greedy, `"id":1`, `"id":1,"num_outputs":2`)))) {
				said[o.said()] = true
			}
		}
		p.none(want(len(said), "1"))
	}),
	one("mode/text", Should, "5", post(edit(greedy, `true`, `"true"`)), refused),
	one("mode/number", Should, "5", post(edit(greedy, `true`, `1`)), refused),
	one("mode/null", May, "5", post(edit(greedy, `true`, `null`)), refused),
	one("mode/place", May, "5", post(edit(greedy, `true`, `[]`)), problem("", "body.inputs[0].extra_keys.inference_mode")),
))

// greedy asks for deterministic decoding.
var greedy = edit(plain, `"id":1`, `"id":1,"extra_keys":{"inference_mode":true}`)

// runs are values of runs of candidates with the same source: of its first one, and its length.
func runs(outs []output, value func(first output, n int) int) (list []int) {
	for len(outs) > 0 {
		n := 1
		for n < len(outs) && outs[n].Source == outs[0].Source {
			n++
		}
		list = append(list, value(outs[0], n))
		outs = outs[n:]
	}
	return list
}

func want(got any, text string) error {
	if fmt.Sprint(got) != text {
		return fmt.Errorf("got %v, want %s", got, text)
	}
	return nil
}

// echo is a rule about an id that returns.
func echo(id, level, source string) rule {
	return each(id, level, "an id of "+source+" returns as source_id", edit(cheap, `"id":1`, `"id":`+source), func(_ *probe, o output) bool {
		return fmt.Sprint(o.Source) == source
	})
}

// problemsOf are the problems of an answer of /v1/responses that are about a part of it.
func problemsOf(x *exchange, part string) error {
	_, err := protocol.DecodeAgentOutputs(x.body)
	problems, _ := err.(protocol.Problems) //nolint:errorlint // the error of every decoder is one
	for _, p := range problems {
		if partOf(p) == part {
			return problems
		}
	}
	return nil
}

func partOf(p protocol.Problem) string {
	path := p.Path()
	switch {
	case strings.HasSuffix(path, ".status"), p.Type == protocol.TypeValue && !strings.Contains(p.Msg, "tool_calls"):
		return "status"
	case strings.HasSuffix(path, ".memory"):
		return "memory"
	case strings.Contains(path, ".internal_steps"):
		return "steps"
	case strings.Contains(path, ".output"):
		return "decision"
	case strings.Contains(path, ".error"):
		return "error"
	}
	return "fields"
}
