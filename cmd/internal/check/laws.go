package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentd/protocol"
)

// law is what is right about every answer, whatever rule asked for it.
type law struct {
	id, level, about string
	needs            []need
	wrong            func(x *exchange) string // "": nothing; "-": it is not about this answer
}

const elsewhere = "-"

// breach is an answer that breaks a law.
type breach struct {
	x    *exchange
	text string
}

// laws are judged at the end, by the rules of the area always.
var laws = []law{
	{id: "always/sequence", level: Must, about: "each answer to a valid request has all candidates in order, in the form of AgentOutput", wrong: wrongSequence},
	{id: "always/memory", level: Must, about: "each completed candidate returns its own input's memory, with its instruction and decision appended",
		needs: []need{needHistory}, wrong: ofCandidates(wrongMemory)},
	{id: "always/memory-bytes", level: Should, about: "what was in the memory stays as it was written, in its order, and nothing is added",
		needs: []need{needHistory}, wrong: ofCandidates(wrongBytes)},
	{id: "always/calls", level: Should, about: "each call fits a tool of its input and one of its robots",
		needs: []need{needHistory}, wrong: ofCandidates(wrongCalls)},
	{id: "always/steps", level: Should, about: "each completed candidate has its own steps, with the fields that exporters read",
		needs: []need{needHistory}, wrong: ofCandidates(wrongSteps)},
	{id: "always/type", level: Should, about: "each body is application/json", wrong: wrongType},
	{id: "always/error", level: Should, about: "each error has the form of protocol.md", wrong: wrongError},
}

// lawRules come last.
func lawRules() (list []rule) {
	for _, l := range laws {
		r := many(l.id, l.level, "4", l.about, func(p *probe) {
			b, seen := p.kit.broken[l.id]
			switch {
			case !seen:
				p.end(Unexercised, "no rule that ran asked for such an answer")
			case b.x != nil:
				panic(ended{Fail, fmt.Sprintf("%s, in %s", b.text, b.x), b.x})
			}
		})
		list = append(list, with1(r, l.needs...))
	}
	return list
}

// with1 adds needs to a rule.
func with1(r rule, needs ...need) rule {
	r.needs = append(r.needs, needs...)
	return r
}

// obey judges an answer by all laws, and keeps the first breach of each.
func (k *kit) obey(x *exchange) {
	if !strings.HasPrefix(x.request.path, "/v1/") && !strings.HasPrefix(x.request.path, "/health") || x.request.anonymous || x.header.Get("Content-Encoding") != "" {
		return
	}
	for _, l := range laws {
		text := l.wrong(x)
		if text == elsewhere || k.broken[l.id].x != nil {
			continue
		}
		b := breach{text: text}
		if text != "" {
			b.x = x
		}
		k.broken[l.id] = b
	}
}

// answer is an answer with candidates, and its request.
func (x *exchange) answer() (req *protocol.AgentRequest, outs []protocol.AgentOutput, err error) {
	t := x.request.text
	if x.status != http.StatusOK || x.request.method != http.MethodPost || x.request.path != "/v1/responses" || t.n*len(t.unit) > maxJudged {
		return nil, nil, nil
	}
	if req, err = protocol.DecodeAgentRequest([]byte(t.String())); err != nil {
		return nil, nil, nil //nolint:nilerr // another rule is about what is wrong with it
	}
	if outs, err = protocol.DecodeAgentOutputs(x.body); err == nil {
		err = protocol.ValidateResponse(req, outs)
	}
	return req, outs, err
}

func wrongSequence(x *exchange) string {
	req, _, err := x.answer()
	switch {
	case req == nil:
		return elsewhere
	case err != nil:
		return err.Error()
	}
	return ""
}

// ofCandidates is a law about each candidate of a valid answer.
func ofCandidates(wrong func(in *protocol.AgentInput, o *protocol.AgentOutput) string) func(x *exchange) string {
	return func(x *exchange) string {
		req, outs, err := x.answer()
		if req == nil || err != nil {
			return elsewhere
		}
		i, all := 0, elsewhere
		for k := range req.Inputs {
			for range req.Inputs[k].NumOutputs {
				switch text := wrong(&req.Inputs[k], &outs[i]); text {
				case elsewhere:
				case "":
					all = ""
				default:
					return fmt.Sprintf("candidate %d of input %d: %s", outs[i].CandidateIndex, outs[i].SourceID, text)
				}
				i++
			}
		}
		return all
	}
}

// isCorrected reports whether an input has a correction.
func isCorrected(in *protocol.AgentInput) bool {
	correction, there := protocol.Get(in.ExtraKeys, "coaching")
	return there && string(correction) != "null"
}

func wrongType(x *exchange) string {
	if len(x.body) == 0 || strings.HasPrefix(x.header.Get("Content-Type"), "application/json") {
		return ""
	}
	return "the Content-Type is " + quote(x.header.Get("Content-Type"))
}

func wrongError(x *exchange) string {
	if x.status < http.StatusBadRequest || x.request.method == http.MethodHead || strings.HasPrefix(x.request.path, "/health") {
		return elsewhere
	}
	var answer struct {
		Detail json.RawMessage `json:"detail"`
	}
	var problems []struct {
		Type string            `json:"type"`
		Loc  []json.RawMessage `json:"loc"`
		Msg  string            `json:"msg"`
	}
	var sentence string
	switch {
	case json.Unmarshal(x.body, &answer) != nil || answer.Detail == nil:
		return `the body is not {"detail": ...}`
	case x.status != http.StatusUnprocessableEntity:
		if json.Unmarshal(answer.Detail, &sentence) != nil || sentence == "" {
			return "the detail is not a sentence"
		}
	case json.Unmarshal(answer.Detail, &problems) != nil || len(problems) == 0:
		return "the detail lists no problem"
	default:
		for _, p := range problems {
			if p.Type == "" || p.Msg == "" || len(p.Loc) == 0 {
				return "a problem lacks type, loc or msg"
			}
		}
	}
	return ""
}

// equal compares two JSON texts by their values.
func equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y protocol.Raw = bytes.Clone(a), bytes.Clone(b)
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
