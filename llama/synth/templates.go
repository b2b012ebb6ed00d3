package synth

// Chat templates in the formats of Qwen, GPT-OSS and Llama, reduced to what tests and
// a random model need. They are this project's own text. Text stands in
// expressions because the engine drops the newline after a block.

// chatML renders ChatML dialogues with Hermes tool calls.
const chatML = `
{%- macro arguments(call) -%}
{{ call.arguments if call.arguments is string else call.arguments | tojson }}
{%- endmacro -%}
{%- set first = messages[0] if messages else {} -%}
{%- if tools or first.role == 'system' -%}
{{ '<|im_start|>system\n' }}
{%- if first.role == 'system' -%}{{ first.content + ('\n\n' if tools else '') }}{%- endif -%}
{%- if tools -%}
{{ '# Tools\n\nCall functions with JSON objects inside <tool_call></tool_call> tags:\n<tools>' }}
{%- for tool in tools -%}{{ '\n' }}{{ tool | tojson }}{%- endfor -%}
{{ '\n</tools>\nEach call is {"name": <function-name>, "arguments": <args-json-object>}.' }}
{%- endif -%}
{{ '<|im_end|>\n' }}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}
{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\n' }}{%- endif -%}
{%- elif m.role == 'assistant' -%}
{{ '<|im_start|>assistant\n' + (m.content or '') }}
{%- for call in m.tool_calls or [] -%}
{{ '\n' if m.content or not loop.first else '' }}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{ arguments(call.function) }}{{ '}\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- elif m.role != 'system' or not loop.first -%}
{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking -%}{{ '<think>\n\n</think>\n\n' }}{%- endif -%}
{%- endif -%}`

// harmonyTemplate renders dialogues in the harmony format.
const harmonyTemplate = `
{%- macro arguments(call) -%}
{{ call.arguments if call.arguments is string else call.arguments | tojson }}
{%- endmacro -%}
{{ '<|start|>system<|message|>You are a model with random weights.\nReasoning: ' + (reasoning_effort or 'medium') }}
{{- '\n\n# Valid channels: analysis, commentary, final.<|end|>' }}
{%- if tools -%}
{{ '<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n' }}
{%- for tool in tools -%}
{{ '\n// ' + (tool.function.description or '') + '\ntype ' + tool.function.name + ' = (_: ' }}{{ tool.function.parameters | tojson }}{{ ') => any;\n' }}
{%- endfor -%}
{{ '\n} // namespace functions<|end|>' }}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{%- for call in m.tool_calls or [] -%}
{{ '<|start|>assistant to=functions.' + call.function.name + '<|channel|>commentary json<|message|>' }}{{ arguments(call.function) }}{{ '<|call|>' }}
{%- endfor -%}
{%- if m.content -%}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{%- endif -%}
{%- elif m.role == 'tool' -%}
{{ '<|start|>functions.' + (m.name or 'tool') + ' to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>' }}
{%- else -%}
{{ '<|start|>' + ('developer' if m.role == 'system' else m.role) + '<|message|>' + m.content + '<|end|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start|>assistant' }}{%- endif -%}`

// llamaTemplate renders dialogues in the form of Llama 3.1: the tools in the
// first user message, calls as JSON.
const llamaTemplate = `
{%- set tools_in_user_message = true -%}
{%- set date_string = "26 Jul 2024" -%}
{%- set tools = tools or none -%}
{{- '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n' }}
{%- if tools -%}{{ 'Environment: ipython\n' }}{%- endif -%}
{{- 'Cutting Knowledge Date: December 2023\nToday Date: ' + date_string + '\n\n' }}
{%- if messages and messages[0].role == 'system' -%}
{{- messages[0].content }}{%- set messages = messages[1:] -%}
{%- endif -%}
{{- '<|eot_id|>' }}
{%- for m in messages -%}
{{- '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\n\n' }}
{%- if loop.first and tools -%}
{{- 'Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\n' }}
{{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.Do not use variables.\n\n' }}
{%- for tool in tools -%}{{ tool | tojson(indent=4) }}{{ '\n\n' }}{%- endfor -%}
{%- endif -%}
{%- if m.role == 'tool' -%}{{ m.content | tojson }}{%- else -%}{{ m.content or '' }}{%- endif -%}
{%- for call in m.tool_calls or [] -%}
{{- '; ' if not loop.first else '' }}
{{- '{"name": "' + call.function.name + '", "parameters": ' }}{{ call.function.arguments | tojson }}{{ '}' }}
{%- endfor -%}
{{- '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}`

func defaultTemplate(arch string) string {
	switch arch {
	case GPTOSS:
		return harmonyTemplate
	case Llama:
		return llamaTemplate
	}
	return chatML
}
