package format

import "testing"

// TestQwenVariants: what a template does decides, and the architecture where
// there is none.
func TestQwenVariants(t *testing.T) {
	const prompt = `{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n`
	for _, test := range []struct {
		name, arch, template string
		want                 qwenVariant
	}{
		{"Qwen 2.5 by architecture", "qwen2moe", "", qwenVariant{}},
		{"Qwen 3 by architecture", "qwen3", "", qwenVariant{thinks: true, emptyThink: true}},
		{"Qwen 3.5 by architecture", "qwen35", "", qwenVariant{xml: true, thinks: true, emptyThink: true, openThink: true}},
		{"a template wins", "qwen3", "<tool_call>" + prompt + `' }}`, qwenVariant{}},
		{"an instruct model that reads thoughts, but has none", "qwen3", "<tool_call></think>" + prompt + `' }}`, qwenVariant{thinks: true}},
		{"a model that always thinks", "qwen3", "<tool_call></think>" + prompt + `<think>\n' }}`, qwenVariant{thinks: true, openThink: true}},
		{"a switch", "qwen3", "</think>" + prompt + `' }}{%- if enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}`, qwenVariant{thinks: true, emptyThink: true}},
		{"tagged parameters", "qwen3", "<function=x>" + prompt + `' }}`, qwenVariant{xml: true}},
		{"tagged parameters and tools", "qwen3moe", "<parameters><function=x>" + prompt + `' }}`, qwenVariant{xml: true, coder: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := qwenVariantOf(test.arch, test.template); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
