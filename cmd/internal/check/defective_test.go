package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/agent/memory"
	"agentd/household/dataset/playbacktest"
	"agentd/protocol"
)

// calling is an agent whose model calls the first tool that it is offered, for each robot in turn.
// Without tools it replies.
type calling struct{ *playbacktest.Playback }

func (c calling) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	outs, err := c.Playback.Decide(ctx, req)
	for i := range outs {
		o := &outs[i]
		if o.Output == nil || o.Output.Say != playbacktest.Untaught {
			continue
		}
		in := (&heard{req: req}).input(o)
		n := o.CandidateIndex
		if mode, _ := protocol.Get(in.ExtraKeys, "inference_mode"); string(mode) == "true" {
			n = 0
		}
		decides(in, o, n)
	}
	return outs, err
}

// decides puts the decision of the nth sample in place of what the model said.
func decides(in *protocol.AgentInput, o *protocol.AgentOutput, n int) {
	d := protocol.AgentDecision{Say: fmt.Sprintf("I am lost %d times.", n+1), ToolCalls: []protocol.ToolCall{}}
	if len(in.Tools) > 0 {
		d = protocol.AgentDecision{ToolCalls: []protocol.ToolCall{callOf(in, n)}}
	}
	o.Output = &d
	remember(o, d)
	text := encode(d)
	if d.Say != "" {
		text = d.Say
	}
	for i, step := range o.InternalSteps {
		o.InternalSteps[i] = protocol.SetMember(step, "output_raw", protocol.String(text))
	}
}

// remember writes a decision as the last turn.
func remember(o *protocol.AgentOutput, d protocol.AgentDecision) {
	turns := turnsOf(o.Memory)
	turns[len(turns)-1] = protocol.Raw(`{"author":"MODEL","content":` +
		string(protocol.String(string(memory.WriteDecision(d.Say, d.ToolCalls, false)))) + `}`)
	setTurns(o, turns)
}

// turnsOf are the entries of a history.
func turnsOf(m protocol.Raw) []protocol.Raw {
	history, _ := protocol.Get(m, "history")
	return slices.Collect(protocol.Elements(history))
}

func setTurns(o *protocol.AgentOutput, turns []protocol.Raw) {
	o.Memory = protocol.SetMember(o.Memory, "history", protocol.AppendElements(nil, turns...))
}

// callOf calls the first tool with a value for each of its parameters.
func callOf(in *protocol.AgentInput, n int) protocol.ToolCall {
	var tool struct {
		Name                               string
		Parameters, Arguments, InputSchema map[string]json.RawMessage
	}
	_ = json.Unmarshal(in.Tools[0], &tool)
	params := tool.Parameters
	for _, other := range []map[string]json.RawMessage{tool.Arguments, tool.InputSchema} {
		if params == nil {
			params = other
		}
	}
	if list, ok := params["properties"]; ok {
		params = nil
		_ = json.Unmarshal(list, &params)
	}
	args := map[string]any{}
	for name, p := range params {
		args[name] = valueOf(p)
	}
	var attributes struct {
		Robots []string `json:"known_robots"`
	}
	_ = json.Unmarshal(in.Attributes, &attributes)
	robot := "robot"
	if len(attributes.Robots) > 0 {
		robot = attributes.Robots[n%len(attributes.Robots)]
	}
	return protocol.ToolCall{Name: tool.Name, Arguments: protocol.Raw(encode(args)), TargetRobotName: robot}
}

// valueOf is a value of a parameter.
func valueOf(raw json.RawMessage) any {
	var p struct {
		Type string
		Enum []any
	}
	_ = json.Unmarshal(raw, &p)
	switch kind := strings.ToLower(p.Type); {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case strings.HasPrefix(kind, "int"), kind == "long", kind == "short", kind == "byte":
		return 3
	case kind == "number", kind == "float", kind == "double":
		return 1.5
	case strings.HasPrefix(kind, "bool"):
		return true
	case strings.HasPrefix(kind, "list"), strings.HasPrefix(kind, "array"), kind == "tuple":
		return []string{}
	case kind == "object", kind == "dict", kind == "hashmap", kind == "map":
		return map[string]any{}
	}
	return "kitchen"
}

// heard is a request as defects see it.
type heard struct {
	r    *http.Request
	body string
	req  *protocol.AgentRequest // of a valid POST /v1/responses, else nil
}

// input is that of a candidate.
func (h *heard) input(o *protocol.AgentOutput) *protocol.AgentInput {
	return &h.req.Inputs[slices.IndexFunc(h.req.Inputs, func(in protocol.AgentInput) bool { return in.ID == o.SourceID })]
}

// corrected reports whether the input has a correction.
func (h *heard) corrected(o *protocol.AgentOutput) bool {
	c, there := protocol.Get(h.input(o).ExtraKeys, "coaching")
	return there && string(c) != "null"
}

// defect is one thing that a server does wrong. change gets the right answer.
type defect struct {
	name, level string
	change      func(h *heard, a *httptest.ResponseRecorder)
	wrap        func(right http.Handler) http.Handler // in place of change
}

// serve is the right server with the defect.
func (d *defect) serve(right http.Handler) http.Handler {
	if d.wrap != nil {
		return d.wrap(right)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h := &heard{r: r, body: string(body)}
		if r.URL.Path == "/v1/responses" && len(body) < 1<<20 {
			h.req, _ = protocol.DecodeAgentRequest(body)
		}
		a := httptest.NewRecorder()
		right.ServeHTTP(a, r)
		d.change(h, a)
		for name, values := range a.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Body.Bytes())
	})
}

// set replaces an answer.
func set(a *httptest.ResponseRecorder, status int, body string) {
	a.Code = status
	a.Body = bytes.NewBufferString(body)
	a.Header().Del("Content-Length")
	a.Header().Del("Content-Encoding")
}

// accepts is a server that does not see some problems: "type path" of each matches problems, and the
// body matches body.
func accepts(level, name, problems, body string) *defect {
	p, b := regexp.MustCompile(problems), regexp.MustCompile(body)
	return &defect{name: "accepts " + name, level: level, change: func(h *heard, a *httptest.ResponseRecorder) {
		_, list := protocol.DecodeErrorBody(a.Body.Bytes())
		if a.Code != http.StatusUnprocessableEntity || !b.MatchString(h.body) || len(list) == 0 ||
			slices.ContainsFunc(list, func(x protocol.Problem) bool { return !p.MatchString(x.Type + " " + x.Path()) }) {
			return
		}
		switch {
		case h.r.Method == http.MethodPut:
			set(a, http.StatusNoContent, "")
		case h.r.URL.Path == "/v1/coaching":
			set(a, http.StatusOK, `{"request_id":"x","status":"abandoned","reason":"no"}`)
		default:
			set(a, http.StatusOK, `[{"request_id":"x","source_id":1,"candidate_index":0,"status":"completed","memory":{},`+
				`"internal_steps":[],"output":{"say":"ok","tool_calls":[]}}]`)
		}
	}}
}

// rejects is a server that refuses requests whose body matches.
func rejects(level, name, path, body string) *defect {
	b := regexp.MustCompile(body)
	return &defect{name: "refuses " + name, level: level, change: func(h *heard, a *httptest.ResponseRecorder) {
		if strings.HasPrefix(h.r.URL.Path, path) && a.Code < 300 && b.MatchString(h.body) {
			set(a, http.StatusUnprocessableEntity, `{"detail":[{"type":"value_error","loc":["body"],"msg":"no"}]}`)
		}
	}}
}

// lists is a server that changes the candidates of an answer.
func lists(level, name string, change func(h *heard, outs []protocol.AgentOutput) []protocol.AgentOutput) *defect {
	return &defect{name: name, level: level, change: func(h *heard, a *httptest.ResponseRecorder) {
		if h.req == nil || a.Code != http.StatusOK {
			return
		}
		outs, err := protocol.DecodeAgentOutputs(a.Body.Bytes())
		if err != nil {
			return
		}
		var b bytes.Buffer
		_ = protocol.WriteResponse(&b, change(h, outs))
		set(a, http.StatusOK, b.String())
	}}
}

// each is a server that changes each candidate.
func each(level, name string, change func(h *heard, o *protocol.AgentOutput)) *defect {
	return lists(level, name, func(h *heard, outs []protocol.AgentOutput) []protocol.AgentOutput {
		for i := range outs {
			change(h, &outs[i])
		}
		return outs
	})
}

// called is a server that changes what its model calls, in the memory as well.
func called(level, name string, change func(in *protocol.AgentInput, d *protocol.AgentDecision)) *defect {
	return each(level, name, func(h *heard, o *protocol.AgentOutput) {
		if o.Output != nil && len(o.Output.ToolCalls) > 0 && !h.corrected(o) {
			change(h.input(o), o.Output)
			remember(o, *o.Output)
		}
	})
}

// turns is a server that changes the history of completed candidates.
func turns(level, name string, change func(h *heard, o *protocol.AgentOutput, turns []protocol.Raw) []protocol.Raw) *defect {
	return each(level, name, func(h *heard, o *protocol.AgentOutput) {
		if o.Output != nil {
			setTurns(o, change(h, o, turnsOf(o.Memory)))
		}
	})
}

// writes is a server in whose successful answers of a path something is written in another way.
func writes(level, name, path, old, replacement string) *defect {
	pattern := regexp.MustCompile(old)
	return &defect{name: name, level: level, change: func(h *heard, a *httptest.ResponseRecorder) {
		if strings.HasPrefix(h.r.URL.Path, path) && a.Code == http.StatusOK && pattern.Match(a.Body.Bytes()) {
			set(a, a.Code, string(pattern.ReplaceAll(a.Body.Bytes(), []byte(replacement))))
		}
	}}
}

// answers is a server that answers some requests with a status and a body.
func answers(level, name string, status int, body string, when func(h *heard, a *httptest.ResponseRecorder) bool) *defect {
	return &defect{name: name, level: level, change: func(h *heard, a *httptest.ResponseRecorder) {
		if when(h, a) {
			set(a, status, body)
		}
	}}
}

// foundBy runs rules up to a level until one fails, and returns its id and level.
func foundBy(t *testing.T, d *defect, level string, only []string) (id, at string) {
	t.Helper()
	s := httptest.NewServer(d.serve(rightServer(t, false)))
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Run(ctx, Config{URL: s.URL, Level: level, Only: only, Coaching: "auto"}, func(r *Result) {
		if r.Verdict == Fail && id == "" {
			id, at = r.ID, r.Level
			stop()
		}
	})
	if err != nil && id == "" { // it does not even declare itself
		return "start", Must
	}
	return id, at
}
