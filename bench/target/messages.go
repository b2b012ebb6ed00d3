package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/bench/workload"
	"agentd/protocol"
)

// defaultRobot is agentd's default of --default-robot.
const defaultRobot = "robot"

// chats makes chat messages of inputs: the very messages and functions that agentd
// gives to a model's chat template, so that a server of the same model with its
// own template has the same prompt.
type chats struct {
	format format.Format

	mu       sync.Mutex
	catalogs map[string]*format.Catalog // by tools and robots: the agents of a trace share a few
}

func newChats() (*chats, error) {
	f, err := format.New(format.Qwen, format.Options{Architecture: "qwen3", MixedOutput: format.MixedReject, ModelAPI: noModel{}})
	if err != nil {
		return nil, err
	}
	return &chats{format: f, catalogs: map[string]*format.Catalog{}}, nil
}

// noModel is what a format needs of a model when only messages are made.
type noModel struct{}

func (noModel) SpecialTokens() []string { return nil }

func (noModel) RenderTemplate([]byte) (string, error) {
	return "", fmt.Errorf("messages have no template")
}

// chatMessage is a message as the chat API takes it.
type chatMessage struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []chatCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

// chatFunction has its arguments as an object in agentd's messages and as text
// in the API's.
type chatFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// chat is a turn as a chat server is asked it.
type chat struct {
	messages  []chatMessage
	functions json.RawMessage
	catalog   *format.Catalog // of the functions
}

// of makes the chat of a turn.
func (c *chats) of(t *workload.Turn) (*chat, error) {
	fail := func(err error) (*chat, error) {
		return nil, fmt.Errorf("agent %d, turn %d: %w", t.Agent, t.Turn, err)
	}
	req, err := protocol.DecodeAgentRequest(fmt.Appendf(nil, `{"request_id":"r","inputs":[%s]}`, t.Input))
	if err != nil {
		return fail(err)
	}
	in := &req.Inputs[0]
	m, problems := memory.Parse(in.Memory, c.format.StateKey())
	if len(problems) > 0 {
		return fail(problems)
	}
	catalog, err := c.catalog(in)
	if err != nil {
		return fail(err)
	}
	author := memory.User
	if in.Instruction.Type == protocol.InstructionEnv {
		author = memory.System
	}
	prompt, err := c.format.Render(&format.Input{
		History: m.History, Turns: m.State.Turns, Author: author, Instruction: in.Instruction.Content,
		Rules: m.Rules, Summary: m.Summary, Attributes: in.Attributes, RawTools: in.Tools, Catalog: catalog,
	})
	if err != nil {
		return fail(err)
	}
	made := &chat{catalog: catalog}
	if err := json.Unmarshal(prompt.Messages, &made.messages); err != nil {
		return fail(err)
	}
	if err := number(made.messages); err != nil {
		return fail(err)
	}
	if len(in.Tools) > 0 {
		made.functions = json.RawMessage(prompt.Tools)
	}
	return made, nil
}

// decides tells whether what a candidate says is a decision, as agentd holds its own
// candidates against the tools: valid calls, or a reply. Text beside calls is let
// pass, since these servers' models often write some. A call that the server left in
// the text, in Qwen's form, is read from there.
func (c *chats) decides(said *saying, catalog *format.Catalog) bool {
	if len(said.calls) == 0 {
		_, err := c.format.Parse(string(said.content), catalog)
		return err == nil
	}
	for i := range said.calls {
		call := &said.calls[i]
		arguments := protocol.Raw(call.arguments)
		if len(arguments) == 0 { // as some write it where there are none
			arguments = protocol.Raw("{}")
		}
		if arguments.Compact() != nil {
			return false
		}
		if _, err := catalog.Set.Lift(call.name, arguments); err != nil {
			return false
		}
	}
	return true
}

func (c *chats) catalog(in *protocol.AgentInput) (*format.Catalog, error) {
	robots := tools.KnownRobots(in.Attributes)
	key := fmt.Sprintf("%q %s", robots, in.Tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	if catalog, ok := c.catalogs[key]; ok {
		return catalog, nil
	}
	set, err := tools.Normalise(in.Tools, robots, defaultRobot)
	if err != nil {
		return nil, err
	}
	catalog := c.format.Catalog(set)
	c.catalogs[key] = catalog
	return catalog, nil
}

// number gives the calls ids, which the API wants and agentd has not, and their
// results the id of the last call, and makes the arguments text.
func number(messages []chatMessage) error {
	calls := 0
	for i := range messages {
		m := &messages[i]
		for j := range m.Calls {
			call := &m.Calls[j]
			call.ID = "call_" + strconv.Itoa(calls)
			calls++
			var compact bytes.Buffer
			if err := json.Compact(&compact, call.Function.Arguments); err != nil {
				return err
			}
			call.Function.Arguments = json.RawMessage(protocol.String(compact.String()))
		}
		if m.Role == "tool" {
			m.CallID = "call_" + strconv.Itoa(max(0, calls-1))
		}
	}
	return nil
}
