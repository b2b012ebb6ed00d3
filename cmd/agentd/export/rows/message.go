package rows

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// Components of internal steps whose output is known.
const (
	commander  = "commander"
	summarizer = "summarizer"
)

// rawJSON is JSON. In JSONL it is a value, in Parquet, whose columns have one type, its text.
type rawJSON string

// MarshalJSONTo writes the value.
func (r rawJSON) MarshalJSONTo(e *jsontext.Encoder) error { return e.WriteValue(jsontext.Value(r)) }

// UnmarshalJSONFrom reads the value.
func (r *rawJSON) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	*r = rawJSON(raw)
	return err
}

// message is a message as chat templates take it.
type message struct {
	Role      string     `json:"role" parquet:"role"`
	Content   string     `json:"content" parquet:"content"`
	Reasoning string     `json:"reasoning_content,omitempty" parquet:"reasoning_content,optional"`
	ToolCalls []toolCall `json:"tool_calls,omitempty" parquet:"tool_calls,list"`
}

type toolCall struct {
	Type     string   `json:"type" parquet:"type"`
	Function function `json:"function" parquet:"function"`
}

type function struct {
	Name      string  `json:"name" parquet:"name"`
	Arguments rawJSON `json:"arguments" parquet:"arguments"`
}

// prompt is what a model was asked.
type prompt struct {
	messages []message
	tools    protocol.Raw      // a list
	robot    map[string]string // the parameter of each tool that names the robot
}

// errors of steps that cannot be a row; they are counted, and end nothing.
var (
	errNoMessages = errors.New("an internal step has no messages among its input elements")
	errOtherTools = errors.New("the tools of the prompt are not functions, as with the model format template")
	errOtherText  = errors.New("the prompt goes on with tokens whose text no messages give, such as earlier thoughts; --kind rollouts has them")
	errNoDecision = errors.New("the candidate has no decision")
	errNoSummary  = errors.New("no step follows the summary that it led to")
	errComponent  = errors.New("the output of the step's component is unknown")
)

// key is equal for prompts with the same messages and tools.
func (p *prompt) key() string { return fmt.Sprintf("%q", p.messages) + canonical(p.tools) }

// prompt reads what the model of a step was asked.
func (s *step) prompt() (*prompt, error) {
	raw, _ := protocol.Get(s.elements, "messages")
	p := &prompt{tools: protocol.Raw("[]"), robot: map[string]string{}}
	if err := json.Unmarshal(raw, &p.messages); err != nil || len(p.messages) == 0 {
		return nil, errNoMessages
	}
	generated, _ := protocol.Get(s.elements, "generation")
	if _, differs := protocol.Get(generated, promptDiffers); differs {
		return nil, errOtherText
	}
	list, ok := protocol.Get(s.elements, "tools")
	if !ok || list.Kind() != '[' {
		return p, nil
	}
	p.tools = list
	for tool := range protocol.Elements(list) {
		f, _ := protocol.Get(tool, "function")
		name := member(f, "name")
		if member(tool, "type") != "function" || name == "" {
			return nil, errOtherTools
		}
		// agentd adds the robot after the tool's own parameters.
		parameters, _ := protocol.Get(f, "parameters")
		properties, _ := protocol.Get(parameters, "properties")
		for parameter := range protocol.Members(properties) {
			p.robot[name] = parameter
		}
	}
	return p, nil
}

// promptDiffers is the member of a step's generation that says where the prompt leaves the messages.
const promptDiffers = "prompt_differs_at"

// answer is the message that the step at i of a candidate made.
func (c *Candidate) answer(list []step, i int, p *prompt) (message, error) {
	m := message{Role: "assistant"}
	generated, _ := protocol.Get(list[i].elements, "generation")
	switch list[i].component {
	case summarizer:
		if i+1 == len(list) {
			return m, errNoSummary
		}
		m.Content = member(list[i+1].elements, "summary")
		return m, nil
	case commander:
		if c.Output == nil {
			return m, errNoDecision
		}
	default:
		return m, errComponent
	}
	m.Content, m.Reasoning = c.Output.Say, member(generated, "reasoning")
	for _, call := range c.Output.ToolCalls {
		name := cmp.Or(p.robot[call.Name], "target_robot")
		arguments := protocol.SetMember(call.Arguments, name, protocol.String(call.TargetRobotName))
		m.ToolCalls = append(m.ToolCalls, toolCall{"function", function{call.Name, rawJSON(arguments)}})
	}
	return m, nil
}

// endTokens stand at the end of a raw output.
var endTokens = regexp.MustCompile(`(<\|[a-z_]+\|>\s*)+$`)

// rejected is the message that a candidate made, also if it is not a decision.
func (c *Candidate) rejected(p *prompt) (message, error) {
	list := c.steps()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].component != commander {
			continue
		}
		if c.Output == nil {
			return message{Role: "assistant", Content: endTokens.ReplaceAllString(list[i].output, "")}, nil
		}
		return c.answer(list, i, p)
	}
	if c.Output == nil {
		return message{}, errNoDecision
	}
	return c.answer([]step{{component: commander}}, 0, p)
}

// asked is what the model of a candidate was asked, or p where that is not known.
func (c *Candidate) asked(p *prompt) (*prompt, error) {
	list := c.steps()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].component != commander {
			continue
		}
		own, err := list[i].prompt()
		if errors.Is(err, errNoMessages) {
			return p, nil
		}
		return own, err
	}
	return p, nil
}

// key is equal for messages that say the same, whatever was thought.
func (m *message) key() string {
	parts := []string{m.Content}
	for _, call := range m.ToolCalls {
		parts = append(parts, call.Function.Name, canonical(protocol.Raw(call.Function.Arguments)))
	}
	return fmt.Sprintf("%q", parts)
}

// numbers reads a list of numbers among what is known of a generation; nil if it is absent.
func numbers[T any](generated protocol.Raw, name string) ([]T, error) {
	raw, ok := protocol.Get(generated, name)
	if !ok || raw.Kind() == 'n' {
		return nil, nil
	}
	var list []T
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("input_elements.generation.%s: %w", name, err)
	}
	return list, nil
}
