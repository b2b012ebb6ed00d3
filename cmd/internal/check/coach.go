package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// coachName stands in texts for the URL of the kit's coaches. A path follows: what the coach does, then
// the rule that asks, then the path of an API.
const coachName = "COACH"

// What coaches do. The last three are people.
const (
	coachCorrects = "/correct/"
	coachBabbles  = "/babble/"
	coachFails    = "/fail/"
	coachWaits    = "/wait/" // until it is released
	humanCorrects = "/completed/"
	humanSkips    = "/skipped/"
	humanAborts   = "/aborted/"
)

// coachKey is a secret of the sessions. It must come out nowhere but in its header.
const coachKey = "sk-check-93c1"

// coachSay is what the coaches correct a decision to.
const coachSay = "Which pantry do you mean, 93c1?"

// coach is an endpoint that plays models and people.
type coach struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	asked   map[string][]question // by rule
	release map[string]chan struct{}
}

func newCoach(ctx context.Context) (*coach, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the kit's coach cannot listen: %w", err)
	}
	c := &coach{url: "http://" + l.Addr().String(), asked: map[string][]question{}, release: map[string]chan struct{}{}}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: patience}
	go func() { _ = c.server.Serve(l) }() // until close
	return c, nil
}

// arm makes the coach of a rule wait until release is closed. Before, it only answers.
func (c *coach) arm(rule string) (release chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release[rule] = make(chan struct{})
	return c.release[rule]
}

// question is what a coach was sent.
type question struct{ does, body, key string }

// questions are what a rule's coaches were sent.
func (c *coach) questions(rule string) []question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[rule]
}

func (c *coach) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	does, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	rule, _, _ := strings.Cut(rest, "/v1/")
	if err != nil || r.Method != http.MethodPost {
		return // 200
	}
	c.mu.Lock()
	c.asked[rule] = append(c.asked[rule], question{"/" + does + "/", string(body), r.Header.Get("Authorization")})
	release := c.release[rule]
	c.mu.Unlock()
	if release != nil {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
	}
	decision := map[string]any{"say": coachSay, "tool_calls": []any{}}
	var task struct {
		ID string `json:"request_id"`
	}
	_ = json.Unmarshal(body, &task) // an empty id is refused by who asked
	var answer any
	switch does = "/" + does + "/"; does {
	case coachFails:
		http.Error(w, "no", http.StatusBadRequest)
		return
	case humanCorrects:
		answer = map[string]any{"request_id": task.ID, "status": "completed", "output": encode(decision)}
	case humanSkips, humanAborts:
		answer = map[string]any{"request_id": task.ID, "status": strings.Trim(does, "/"), "error": "a person said so"}
	case coachBabbles:
		answer = completion("I do not know.")
	default:
		answer = completion(encode(map[string]any{
			"why": "It is not known.", "outcome": "corrected", "reinjection_point_id": "start", "decision": decision,
		}))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, encode(answer))
}

// completion is a chat completion.
func completion(content string) map[string]any {
	message := map[string]any{"role": "assistant", "content": content}
	return map[string]any{
		"id": "1", "object": "chat.completion", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	}
}

// encode is the JSON of a value that has one.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
