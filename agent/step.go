package agent

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// stepMaker writes the internal steps of an input's candidates, whose JSON differs only at the end.
type stepMaker struct {
	in     *inputRun
	prompt string
	tokens []generation.Token // of the prompt; nil for a correction
	form   string             // see Agent.CallForm
	head   []byte             // the shared beginning of the JSON, to the last input element that all have
	cut    int                // messages left out of the history, see historySummarized
	next   map[string]int     // results of nextPromptDiffers, by the tokens of the answer
}

// newStep prepares step number (from 0) of a component. tokens are the prompt's, nil for a correction. Without a
// prompt, as for a correction with unusable tools, the step has the raw tools.
func newStep(in *inputRun, prompt *format.Prompt, number int, component, origin string, tokens []generation.Token) *stepMaker {
	if prompt == nil {
		prompt = &format.Prompt{Messages: protocol.Raw("[]"), Tools: protocol.AppendElements(nil, in.input.Tools...)}
	}
	size := len(prompt.Text) + len(prompt.Messages) + len(prompt.Tools) + len(in.input.Attributes) + len(in.memory.Summary)
	b := make([]byte, 0, size+size/16+512)
	b = fmt.Appendf(b, `{"id":"step-%d","component":"%s","origin":"%s","full_prompt":`, number, component, origin)
	b = rawjson.AppendString(b, prompt.Text)
	b = append(append(b, `,"input_elements":{"messages":`...), prompt.Messages...)
	b = append(append(b, `,"tools":`...), prompt.Tools...)
	b = append(b, `,"permanent_rules":`...)
	b = rawjson.AppendStrings(b, in.memory.Rules)
	b = append(b, `,"summary":`...)
	b = rawjson.AppendString(b, in.memory.Summary)
	b = append(append(b, `,"task_attributes":`...), in.input.Attributes...)
	return &stepMaker{in: in, prompt: prompt.Text, tokens: tokens, head: b, next: map[string]int{}}
}

// model makes the step of a model call. Its raw output includes the end token's text. differs is nextPromptDiffers.
func (s *stepMaker) model(result *generation.Result, c *generation.Completion, seed uint32, d *format.Decision, differs int) protocol.Raw {
	b := make([]byte, 0, len(s.head)+len(c.Text)+len(c.Text)/8+256)
	b = fmt.Appendf(append(b, s.head...), `,"generation":{"prompt_tokens":%d,"cached_tokens":%d,"completion_tokens":%d,"finish_reason":`,
		result.PromptTokens, result.CachedTokens, len(c.Tokens))
	b = fmt.Appendf(rawjson.AppendString(b, string(c.Finish)), `,"seed":%d`, seed)
	b = appendText(b, "reasoning", strings.Join(d.Reasoning, "\n\n"))
	b = appendText(b, "call_form", d.CallForm)
	b = appendText(b, "model_call_form", s.form)
	if len(d.Complete) > 0 {
		b = rawjson.AppendList(append(b, `,"complete_calls":`...), d.Complete, func(b []byte, c tools.Call) []byte {
			b = rawjson.AppendString(append(b, `{"name":`...), c.Name)
			b = append(append(append(b, `,"arguments":`...), c.Arguments...), `,"target_robot_name":`...)
			return append(rawjson.AppendString(b, c.TargetRobotName), '}')
		})
	}
	if s.cut > 0 {
		b = fmt.Appendf(b, `,"history_cut":%d`, s.cut)
	}
	if c.Branch != nil {
		b = appendBranch(b, c, s.in)
	}
	in, last := s.in, generation.Part{}
	if in.version != "" {
		last.Version = cmp.Or(result.Version, in.version)
	}
	if last.Adapter = in.adapter.Version; in.adapter.Name != "" || last.Version != "" || len(c.Parts) > 0 {
		b = appendWeights(b, in.adapter.Name, last, c.Parts)
	}
	if in.returns.tokenIDs {
		from := "text"
		if in.continues {
			from = "tokens" // of the memory, and new text
		}
		b = fmt.Appendf(b, `,"prompt_from":"%s"`, from)
		if in.differsAt >= 0 {
			b = fmt.Appendf(b, `,"prompt_differs_at":%d`, in.differsAt)
		}
		b = rawjson.AppendList(append(b, `,"prompt_token_ids":`...), s.tokens, appendInt)
		b = rawjson.AppendList(append(b, `,"token_ids":`...), c.All(), appendInt)
		if differs >= 0 {
			b = fmt.Appendf(b, `,"next_prompt_differs_at":%d`, differs)
		}
	}
	if in.returns.logprobs {
		b = appendScores(b, c)
	}
	if in.returns.masks {
		b = rawjson.AppendList(append(b, `,"sampling_mask":`...), c.Scores, func(b []byte, s generation.Score) []byte {
			if s.Mask == nil { // there were too many tokens
				return append(b, "null"...)
			}
			return rawjson.AppendList(b, s.Mask, appendInt)
		})
	}
	b = append(b, `}},"output_raw":`...)
	b = rawjson.AppendString(b, c.Text+c.Stop)
	return append(b, '}')
}

// correction makes the step of an applied correction. In its raw output the action is always a list.
func (s *stepMaker) correction(say string, calls []tools.Call) protocol.Raw {
	b := make([]byte, 0, len(s.head)+len(say)+256)
	b = append(append(b, s.head...), `},"output_raw":`...)
	return append(rawjson.AppendString(b, memory.WriteDecision(say, calls, true)), '}')
}

// promptLog writes a file for each model call, with permissions for the owner only.
type promptLog struct {
	dir    string
	report func(error)
	count  atomic.Uint64
}

// write writes the file of one model call. err is the reason why the answer is invalid, or nil.
func (l *promptLog) write(component, prompt, answer string, err error) {
	if l == nil {
		return
	}
	status := "VALID"
	if err != nil {
		status = fmt.Sprintf("INVALID\n%v", err)
	}
	const file = "----- PROMPT -----\n%s\n----- RAW RESPONSE -----\n%s\n----- AGENT VALIDATION STATUS -----\n%s\n"
	text := fmt.Appendf(nil, file, prompt, answer, status)
	name := fmt.Sprintf("%s_%s_%06d.log", time.Now().Format("20060102_150405.000000"), component, l.count.Add(1))
	if err := os.WriteFile(filepath.Join(l.dir, name), text, 0o600); err != nil {
		l.report(fmt.Errorf("prompt log: %w", err))
	}
}
