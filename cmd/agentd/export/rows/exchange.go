package rows

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/protocol"
)

// exchanges is a file of requests with their responses, one after the other. A value is
//
//	{"request": AgentRequest, "response": [AgentOutput], "outcomes": [...], "run_id": "..."}
//
// with optional outcomes, one for each candidate: null or {"outcome": "...", "reward": 1.5}. Or it is
// what a recording proxy writes:
//
//	{"method": "POST", "path": "/v1/responses", "headers": {}, "body": {}, "status": 200, "answer": []}
//
// It is read at path. Rows and errors call it name.
type exchanges struct {
	path, name string
	copy       *os.File // of a pipe, at path; nil for a file
}

// wasCut is why a value is skipped.
const wasCut = "the line is cut off: its recorder ended while it wrote"

func (x *exchanges) each(found secrets, skipped map[string]int, f func(*Situation) error) error {
	start, line := int64(0), 1
	for {
		err := values(x.path, x.name, start, line, func(raw protocol.Raw, line int, offset int64) error {
			list, err := x.read(raw, line, offset, found)
			if err != nil {
				return err
			}
			for _, s := range list {
				if err := f(s); err != nil {
					return err
				}
			}
			return nil
		})
		broken := (*brokenValue)(nil)
		if !errors.As(err, &broken) {
			return err
		}
		var n int
		if start, line, n, err = broken.afterCut(x.path, found); err != nil {
			return err
		}
		if n == 0 {
			return broken
		}
		skipped[wasCut] += n
	}
}

func (x *exchanges) load(at ref) (*Situation, error) {
	raw, err := valueAt(x.path, at.offset)
	if err != nil {
		return nil, err
	}
	list, err := x.read(raw, 0, at.offset, secrets{})
	if err != nil || at.index >= len(list) {
		return nil, fmt.Errorf("%s changed while it was read: %w", x.path, err)
	}
	return list[at.index], nil
}

// exchange is a value of the file; members of both forms.
type exchange struct {
	Request  protocol.Raw `json:"request"`
	Response protocol.Raw `json:"response"`
	Outcomes []*outcome   `json:"outcomes"`
	RunID    string       `json:"run_id"`
	Method   string       `json:"method"`
	Path     string       `json:"path"`
	Headers  protocol.Raw `json:"headers"`
	Body     protocol.Raw `json:"body"`
	Status   int          `json:"status"`
	Answer   protocol.Raw `json:"answer"`
}

// outcome is what became of a candidate.
type outcome struct {
	Outcome string   `json:"outcome"`
	Reward  *float64 `json:"reward"`
}

// read makes the situations of a value. A recorded request of another kind has none.
func (x *exchanges) read(raw protocol.Raw, line int, offset int64, found secrets) ([]*Situation, error) {
	var e exchange
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("no exchange: %w", err)
	}
	if e.Path != "" && !e.recorded(found) {
		return nil, nil
	}
	request, outs, err := e.decode()
	if err != nil {
		return nil, err
	}
	list := make([]*Situation, 0, len(request.Inputs))
	for i := range request.Inputs {
		in := &request.Inputs[i]
		s := &Situation{
			Source: fmt.Sprintf("%s:%d", filepath.Base(x.name), line), RunID: e.RunID, RequestID: request.RequestID, Input: in,
			at: ref{offset: offset, index: i}, back: memoryKey(in.Memory),
		}
		if string(in.Memory) == "{}" {
			s.back = 0 // every run begins so
		}
		coached, _ := protocol.Get(in.ExtraKeys, "coaching")
		for j := range in.NumOutputs {
			out := &outs[j]
			c := Candidate{Index: out.CandidateIndex, Status: out.Status, Output: out.Output, Steps: out.InternalSteps}
			c.corrects = coached != nil && coached.Kind() != 'n'
			if out.Output != nil {
				c.next = memoryKey(out.Memory)
			}
			if e.Outcomes != nil && e.Outcomes[j] != nil {
				c.Outcome, c.Reward = e.Outcomes[j].Outcome, e.Outcomes[j].Reward
			}
			s.Candidates = append(s.Candidates, c)
		}
		outs = outs[in.NumOutputs:]
		if e.Outcomes != nil {
			e.Outcomes = e.Outcomes[in.NumOutputs:]
		}
		list = append(list, s)
	}
	return list, nil
}

// recorded takes the request and its response out of what a proxy recorded, and reports whether it is
// a request for decisions that was answered. It collects secrets of all.
func (e *exchange) recorded(found secrets) bool {
	found.request(e.Headers)
	if strings.Contains(e.Path, "/v1/coaching/sessions/") && e.Method == http.MethodPut {
		// A configuration that a server refused may hold a key, too.
		if config, err := protocol.DecodeCoachingSessionConfig(e.Body); err == nil {
			found.session(config)
		}
	}
	e.Request, e.Response = e.Body, e.Answer
	return strings.HasSuffix(e.Path, "/v1/responses") && e.Status == http.StatusOK
}

// decode reads the request and its response, and checks that they belong together.
func (e *exchange) decode() (*protocol.AgentRequest, []protocol.AgentOutput, error) {
	if e.Request == nil || e.Response == nil {
		return nil, nil, errors.New(`an exchange has the members "request" and "response", or "path", "body", "status" and "answer"`)
	}
	request, err := protocol.DecodeAgentRequest(e.Request)
	if err != nil {
		return nil, nil, fmt.Errorf("the request is invalid: %w", err)
	}
	outs, err := protocol.DecodeAgentOutputs(e.Response)
	if err == nil {
		err = protocol.ValidateResponse(request, outs)
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the response is invalid: %w", err)
	case e.Outcomes != nil && len(e.Outcomes) != len(outs):
		return nil, nil, fmt.Errorf("outcomes has %d elements, and the response %d; write one for each candidate, null if unknown", len(e.Outcomes), len(outs))
	}
	return request, outs, nil
}
