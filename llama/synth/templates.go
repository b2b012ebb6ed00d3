package synth

// Chat templates in the formats of Qwen and GPT-OSS, reduced to what tests and
// a random model need. They are this project's own text.

// chatML renders ChatML dialogues with Hermes tool calls.
const chatML = `{%- macro call(c) -%}
<tool_call>
{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}}
</tool_call>
{%- endmacro -%}
{%- if tools %}<|im_start|>system
{% if messages and messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

Call functions with JSON objects inside <tool_call></tool_call> tags:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Each call is {"name": <function-name>, "arguments": <args-json-object>}.<|im_end|>
{% elif messages and messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' %}
{%- if not loop.first %}<|im_start|>system
{{ m.content }}<|im_end|>
{% endif %}
{%- elif m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}
{%- elif m.role == 'assistant' %}<|im_start|>assistant
{{ m.content or '' }}
{%- for c in m.tool_calls or [] %}
{{ '\n' if m.content or not loop.first else '' }}{{ call(c) }}
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}`

// harmonyTemplate renders dialogues in the harmony format.
const harmonyTemplate = `<|start|>system<|message|>You are a model with random weights.
Reasoning: {{ reasoning_effort or 'medium' }}

# Valid channels: analysis, commentary, final.<|end|>
{%- if tools %}<|start|>developer<|message|># Tools

## functions

namespace functions {
{%- for tool in tools %}

// {{ tool.function.description or '' }}
type {{ tool.function.name }} = (_: {{ tool.function.parameters | tojson }}) => any;
{%- endfor %}

} // namespace functions<|end|>{% endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- for c in m.tool_calls or [] %}<|start|>assistant to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}<|call|>{% endfor %}
{%- if m.content %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% endif %}
{%- elif m.role == 'tool' %}<|start|>functions.{{ m.name or 'tool' }} to=assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>
{%- else %}<|start|>{{ 'developer' if m.role == 'system' else m.role }}<|message|>{{ m.content }}<|end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}`

func defaultTemplate(arch string) string {
	if arch == GPTOSS {
		return harmonyTemplate
	}
	return chatML
}
