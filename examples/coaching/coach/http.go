package coach

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// maxQuestion bounds a request's body.
const maxQuestion = 16 << 20

// request holds the fields of a chat completion request that the coach needs.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Content json.RawMessage `json:"content"` // a text, or a list of parts with text
	} `json:"messages"`
	Format *struct {
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// Handler serves POST /v1/chat/completions. It calls said for each answer.
func Handler(said func(Answer)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var req request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&req); err != nil {
			refuse(w, "the body is not a chat completion request: "+err.Error())
			return
		}
		question, err := req.question()
		if err != nil {
			refuse(w, err.Error())
			return
		}
		answer := Plan(question)
		said(answer)
		send(w, http.StatusOK, req.completion(question, answer))
	})
	return mux
}

// question is the text of all messages.
func (r *request) question() (string, error) {
	var all []string
	for i, m := range r.Messages {
		var text string
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(m.Content, &text) == nil {
			all = append(all, text)
		} else if json.Unmarshal(m.Content, &parts) == nil {
			for _, p := range parts {
				all = append(all, p.Text)
			}
		} else {
			return "", fmt.Errorf("the content of message %d is neither a text nor a list of parts", i)
		}
	}
	return strings.Join(all, "\n"), nil
}

// completion puts an answer into the form that the request asks for: the call of
// a tool, JSON after a schema, or else JSON in a fence.
func (r *request) completion(question string, a Answer) map[string]any {
	switch {
	case len(r.Tools) > 0:
		tool := r.Tools[0].Function
		call := map[string]any{"name": tool.Name, "arguments": a.text(tool.Parameters)}
		return r.envelope(question, "tool_calls", map[string]any{"role": "assistant", "content": nil,
			"tool_calls": []any{map[string]any{"id": "call_1", "type": "function", "function": call}}})
	case r.Format != nil:
		return r.envelope(question, "stop", map[string]any{"role": "assistant", "content": a.text(r.Format.Schema.Schema)})
	}
	return r.envelope(question, "stop", map[string]any{"role": "assistant", "content": "```json\n" + a.text(nil) + "\n```"})
}

// envelope is the rest of a chat completion. Tokens are reckoned as four characters.
func (r *request) envelope(question, reason string, message map[string]any) map[string]any {
	prompt, answer := len(question)/4, len(fmt.Sprint(message))/4
	return map[string]any{
		"id": "chatcmpl-scripted", "object": "chat.completion", "created": 0, "model": r.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": reason, "message": message}},
		"usage":   map[string]any{"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer},
	}
}

// text is the answer's JSON after a schema, which may be nil.
func (a Answer) text(schema json.RawMessage) string {
	var v any
	if json.Unmarshal(schema, &v) == nil && argumentsAreText(v) {
		calls := make([]Call, len(a.Decision.Calls))
		for i, c := range a.Decision.Calls {
			arguments, _ := json.Marshal(c.Arguments) //nolint:errchkjson // a map of strings
			calls[i] = Call{c.Name, string(arguments), c.Robot}
		}
		a.Decision.Calls = calls
	}
	text, _ := json.Marshal(a) //nolint:errchkjson // nothing in it can fail
	return string(text)
}

// argumentsAreText finds out whether a schema wants "arguments" as a JSON text.
func argumentsAreText(schema any) bool {
	switch v := schema.(type) {
	case map[string]any:
		if arguments, ok := v["arguments"].(map[string]any); ok && arguments["type"] == "string" {
			return true
		}
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), argumentsAreText)
	case []any:
		return slices.ContainsFunc(v, argumentsAreText)
	}
	return false
}

// refuse answers as OpenAI's endpoints do when a request is wrong.
func refuse(w http.ResponseWriter, message string) {
	send(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
}

func send(w http.ResponseWriter, status int, answer map[string]any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has gone away
}
