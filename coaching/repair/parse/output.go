package parse

import (
	"errors"
	"fmt"
	"strings"

	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// Output is a model's raw output, parsed from any notation.
type Output struct {
	Calls  []Call
	Say    string // from the say of JSON, or a reply channel
	Beside string // text outside of any notation, without thoughts
}

// RawOutput parses harmony messages, Hermes blocks, XML calls, fenced JSON, and JSON
// with or without text around it. keys are taken out of errors.
func RawOutput(text string, keys quote.Quoter) (Output, error) {
	if len(text) > MaxBytes {
		return Output{}, fmt.Errorf("the raw output has more than %d bytes", MaxBytes)
	}
	r := newReader(keys)
	text = withoutEndTokens(text)
	if strings.Contains(text, harmonyMark) {
		return r.readHarmony(text)
	}
	answer := afterThoughts(text) // the opening mark may be in the prompt, and marks of calls in thoughts do not count
	if len(answer) == len(text) && strings.Contains(text, "<think>") {
		return Output{}, errors.New("the raw output ends within the model's thoughts")
	}
	switch text = strings.TrimSpace(answer); {
	case strings.Contains(text, hermesOpen):
		return r.readHermes(text)
	case strings.Contains(text, "<function=") || strings.Contains(text, "<invoke "):
		calls, beside, err := r.readTagged(text)
		return Output{Calls: calls, Beside: beside}, err
	}
	return r.readLoose(text)
}

// Marks of the notations for calls.
const (
	hermesOpen   = "<tool_call>"
	hermesClose  = "</tool_call>"
	harmonyMark  = "<|channel|>"
	harmonyStart = "<|start|>"
)

// endTokens may remain at the end of an output.
var endTokens = []string{"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|return|>", "<|call|>", "<|end|>", "</s>"}

func withoutEndTokens(text string) string {
	for {
		trimmed := strings.TrimSpace(text)
		for _, token := range endTokens {
			trimmed = strings.TrimSuffix(trimmed, token)
		}
		if trimmed == text {
			return text
		}
		text = trimmed
	}
}

// readHermes reads <tool_call> blocks. A block without an end mark ends at the next
// block or at the end of the output.
func (r *reader) readHermes(text string) (out Output, err error) {
	before, rest, _ := strings.Cut(text, hermesOpen)
	out.Beside = strings.ReplaceAll(before, hermesClose, "")
	for more := true; more; {
		var block string
		block, rest, more = strings.Cut(rest, hermesOpen)
		body, after, closed := strings.Cut(block, hermesClose)
		if !closed {
			body, after = block, ""
		}
		out.Beside += after
		body = strings.TrimSpace(body)
		if strings.Contains(body, "<function=") || strings.Contains(body, "<invoke ") {
			calls, beside, err := r.readTagged(body)
			if err != nil {
				return out, err
			}
			out.Calls, out.Beside = append(out.Calls, calls...), out.Beside+beside
			continue
		}
		v, err := r.parse(unfenced(body))
		if err != nil {
			return out, fmt.Errorf("a <tool_call> block can't be read: %w", err)
		}
		if err := r.readCalls(&out.Calls, withoutSay(v), "", maxNesting); err != nil {
			return out, err
		}
	}
	return out, nil
}

// withoutSay is the action of {"say", "action"} where only the action belongs.
func withoutSay(v protocol.Raw) protocol.Raw {
	if action, ok := member(v, callsNames); ok && v.Kind() == '{' {
		if say, _ := protocol.Get(v, "say"); say == nil || string(say) == `""` {
			return action
		}
	}
	return v
}

// readTagged reads XML calls: <function=name> with <parameter=name>, or <invoke
// name="name"> with <parameter name="name">.
func (r *reader) readTagged(text string) (calls []Call, beside string, err error) {
	for {
		at := strings.Index(text, "<function=")
		if invoke := strings.Index(text, "<invoke "); at < 0 || invoke >= 0 && invoke < at {
			at = invoke
		}
		if at < 0 {
			return calls, beside + withoutTags(text), nil
		}
		beside += withoutTags(text[:at])
		call, rest, err := r.readTaggedCall(text[at:])
		if err != nil {
			return nil, "", err
		}
		if calls = append(calls, call); len(calls) > MaxCalls {
			return nil, "", fmt.Errorf("there are more than %d calls", MaxCalls)
		}
		text = rest
	}
}

// withoutTags removes the tags around lists of calls.
func withoutTags(text string) string {
	return strings.NewReplacer("<function_calls>", "", "</function_calls>", "", "<tool_calls>", "", "</tool_calls>", "").Replace(text)
}

func (r *reader) readTaggedCall(text string) (call Call, rest string, err error) {
	call = Call{Tagged: true, Arguments: protocol.Raw("{}")}
	seen := make(map[string]bool)
	if call.Name, text, err = r.tagName(text); err != nil {
		return call, "", err
	}
	for {
		text = strings.TrimSpace(text)
		for _, end := range []string{"</function>", "</invoke>"} {
			if after, ok := strings.CutPrefix(text, end); ok {
				return call, after, nil
			}
		}
		if !strings.HasPrefix(text, "<parameter") {
			return call, "", fmt.Errorf("the call of %s has %s where a parameter or its end belongs", r.Quote(call.Name), r.Quote(text))
		}
		var name string
		if name, text, err = r.tagName(text); err != nil {
			return call, "", err
		}
		value, after, closed := strings.Cut(text, "</parameter>")
		if !closed {
			return call, "", fmt.Errorf("the parameter %s of %s is not closed", r.Quote(name), r.Quote(call.Name))
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		if seen[name] {
			return call, "", fmt.Errorf("the call of %s has the parameter %s twice", r.Quote(call.Name), r.Quote(name))
		}
		seen[name] = true
		call.Arguments = protocol.AppendMember(call.Arguments, name, protocol.String(value))
		text = after
	}
}

// tagName reads <tag=name> or <tag name="name"> and returns what follows it.
func (r *reader) tagName(text string) (name, rest string, err error) {
	tag, rest, closed := strings.Cut(text, ">")
	if !closed {
		return "", "", fmt.Errorf("a tag is not closed: %s", r.Quote(text))
	}
	_, name, _ = strings.Cut(tag, "=")
	name = strings.Trim(strings.TrimSpace(name), `"'`)
	if name == "" {
		return "", "", fmt.Errorf("the tag %s> has no name", r.Quote(tag))
	}
	return name, rest, nil
}

// readHarmony reads messages. Analysis is thought, commentary is text beside calls,
// final is the reply. A message with a recipient is a call.
func (r *reader) readHarmony(text string) (out Output, err error) {
	for part := range strings.SplitSeq(text, harmonyStart) {
		header, body, found := strings.Cut(part, "<|message|>")
		if !found {
			if strings.TrimSpace(part) != "" {
				return out, fmt.Errorf("a message has no content: %s", r.Quote(part))
			}
			continue
		}
		body = withoutEndTokens(body)
		_, channel, _ := strings.Cut(header, harmonyMark)
		channel, _, _ = strings.Cut(strings.TrimSpace(channel), "<|")
		channel, _, _ = strings.Cut(channel, " ")
		if _, recipient, ok := strings.Cut(header, "to="); ok {
			if end := strings.IndexAny(recipient, " <"); end >= 0 {
				recipient = recipient[:end]
			}
			recipient = strings.TrimPrefix(recipient, "functions.")
			arguments, err := r.readArguments(recipient, protocol.String(unfenced(body)))
			if err != nil {
				return out, err
			}
			if out.Calls = append(out.Calls, Call{Name: recipient, Arguments: arguments}); len(out.Calls) > MaxCalls {
				return out, fmt.Errorf("there are more than %d calls", MaxCalls)
			}
			continue
		}
		switch channel {
		case "final":
			inner, err := r.readLoose(body)
			if err != nil {
				return out, err
			}
			out.Calls = append(out.Calls, inner.Calls...)
			out.Say += inner.Say + inner.Beside
		case "commentary":
			out.Beside += body
		case "analysis":
		default:
			return out, fmt.Errorf("a message is on the unknown channel %s", r.Quote(channel))
		}
	}
	return out, nil
}

// readLoose reads JSON that is the whole text, in a code block, or between text.
// Text without JSON becomes Beside.
func (r *reader) readLoose(text string) (out Output, err error) {
	text = strings.TrimSpace(text)
	var decisions int
	at := 0
	for _, s := range bracketed(text) {
		v, err := r.parse(strings.TrimRight(s.text, "` \t\r\n"))
		if err != nil {
			return out, err
		}
		w, err := r.readDecision(v)
		if err != nil {
			return out, err
		}
		out.Beside += text[at:s.start]
		at = s.end
		if len(w.Calls) > 0 || w.Say != "" {
			decisions++
		}
		out.Calls, out.Say = append(out.Calls, w.Calls...), out.Say+w.Say
	}
	if rest := text[at:]; decisions == 0 || strings.Trim(rest, "}] \t\r\n") != "" { // else brackets too many
		out.Beside += rest
	}
	if decisions > 1 && out.Say != "" {
		return out, errors.New("the raw output has several JSON decisions")
	}
	if decisions > 0 { // without the fences, and their languages, of what was read
		out.Beside = strings.NewReplacer("```json", "", "```tool_call", "", "```", "").Replace(out.Beside)
	}
	return out, nil
}
