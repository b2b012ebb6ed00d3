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
		Calls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Robot     string          `json:"target_robot_name"`
		} `json:"tool_calls"`
	} `json:"output"`
	Error *struct{ Code, Message string } `json:"error"`
}

// outputs are the candidates of an answer, which must be a list of objects.
func (p *probe) outputs(x *exchange) (outs []output) {
	p.last = x
	if err := x.decode(&outs); x.status != http.StatusOK || err != nil || len(outs) == 0 {
		p.fail("got %s, %v; right is 200 and a list of candidates", x, err)
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

// answered is a rule about the answer to the batch.
func answered(id, level, about string, judge func(outs []output, x *exchange) error) rule {
	return many(id, level, "4", about, func(p *probe) {
		x := p.once("batch", post(batch))
		if err := judge(p.outputs(x), x); err != nil {
			p.fail("%v; right is: %s", err, about)
		}
	})
}

// strict is a rule about a part of the answer to the batch.
func strict(id, about, part string) rule {
	return answered(id, Must, about, func(_ []output, x *exchange) error { return problemsOf(x, part) })
}

// answerRules are about the candidates, their order and their ids.
var answerRules = slices.Concat([]rule{
	answered("answer/type", Should, "the Content-Type is application/json", func(_ []output, x *exchange) error {
		return header("Content-Type", "application/json").judge(x)
	}),
	answered("order/count", Must, "each input has num_outputs candidates, one by default", func(outs []output, _ *exchange) error {
		return want(runs(outs, func(o output, n int) int { return n }), "[3 1 2]")
	}),
	answered("order/inputs", Must, "candidates have the order of the inputs", func(outs []output, _ *exchange) error {
		return want(runs(outs, func(o output, _ int) int { return int(o.Source) }), "[30 -1 7]")
	}),
	answered("order/index", Must, "candidate_index counts from 0 for each input", func(outs []output, _ *exchange) error {
		for i, o := range outs {
			expected := 0
			if i > 0 && outs[i-1].Source == o.Source {
				expected = outs[i-1].Index + 1
			}
			if o.Index != expected {
				return fmt.Errorf("candidate %d of input %d has candidate_index %d", i, o.Source, o.Index)
			}
		}
		return nil
	}),
	answered("order/request-id", Must, "each candidate has the request's request_id", func(outs []output, _ *exchange) error {
		for _, o := range outs {
			if o.RequestID != "check-batch" {
				return fmt.Errorf("request_id is %q", o.RequestID)
			}
		}
		return nil
	}),
	strict("answer/fields", "candidates have the fields of AgentOutput, with their types", "shape"),
	strict("answer/status", "completed with an output or error with an error, not both", "status"),
	strict("answer/memory", "memory is an object", "memory"),
	strict("answer/steps", "internal_steps are objects", "steps"),
	strict("answer/decision", "an output has say and tool_calls, not both nonempty", "decision"),
	answered("answer/null", Should, "absent fields are left out, not null", func(_ []output, x *exchange) error {
		var outs []map[string]any
		if err := x.decode(&outs); err != nil {
			return err
		}
		for _, o := range outs {
			for name, v := range o {
				if v == nil {
					return fmt.Errorf("%s is null", name)
				}
			}
		}
		return nil
	}),
	many("answer/error", Must, "4", "an error has code and message and leaves status 200", func(p *probe) {
		x := p.send(post(edit(plain, `"id":1`, `"id":1,"tools":[{"description":"no name"}]`)))
		if p.outputs(x)[0].Error == nil {
			p.unexercised("no candidate failed")
		}
		if err := problemsOf(x, "error"); err != nil {
			p.fail("%v", err)
		}
	}),
	echo("order/request-id-unicode", Must, `\u00e9 \"机\" \\ \n`, "1"),
	echo("order/id-negative", Must, "RULE", "-5"),
	echo("order/id-largest", Should, "RULE", "9223372036854775807"),
	echo("order/id-smallest", Should, "RULE", "-9223372036854775808"),
	many("order/same-ids", Must, "4", "the same ids again are another request", func(p *probe) {
		for _, text := range []string{"first 93c1", "second 93c1"} {
			body := edit(plain, `"hi"`, `"`+text+`"`)
			if other := "first 93c1"; text != other && strings.Contains(string(p.first(body).Memory), other) {
				p.fail("the memory has the text of the request before")
			}
		}
	}),
	many("answer/after-refusals", Must, "4", "a request after refused ones is answered", func(p *probe) {
		for _, bad := range badRequests[:5] {
			p.send(post(edit(edit(plain, bad.old, bad.replacement), "RULE", "RULE/bad")))
		}
		p.expect(p.send(post(cheap)), ok)
	}),
	many("health/after-refusals", Must, "2", "the server is ready after refused requests", func(p *probe) {
		p.send(post("{"))
		p.expect(p.send(get("/health?after")), ok)
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
		x := p.send(post(edit(edit(cheap, `"id":1`, `"id":2`), `[{`, `[{"id":1,"tools":[{}],"instruction":{"type":"user","content":"hi"}},{`)))
		if outs := p.outputs(x); len(outs) != 2 || outs[0].Error == nil || outs[1].Error != nil {
			p.fail("got %s", x)
		}
	}),
	many("answer/code", May, "4", "the code of a tool without a name is invalid_tools", func(p *probe) {
		if o := p.first(edit(plain, `"id":1`, `"id":1,"tools":[{"description":"x"}]`)); o.Error == nil || o.Error.Code != "invalid_tools" {
			p.fail("got %s", o.said())
		}
	}),
	many("answer/step-form", Should, "4", "an internal step has the fields that exporters read", func(p *probe) {
		for _, o := range p.outputs(p.once("batch", post(batch))) {
			for _, step := range o.Steps {
				if _, err := protocol.DecodeInternalStep(protocol.Raw(step)); err != nil {
					p.fail("%v", err)
				}
			}
		}
	}),
	many("mode/deterministic", Must, "5", "inference_mode true gives equal candidates, now and later", func(p *probe) {
		greedy := edit(plain, `"id":1`, `"id":1,"num_outputs":2,"extra_keys":{"inference_mode":true}`)
		said := map[string]bool{}
		for range 2 {
			for _, o := range p.outputs(p.send(post(greedy))) {
				said[o.said()] = true
			}
		}
		if len(said) != 1 {
			p.fail("got %d different decisions", len(said))
		}
	}),
	one("mode/text", Should, "5", post(edit(cheap, `"extra_keys":{`, `"extra_keys":{"inference_mode":"true",`)), refused),
	one("mode/number", Should, "5", post(edit(cheap, `"extra_keys":{`, `"extra_keys":{"inference_mode":1,`)), refused),
	one("mode/null", May, "5", post(edit(cheap, `"extra_keys":{`, `"extra_keys":{"inference_mode":null,`)), refused),
	one("mode/place", May, "5", post(edit(cheap, `"extra_keys":{`, `"extra_keys":{"inference_mode":[],`)), problem("", "body.inputs[0].extra_keys.inference_mode")),
))

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

// echo is a rule about a request_id, as JSON has it, and an id that return.
func echo(id, level, requestID, source string) rule {
	return many(id, level, "4", "request_id and id return as they came", func(p *probe) {
		body := edit(edit(cheap, `"RULE"`, `"`+requestID+`"`), `"id":1`, `"id":`+source)
		if requestID != ruleName {
			body = edit(body, `"hi"`, `"RULE"`)
		}
		var name string
		if err := json.Unmarshal([]byte(`"`+strings.Replace(requestID, ruleName, id, 1)+`"`), &name); err != nil {
			panic(err)
		}
		if o := p.first(body); o.RequestID != name || fmt.Sprint(o.Source) != source {
			p.fail("got %q and %d", o.RequestID, o.Source)
		}
	})
}
