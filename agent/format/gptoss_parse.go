package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/tools"
	"agentd/protocol"
)

// harmonyMarks are the special tokens between and within messages.
var harmonyMarks = []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"}

const functionsPrefix = "functions."

// grammar admits, after the prompt's "<|start|>assistant":
//
//	root ::= (analysis "<|start|>assistant"){0,4} (call | final)
//
// Where rules.introduced admits it, one message of commentary precedes a call or the reply.
//
// A call's recipient may be before the channel, as in prompts, or after it, as the models write it. White space in
// calls is free: prompts are spaced like json.dumps, while OpenAI's examples have no spaces.
func (f *gptoss) grammar(g *gbnf.Grammar, c *Catalog) error {
	addMessage(g, "analysis")
	reply := gbnf.Text{Forbidden: harmonyMarks, NonBlank: true}
	const final = "<|channel|>final<|message|>"
	answer := gbnf.Literal(final) + " reply"
	if len(c.Set.Tools) > 0 {
		objects := functions{g: g, robot: f.addRobot(g, c.Set, jsonString), next: callArguments}
		if err := objects.addAll(c); err != nil {
			return err
		}
		if err := f.addCalls(g, c); err != nil {
			return err
		}
		answer = either(c.Set, "call", gbnf.Literal(final)+" "+f.addForms(g, c, &reply, "", objects.forms(f.unit(c.Set, gbnf.UnitEnd))))
	}
	before := fmt.Sprintf("analysis{0,%d} ", maxAnalyses)
	if f.introduced(c.Set, "commentary") != "" {
		addMessage(g, "commentary")
		before += "( commentary " + before + ")? "
	}
	g.Add("root", before+answer)
	return c.addReply(g, reply, "")
}

func (f *gptoss) before(g *gbnf.Grammar) string {
	addMessage(g, "analysis")
	return fmt.Sprintf("analysis{0,%d} ", maxAnalyses) + gbnf.Literal("<|channel|>final<|message|>") + " "
}

// addMessage adds the rule of a message on a channel, which has its name, and of what begins the next message.
func addMessage(g *gbnf.Grammar, channel string) {
	inThoughts := slices.DeleteFunc(slices.Clone(harmonyMarks), func(mark string) bool { return mark == "<|end|>" })
	text := channel + "-text"
	g.AddText(text, gbnf.Text{Forbidden: inThoughts, Until: "<|end|>"})
	g.Add(channel, gbnf.Literal("<|channel|>"+channel+"<|message|>")+" "+text+" "+gbnf.Literal("<|start|>assistant"))
}

func (f *gptoss) addCalls(g *gbnf.Grammar, c *Catalog) error {
	var early, late []string
	add := func(rule, name, args string) {
		g.Add(rule, gbnf.Literal(name)+" header "+args)
		g.Add("late-"+rule, gbnf.Literal(name)+" kind "+args) // no rule of a schema begins so
		early, late = append(early, rule), append(late, "late-"+rule)
	}
	robot := f.addRobot(g, c.Set, jsonString)
	for i := range c.Set.Tools {
		tool := &c.Set.Tools[i]
		args, err := addArguments(g, tool, robot)
		if err != nil {
			return err
		}
		add(fmt.Sprintf("tool-%d", i), tool.Name, args)
	}
	if len(c.Set.Robots) > 1 {
		args, err := f.addParallel(g, c.Set, robot)
		if err != nil {
			return err
		}
		add("parallel", c.parallel, args)
	}
	g.Add("kind", `( " " | " "? `+gbnf.Literal("<|constrain|>")+" ) "+gbnf.Literal("json<|message|>"))
	g.Add("header", gbnf.Literal("<|channel|>commentary")+" kind")
	g.Add("call", gbnf.Literal(" to="+functionsPrefix)+" "+gbnf.Alternatives(early)+
		" | "+gbnf.Literal("<|channel|>commentary to="+functionsPrefix)+" "+gbnf.Alternatives(late))
	return nil
}

// addParallel adds the rules of the arguments of parallelName, and returns the name of their root.
func (f *gptoss) addParallel(g *gbnf.Grammar, set *tools.Set, robot string) (string, error) {
	calls := make([]string, len(set.Tools))
	for i := range set.Tools {
		tool := &set.Tools[i]
		args, err := addArguments(g, tool, "")
		if err != nil {
			return "", err
		}
		calls[i] = g.Seq().Text(f.unit(set, gbnf.UnitBegin)).Open("{").Literal(`"name"`).Colon().Literal(string(protocol.String(tool.Name))).Comma().
			Literal(`"arguments"`).Colon().Text(args).Comma().Literal(`"target_robot"`).Colon().Text(robot).CloseUnit(f.unit(set, gbnf.UnitEnd), "}").String()
	}
	one := g.Rule(strings.Join(calls, " | "))
	more := g.Seq().Text(f.unit(set, gbnf.UnitNext)).Comma().Text(one).String()
	return g.Rule(g.Seq().Open("{").Literal(`"calls"`).Colon().Open("[").Text(one).
		Text(fmt.Sprintf("(%s){1,%d}", more, min(len(set.Robots), maxCalls)-1)).Close("]").Close("}").String()), nil
}

// ParseChat returns the message on the final channel, which extends to the
// end of the text. Errors don't quote the text, which may contain keys.
func (f *gptoss) ParseChat(text string) (string, error) {
	for rest, more := text, true; more; {
		header, body, whole := strings.Cut(rest, "<|message|>")
		channel, recipient, err := readHeader(header)
		switch {
		case err != nil:
			return "", errors.New("the output has a message without a channel")
		case recipient != "":
			return "", errors.New("the output calls a function, and there are none")
		case whole && channel == "final":
			// Some generators leave end tokens at the end.
			return trimSpace(strings.TrimSuffix(strings.TrimSuffix(trimSpace(body), "<|return|>"), "<|end|>")), nil
		}
		if _, rest, more, err = nextMessage(rest); err != nil {
			return "", errors.New("the output is cut off, or goes on with something else than a message")
		}
	}
	return "", errors.New("the output has no message on the final channel")
}

type harmonyMessage struct{ channel, recipient, content string }

// Parse parses the messages after "<|start|>assistant".
func (f *gptoss) Parse(text string, c *Catalog) (Decision, error) {
	var reasoning, say, comments []string
	var calls []tools.Call
	if !strings.Contains(text, "<|message|>") {
		if calls, _, _ := recognise(text, c.Set); len(calls) > 0 {
			return f.decide(c.Set, text, nil, nil)
		}
	}
	for rest, more := text, true; more; {
		var m harmonyMessage
		var err error
		m, rest, more, err = nextMessage(rest)
		if err != nil {
			return Decision{Reasoning: reasoning}, err
		}
		content := strings.TrimSpace(m.content)
		switch {
		case m.recipient != "":
			made, err := f.readCall(m, c)
			if err != nil {
				return Decision{Reasoning: reasoning}, err
			}
			calls = append(calls, made...)
		case content == "":
		case m.channel == "analysis":
			reasoning = append(reasoning, content)
		case m.channel == "final":
			say = append(say, content)
		case m.channel == "commentary":
			comments = append(comments, content)
		default:
			return Decision{Reasoning: reasoning}, fmt.Errorf("the output has a message on the unknown channel %s", quoteStart(m.channel))
		}
	}
	switch {
	case len(calls) > 0, c.Set.Chat: // commentary is text beside them
		say = append(comments, say...)
	case len(say) == 0 && len(comments) > 0:
		return Decision{Reasoning: reasoning}, errors.New("the output has commentary, but neither a final reply nor a function call")
	}
	return f.decide(c.Set, strings.Join(say, "\n"), calls, reasoning)
}

// nextMessage cuts off a message after "<|start|>assistant". A call ends with its JSON value.
func nextMessage(text string) (m harmonyMessage, rest string, more bool, err error) {
	header, body, ok := strings.Cut(text, "<|message|>")
	if !ok {
		return m, "", false, fmt.Errorf("the output has %s where a message on a channel belongs", quoteStart(text))
	}
	if m.channel, m.recipient, err = readHeader(header); err != nil {
		return m, "", false, err
	}
	if m.recipient != "" {
		value, after, err := readJSON(body, "the arguments of "+m.recipient+" are")
		if err != nil {
			return m, "", false, err
		}
		m.content, body = string(value), strings.TrimLeft(after, " \t\r\n")
	} else {
		m.content = body
		for _, mark := range []string{"<|end|>", "<|return|>", "<|call|>", "<|start|>"} {
			m.content, _, _ = strings.Cut(m.content, mark)
		}
		body = body[len(m.content):]
	}
	for _, mark := range []string{"<|end|>", "<|return|>", "<|call|>"} {
		body = strings.TrimPrefix(body, mark)
	}
	if strings.TrimSpace(body) == "" {
		return m, "", false, nil
	}
	rest, ok = strings.CutPrefix(body, "<|start|>assistant")
	if !ok {
		return m, "", false, fmt.Errorf("the output goes on with %s where <|start|>assistant belongs", quoteStart(body))
	}
	return m, rest, true, nil
}

// readHeader reads a message's channel and the recipient before or after it.
func readHeader(header string) (channel, recipient string, err error) {
	before, after, ok := strings.Cut(header, "<|channel|>")
	if !ok {
		return "", "", fmt.Errorf("the output has a message without a channel: %s", quoteStart(header))
	}
	after, _, _ = strings.Cut(after, "<|constrain|>")
	fields := strings.Fields(after)
	if len(fields) > 0 {
		channel = fields[0]
		fields = fields[1:]
	}
	for _, field := range append(strings.Fields(before), fields...) {
		if to, ok := strings.CutPrefix(field, "to="); ok {
			recipient = to
		}
	}
	return channel, recipient, nil
}

func (f *gptoss) readCall(m harmonyMessage, c *Catalog) ([]tools.Call, error) {
	name, ok := strings.CutPrefix(m.recipient, functionsPrefix)
	if !ok {
		return nil, fmt.Errorf("the output calls %s, which is not a function of the tools", quoteStart(m.recipient))
	}
	arguments := protocol.Raw(m.content)
	if name != c.parallel {
		call, err := c.Set.Accept(name, arguments, nil)
		return []tools.Call{call}, err
	}
	list, ok := protocol.Get(arguments, "calls")
	if !ok || list.Kind() != '[' {
		return nil, fmt.Errorf("%s needs calls, a list of {name, arguments, target_robot}", name)
	}
	var calls []tools.Call
	for e := range protocol.Elements(list) {
		robot, _ := protocol.Get(e, tools.RobotParameter)
		call, err := readFunction(protocol.DeleteMember(e, tools.RobotParameter), robot, c.Set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		calls = append(calls, call)
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("%s has no calls", name)
	}
	return calls, nil
}
