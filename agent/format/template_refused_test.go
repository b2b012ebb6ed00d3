package format_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/llama/synth"
)

func TestTemplatesThatRefuseAPlainConversationAreUnusable(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"one that always raises":         {`{{ raise_exception('this model has no chats') }}`, "this model has no chats"},
		"one that wants tools":           {`{% if not tools %}{{ raise_exception('tools are missing') }}{% endif %}x`, "tools are missing"},
		"one for this agent that raises": {`{% if task_attributes is defined %}{{ raise_exception('not today') }}{% endif %}x`, "not today"},
		"one that calls itself":          {`{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, "nested too deeply"},
		"one that prints nothing":        {`{% set x = messages %}`, "empty"},
		"one that fails":                 {`{{ messages.x() }}`, "not a function"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := format.New(format.Template, format.Options{ChatTemplate: tc.template, ModelAPI: newKit(t, synth.Qwen3, tc.template)})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "chat template") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one sentence with %q", err, tc.want)
			}
		})
	}
}

func TestTemplateThatRaisesForAChatGivesItsWords(t *testing.T) {
	const template = `{% for m in messages %}{% if loop.index > 3 %}{{ raise_exception('at most three messages') }}{% endif %}[{{ m.role }}] {{ m.content }}
{% endfor %}`
	f := newFormat(t, format.Template, format.Options{ChatTemplate: template, ModelAPI: newKit(t, synth.Qwen3, template)})
	talk := func(n int) *format.Input {
		c := &format.Chat{}
		for i := range n {
			c.Messages = append(c.Messages, format.ChatMessage{Model: i%2 == 1, Text: "t"})
		}
		return &format.Input{Chat: c}
	}
	if _, err := f.Render(talk(3)); err != nil {
		t.Error(err)
	}
	_, err := f.Render(talk(5))
	var refused *format.TemplateError
	if !errors.As(err, &refused) || refused.Err.Error() != "at most three messages" {
		t.Errorf("%v", err)
	}
}
