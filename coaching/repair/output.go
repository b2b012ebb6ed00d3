package repair

import (
	"errors"
	"fmt"
	"strings"

	"agentd/protocol"
)

// output is a model's raw output, read in whatever notation it is in.
type output struct {
	calls  []writtenCall
	say    string // from the say of JSON, or a channel for replies
	beside string // text outside of any notation, thoughts left out
}

// Marks of the notations that models write calls in.
const (
	hermesOpen   = "<tool_call>"
	hermesClose  = "</tool_call>"
	harmonyMark  = "<|channel|>"
	harmonyStart = "<|start|>"
)

// readOutput reads harmony's messages, Hermes's blocks, XML calls, fenced JSON,
// and JSON with or without text around it.
func (r *reader) readOutput(text string) (output, error) {
	text = withoutEndTokens(text)
	if strings.Contains(text, harmonyMark) {
		return r.readHarmony(text)
	}
	text, err := withoutThoughts(text)
	if err != nil {
		return output{}, err
	}
	switch {
	case strings.Contains(text, hermesOpen):
		return r.readHermes(text)
	case strings.Contains(text, "<function=") || strings.Contains(text, "<invoke "):
		var out output
		out.calls, out.beside, err = r.readTagged(text)
		return out, err
	}
	return r.readLoose(text)
}

// endTokens are those that a generator may leave at the end of an output.
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

// readHermes reads <tool_call> blocks. A missing end mark is the end of the
// output or the next block.
func (r *reader) readHermes(text string) (out output, err error) {
	before, rest, _ := strings.Cut(text, hermesOpen)
	out.beside = strings.ReplaceAll(before, hermesClose, "")
	for more := true; more; {
		var block string
		block, rest, more = strings.Cut(rest, hermesOpen)
		body, after, closed := strings.Cut(block, hermesClose)
		if !closed {
			body, after = block, ""
		}
		out.beside += after
		body = strings.TrimSpace(body)
		if strings.Contains(body, "<function=") || strings.Contains(body, "<invoke ") {
			calls, beside, err := r.readTagged(body)
			if err != nil {
				return out, err
			}
			out.calls, out.beside = append(out.calls, calls...), out.beside+beside
			continue
		}
		v, err := r.parse(unfenced(body))
		if err != nil {
			return out, fmt.Errorf("a <tool_call> block can't be read: %w", err)
		}
		if err := r.readCalls(&out.calls, withoutSay(v), "", maxNesting); err != nil {
			return out, err
		}
	}
	return out, nil
}

// withoutSay is the action of a whole {"say", "action"} that was written where
// only the action belongs.
func withoutSay(v protocol.Raw) protocol.Raw {
	if action, ok := member(v, callsNames); ok && v.Kind() == '{' {
		if say, _ := protocol.Get(v, "say"); say == nil || string(say) == `""` {
			return action
		}
	}
	return v
}

// unfenced is the content of text that is one Markdown code block, else text.
func unfenced(text string) string {
	if strings.HasPrefix(text, "```") {
		if blocks := fenced(text); len(blocks) == 1 {
			return blocks[0]
		}
	}
	return text
}

// readTagged reads XML calls: <function=name> with <parameter=name>, or <invoke
// name="name"> with <parameter name="name">.
func (r *reader) readTagged(text string) (calls []writtenCall, beside string, err error) {
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
		if calls = append(calls, call); len(calls) > maxCalls {
			return nil, "", fmt.Errorf("there are more than %d calls", maxCalls)
		}
		text = rest
	}
}

// withoutTags leaves out the tags that stand around calls.
func withoutTags(text string) string {
	return strings.NewReplacer("<function_calls>", "", "</function_calls>", "", "<tool_calls>", "", "</tool_calls>", "").Replace(text)
}

func (r *reader) readTaggedCall(text string) (call writtenCall, rest string, err error) {
	call = writtenCall{tagged: true}
	var arguments object
	seen := make(map[string]bool)
	if call.name, text, err = r.tagName(text); err != nil {
		return call, "", err
	}
	for {
		text = strings.TrimSpace(text)
		for _, end := range []string{"</function>", "</invoke>"} {
			if after, ok := strings.CutPrefix(text, end); ok {
				call.arguments = arguments.json()
				return call, after, nil
			}
		}
		if !strings.HasPrefix(text, "<parameter") {
			return call, "", fmt.Errorf("the call of %s has %s where a parameter or its end belongs", r.quote(call.name), r.quote(text))
		}
		var name string
		if name, text, err = r.tagName(text); err != nil {
			return call, "", err
		}
		value, after, closed := strings.Cut(text, "</parameter>")
		if !closed {
			return call, "", fmt.Errorf("the parameter %s of %s is not closed", r.quote(name), r.quote(call.name))
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		if seen[name] {
			return call, "", fmt.Errorf("the call of %s has the parameter %s twice", r.quote(call.name), r.quote(name))
		}
		seen[name] = true
		arguments.add(name, protocol.String(value))
		text = after
	}
}

// tagName reads <tag=name> or <tag name="name"> and returns what follows it.
func (r *reader) tagName(text string) (name, rest string, err error) {
	tag, rest, closed := strings.Cut(text, ">")
	if !closed {
		return "", "", fmt.Errorf("a tag is not closed: %s", r.quote(text))
	}
	_, name, _ = strings.Cut(tag, "=")
	name = strings.Trim(strings.TrimSpace(name), `"'`)
	if name == "" {
		return "", "", fmt.Errorf("the tag %s> has no name", r.quote(tag))
	}
	return name, rest, nil
}

// readHarmony reads messages: analysis is thought, commentary is said beside
// calls, final is the reply, and a recipient makes a message a call.
func (r *reader) readHarmony(text string) (out output, err error) {
	for part := range strings.SplitSeq(text, harmonyStart) {
		header, body, found := strings.Cut(part, "<|message|>")
		if !found {
			if strings.TrimSpace(part) != "" {
				return out, fmt.Errorf("a message has no content: %s", r.quote(part))
			}
			continue
		}
		body = withoutEndTokens(body)
		_, channel, _ := strings.Cut(header, harmonyMark)
		channel, _, _ = strings.Cut(strings.TrimSpace(channel), "<|")
		channel, _, _ = strings.Cut(channel, " ")
		if _, recipient, ok := strings.Cut(header, "to="); ok {
			recipient = strings.TrimPrefix(cutAtAny(recipient, " <"), "functions.")
			arguments, err := r.readArguments(recipient, protocol.String(unfenced(body)))
			if err != nil {
				return out, err
			}
			if out.calls = append(out.calls, writtenCall{name: recipient, arguments: arguments}); len(out.calls) > maxCalls {
				return out, fmt.Errorf("there are more than %d calls", maxCalls)
			}
			continue
		}
		switch channel {
		case "final":
			inner, err := r.readLoose(body)
			if err != nil {
				return out, err
			}
			out.calls = append(out.calls, inner.calls...)
			out.say += inner.say + inner.beside
		case "commentary":
			out.beside += body
		case "analysis":
		default:
			return out, fmt.Errorf("a message is on the unknown channel %s", r.quote(channel))
		}
	}
	return out, nil
}

func cutAtAny(s, chars string) string {
	if at := strings.IndexAny(s, chars); at >= 0 {
		return s[:at]
	}
	return s
}

// readLoose reads JSON that is the whole text, in a code block or between text;
// without any the text is beside.
func (r *reader) readLoose(text string) (out output, err error) {
	text = strings.TrimSpace(text)
	var spans []span
	if startsJSON(text) {
		spans = []span{{text, 0, len(text)}}
		if end := closing(text, 0); end > 0 && end < len(text) {
			spans = bracketed(text)
		}
	} else {
		spans = bracketed(text)
	}
	var decisions int
	at := 0
	for _, s := range spans {
		v, err := r.parse(strings.TrimRight(s.text, "` \t\r\n"))
		if err != nil {
			return out, err
		}
		w, err := r.readDecision(v)
		if err != nil {
			return out, err
		}
		out.beside += text[at:s.start]
		at = s.end
		if len(w.calls) > 0 || w.say != "" {
			decisions++
		}
		out.calls, out.say = append(out.calls, w.calls...), out.say+w.say
	}
	if rest := text[at:]; decisions == 0 || strings.Trim(rest, "}] \t\r\n") != "" { // else brackets too many
		out.beside += rest
	}
	if decisions > 1 && out.say != "" {
		return out, errors.New("the raw output has several JSON decisions")
	}
	if decisions > 0 {
		out.beside = withoutFences(out.beside)
	}
	return out, nil
}

// withoutFences leaves out the fences of the code blocks whose contents were
// taken, with the names of their languages.
func withoutFences(text string) string {
	return strings.NewReplacer("```json", "", "```tool_call", "", "```", "").Replace(text)
}
