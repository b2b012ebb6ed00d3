package format_test

import (
	"testing"

	"agentd/agent/format"
)

func TestDetectFormat(t *testing.T) {
	const chatML = "<|im_start|>{{ x }}"
	for _, test := range []struct{ arch, template, want string }{
		{"qwen3", "", "qwen"}, {"qwen2", chatML, "qwen"}, {"llama", chatML + "<tool_call>", "qwen"},
		{"gpt-oss", "", "gpt-oss"}, {"x", "<|channel|>", "gpt-oss"},
		{"qwen3", chatML + "<tool_call>{{ permanent_rules }}", "template"}, {"llama", "{{ messages }}", "template"}, {"llama", chatML, "template"},
	} {
		got, err := format.Detect(test.arch, test.template)
		if err != nil || got != test.want {
			t.Errorf("%s with %q: %s, %v; want %s", test.arch, test.template, got, err, test.want)
		}
	}
	if _, err := format.Detect("llama", ""); err == nil {
		t.Error("an unknown architecture without a template must be an error")
	}
}
