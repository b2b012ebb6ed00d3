package agent_test

import (
	"errors"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
)

// TestFormIsThatOfMostAnswers: the model is asked three questions, without a grammar.
func TestFormIsThatOfMostAnswers(t *testing.T) {
	const (
		native = "<tool_call>\n{\"name\": \"get_wea"
		fenced = "```json\n{\n  \"name\":"
		bare   = `{"name": "get_weather", "argu`
		named  = `get_weather(city="Par`
		reply  = "The weather in Paris is"
	)
	for name, test := range map[string]struct {
		answers []string
		want    string
	}{
		"native":              {[]string{native, native, native}, format.FormNative},
		"fenced":              {[]string{fenced, fenced, bare}, format.FormFenced},
		"bare":                {[]string{bare, reply, "[" + bare}, format.FormBare},
		"named":               {[]string{named, named, reply}, format.FormNamed},
		"no form is in most":  {[]string{fenced, bare, reply}, format.FormNative},
		"no answer is a call": {[]string{reply, reply, ""}, format.FormNative},
	} {
		t.Run(name, func(t *testing.T) {
			g := &script{answers: test.answers}
			got, err := newAgent(t, agent.Config{}, nil).FindForm(t.Context(), func(n int) (agent.Generator, error) {
				if n != len(test.answers) {
					t.Errorf("%d completions are admitted", n)
				}
				return g, nil
			})
			if err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
			for _, r := range g.asked {
				if r.Grammar != "" || r.Temperature != 0 {
					t.Errorf("asked with a grammar or sampled: %+v", r.Params)
				}
			}
		})
	}
	t.Run("an engine that fails", func(t *testing.T) {
		fails := errors.New("busy")
		got, err := newAgent(t, agent.Config{}, nil).FindForm(t.Context(), func(int) (agent.Generator, error) { return nil, fails })
		if !errors.Is(err, fails) || got != format.FormNative {
			t.Errorf("%q, %v", got, err)
		}
	})
}
