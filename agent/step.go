package agent

import (
	"strconv"
	"strings"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// stepMaker writes the internal steps of an input's candidates, which share all
// but their end: {"id", "component", "origin", "full_prompt", "input_elements",
// "output_raw"}.
type stepMaker struct {
	prompt string
	head   []byte // up to and with the last of the input elements they share
}

// newStep prepares the steps of an input that a component makes, the number of which
// counts from 0 within a candidate. Without a prompt (a correction of an input whose
// tools are unusable) the prompt is empty and the tools are raw.
func newStep(j *job, prompt *format.Prompt, number int, component, origin string) *stepMaker {
	if prompt == nil {
		list := protocol.Raw{'['}
		for i, t := range j.in.Tools {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, t...)
		}
		prompt = &format.Prompt{Messages: protocol.Raw("[]"), Tools: append(list, ']')}
	}
	size := len(prompt.Text) + len(prompt.Messages) + len(prompt.Tools) + len(j.in.Attributes) + len(j.memory.Summary)
	b := make([]byte, 0, size+size/16+512)
	b = strconv.AppendInt(append(b, `{"id":"step-`...), int64(number), 10)
	b = append(append(b, `","component":"`...), component...)
	b = append(append(b, `","origin":"`...), origin...)
	b = append(b, `","full_prompt":`...)
	b = rawjson.AppendString(b, prompt.Text)
	b = append(append(b, `,"input_elements":{"messages":`...), prompt.Messages...)
	b = append(append(b, `,"tools":`...), prompt.Tools...)
	b = append(b, `,"permanent_rules":`...)
	b = rawjson.AppendStrings(b, j.memory.Rules)
	b = append(b, `,"summary":`...)
	b = rawjson.AppendString(b, j.memory.Summary)
	b = append(append(b, `,"task_attributes":`...), j.in.Attributes...)
	return &stepMaker{prompt: prompt.Text, head: b}
}

// model is the step of a model call. Its raw output ends with the text of the
// end token.
func (s *stepMaker) model(result *Result, c *Completion, seed uint32, reasoning []string) protocol.Raw {
	b := make([]byte, 0, len(s.head)+len(c.Text)+len(c.Text)/8+256)
	b = append(append(b, s.head...), `,"generation":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(result.PromptTokens), 10)
	b = append(b, `,"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(result.CachedTokens), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(c.Tokens), 10)
	b = append(b, `,"finish_reason":`...)
	b = rawjson.AppendString(b, c.Finish)
	b = append(b, `,"seed":`...)
	b = strconv.AppendUint(b, uint64(seed), 10)
	if len(reasoning) > 0 {
		b = append(b, `,"reasoning":`...)
		b = rawjson.AppendString(b, strings.Join(reasoning, "\n\n"))
	}
	b = append(b, `}},"output_raw":`...)
	b = rawjson.AppendString(b, c.Text+c.Stop)
	return append(b, '}')
}

// correction is the step of an applied correction. Its raw output is the
// decision, {"say", "action"}, the action a list.
func (s *stepMaker) correction(say string, calls []tools.Call) protocol.Raw {
	b := make([]byte, 0, len(s.head)+len(say)+256)
	b = append(append(b, s.head...), `},"output_raw":`...)
	raw := append([]byte(`{"say": `), protocol.String(say)...)
	raw = append(raw, `, "action": `...)
	raw = append(memory.AppendAction(raw, calls, true), '}')
	return append(rawjson.AppendString(b, raw), '}')
}
