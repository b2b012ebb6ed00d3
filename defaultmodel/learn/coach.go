package learn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"agentd/protocol"
)

// maxQuestion bounds the body of a question, in bytes.
const maxQuestion = 16 << 20

// Coach is an endpoint of chat completions behind which the planner answers. Each run has
// a base URL of its own, /RUN/v1, since a question does not say how things stand in the
// house. It implements http.Handler, for any number of requests at once.
type Coach struct {
	mu     sync.Mutex // guards both
	right  map[string]protocol.AgentDecision
	asked  int
	routes *http.ServeMux
}

// NewCoach is a coach without runs.
func NewCoach() *Coach {
	c := &Coach{right: map[string]protocol.AgentDecision{}, routes: http.NewServeMux()}
	c.routes.HandleFunc("POST /{run}/v1/chat/completions", c.answer)
	return c
}

// Expect sets the planner's decision for the present step of a run.
func (c *Coach) Expect(run string, right protocol.AgentDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.right[run] = right
}

// Forget removes a run.
func (c *Coach) Forget(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.right, run)
}

// Asked is the number of questions that were answered.
func (c *Coach) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// ServeHTTP answers a question.
func (c *Coach) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.routes.ServeHTTP(w, r) }

// Answer of a coach as agentd asks for it.
type answer struct {
	Why      string   `json:"why"`
	Outcome  string   `json:"outcome"`
	Point    string   `json:"reinjection_point_id"`
	Decision decision `json:"decision"`
}

type decision struct {
	Say   string `json:"say"`
	Calls []call `json:"tool_calls"`
}

type call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // the JSON text of an object
	Robot     string `json:"target_robot_name"`
}

// point is the reinjection point of all coaching requests: the input of the wrong step.
const point = "wrong-step"

func (c *Coach) answer(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Model string `json:"model"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&question); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no chat completion request: "+err.Error())
		return
	}
	c.mu.Lock()
	right, known := c.right[r.PathValue("run")]
	if known {
		c.asked++
	}
	c.mu.Unlock()
	if !known {
		refuse(w, http.StatusNotFound, fmt.Sprintf("no run is named %q", r.PathValue("run")))
		return
	}
	a := answer{Why: "The planner decides so.", Outcome: "corrected", Point: point, Decision: decision{Say: right.Say, Calls: []call{}}}
	for _, t := range right.ToolCalls {
		a.Decision.Calls = append(a.Decision.Calls, call{t.Name, string(t.Arguments), t.TargetRobotName})
	}
	text, err := json.Marshal(a)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	send(w, http.StatusOK, map[string]any{
		"id": "planner", "object": "chat.completion", "created": 0, "model": question.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": string(text)}}},
		"usage":   map[string]any{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, // there is no model
	})
}

func refuse(w http.ResponseWriter, status int, message string) {
	send(w, status, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
}

func send(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the caller has gone away
}
