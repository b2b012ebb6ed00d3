package decide

import (
	"errors"
	"testing"

	"agentd/server/openai"
)

// Any body is answered or refused by name.
func FuzzBodies(f *testing.F) {
	f.Add(decisions(`"a"`, "["+isLit+"]"))
	f.Add(decisions(`[{"role": "user", "content": [{"type": "input_json", "data": [{}]}]}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]`, "["+isLit+"]"))
	f.Add(`{"input": "a", "tools": [` + go2 + `], "questions": [{"type": "choice", "instructions": "x", "choices": [{"value": {"type": "function_call", "name": "go", "arguments": "{}"}}, {"value": "no"}]}]}`)
	f.Add(systemOne(`{"a": {"type": "score", "criteria": ["x", {"y": 1}]}, "b": {"type": "noul", "criteria": {"true": null}}}`))
	f.Fuzz(func(t *testing.T, body string) {
		_, one := Decisions(t.Context(), &scripted{}, []byte(body))
		_, two := SystemOne(t.Context(), &scripted{}, "1", []byte(body))
		for _, err := range []error{one, two} {
			if refused := (*openai.Error)(nil); err != nil && (!errors.As(err, &refused) || refused.Message == "") {
				t.Errorf("%q: %v", body, err)
			}
		}
	})
}
