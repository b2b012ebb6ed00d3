package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
	toolset "agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

const (
	cityTool = `{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string","not":{"enum":["Oslo"]}}},"required":["city"]}}`
	askOslo  = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"
)

func chatWith(functions toolset.Functions, schema string) *format.Chat {
	c := &format.Chat{Messages: []format.ChatMessage{{Text: "Weather?"}}, Functions: functions}
	if schema != "" {
		c.Schema = protocol.Raw(schema)
	}
	return c
}

func weather(must, one bool) toolset.Functions {
	return toolset.Functions{Raw: []protocol.Raw{protocol.Raw(cityTool)}, MustCall: must, OneCall: one}
}

func TestChatAnswersAreCheckedLikeDecisions(t *testing.T) {
	askRome := strings.Replace(askOslo, "Oslo", "Rome", 1)
	shown := weather(false, true)
	shown.NoCall = true
	for name, test := range map[string]struct {
		chat         *format.Chat
		answer       string
		say          string
		calls        int
		err, sofar   string
		unconstraint bool
	}{
		"a reply":                                {chat: chatWith(toolset.Functions{}, ""), answer: "<b> Hi", say: "<b> Hi", sofar: "<b> Hi", unconstraint: true},
		"a value":                                {chat: chatWith(toolset.Functions{}, `{"multipleOf":3}`), answer: "6", say: "6", sofar: "6"},
		"a value that only the check refuses":    {chat: chatWith(toolset.Functions{}, `{"multipleOf":3}`), answer: "7", err: "multipleOf", sofar: "7"},
		"a value with a type name of a language": {chat: chatWith(toolset.Functions{}, `{"type":"dict","properties":{"a":{"type":"int"}}}`), answer: `{"a":"x"}`, err: "member a: ", sofar: `{"a":"x"}`},
		"the beginning of thoughts":              {chat: chatWith(toolset.Functions{}, ""), answer: "<th", say: "<th", unconstraint: true},
		"thoughts without an answer":             {chat: chatWith(toolset.Functions{}, ""), answer: "<think>hm", err: "is not closed", unconstraint: true},
		"a reply that only begins like a call":   {chat: chatWith(weather(false, true), ""), answer: "<b> Hi", say: "<b> Hi", sofar: "<b> Hi"},
		"a member that the check refuses": {
			chat: chatWith(toolset.Functions{}, `{"properties":{"a":{"uniqueItems":true}}}`), answer: `{"a":[1,1]}`, err: "member a: ", sofar: `{"a":[1,1]}`,
		},
		"a call":                                           {chat: chatWith(weather(false, false), ""), answer: askRome, calls: 1},
		"two calls":                                        {chat: chatWith(weather(false, false), ""), answer: askRome + "\n" + strings.Replace(askRome, "Rome", "Bern", 1), calls: 2},
		"the same call twice":                              {chat: chatWith(weather(false, false), ""), answer: askRome + "\n" + askRome, err: "is there twice"},
		"a call after a text":                              {chat: chatWith(weather(false, false), ""), answer: "I ask.\n" + askRome, say: "I ask.", sofar: "I ask.", calls: 1},
		"a reply beside tools":                             {chat: chatWith(weather(false, true), ""), answer: "Hi", say: "Hi", sofar: "Hi"},
		"a call that only the check refuses":               {chat: chatWith(weather(true, true), ""), answer: askOslo, err: "the call of weather is invalid: argument city: 'not' failed"},
		"a reply where a call is required":                 {chat: chatWith(weather(true, true), ""), answer: "Hi", err: "has no tool call"},
		"two calls where one is allowed":                   {chat: chatWith(weather(true, true), ""), answer: askRome + "\n" + strings.Replace(askRome, "Rome", "Bern", 1), err: "has several tool calls"},
		"a call that was cut off":                          {chat: chatWith(weather(false, false), ""), answer: askRome[:20], err: "the JSON ends too early"},
		"a call where none is allowed":                     {chat: chatWith(shown, ""), answer: askRome, say: askRome, sofar: askRome, unconstraint: true},
		"a value beside shown tools":                       {chat: chatWith(shown, `{"multipleOf":3}`), answer: "7", err: "multipleOf", sofar: "7"},
		"a call beside a format":                           {chat: chatWith(weather(false, true), `{"multipleOf":3}`), answer: askRome, calls: 1},
		"a value beside tools":                             {chat: chatWith(weather(false, true), `{"multipleOf":3}`), answer: "6", say: "6", sofar: "6"},
		"a value beside tools that the check refuses":      {chat: chatWith(weather(false, true), `{"multipleOf":3}`), answer: "7", err: "multipleOf", sofar: "7"},
		"a value that begins like a call":                  {chat: chatWith(weather(false, true), `{"type":"object"}`), answer: `{"name": "weather", "wet": 1}`, say: `{"name": "weather", "wet": 1}`},
		"a value beside a format where a call is required": {chat: chatWith(weather(true, true), `{"multipleOf":3}`), answer: "6", err: "has no tool call"},
		"the beginning of a call":                          {chat: chatWith(weather(false, false), ""), answer: "<tool_ca", say: "<tool_ca"},
	} {
		t.Run(name, func(t *testing.T) {
			r, read, err := newAgent(t, agent.Config{}, nil).Chat(t.Context(), test.chat)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Grammar == "") != test.unconstraint {
				t.Errorf("the grammar is %q", r.Grammar)
			}
			if got := read.SoFar(test.answer); got != test.sofar {
				t.Errorf("so far %q, want %q", got, test.sofar)
			}
			say, calls, err := read.Read(test.answer)
			switch {
			case test.err == "" && (err != nil || say != test.say || len(calls) != test.calls):
				t.Errorf("got %q, %v, %v", say, calls, err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func TestChatsThatCannotBeConstrainedAreErrors(t *testing.T) {
	const unusable = `{"type":"string","pattern":"^.(?=a).*$"}`
	large := `{"anyOf":[` + strings.Repeat(`{},`, toolset.MaxSubschemas) + `{}]}`
	for name, test := range map[string]struct {
		chat *format.Chat
		want string
	}{
		"a tool": {
			chatWith(toolset.Functions{Raw: []protocol.Raw{protocol.Raw(cityTool), protocol.Raw(`{"name":"odd","parameters":{"type":"object","properties":{"a":` + unusable + `}}}`)}}, ""), "tools[1]: odd: ",
		},
		"a tool without a value": {
			chatWith(toolset.Functions{Raw: []protocol.Raw{protocol.Raw(`{"name":"odd","parameters":{"type":"object","properties":{"a":{"enum":[]}},"required":["a"]}}`)}}, ""), "odd",
		},
		"a response format":        {chatWith(toolset.Functions{}, unusable), "not a usable JSON Schema: response_format.pattern"},
		"a format without a value": {chatWith(toolset.Functions{}, `{"type":"string","enum":[5]}`), "no value fits response_format"},
		"a format of many schemas": {chatWith(toolset.Functions{}, large), "schemas in it"},
		"a reference to a neighbour": {
			chatWith(toolset.Functions{Raw: []protocol.Raw{
				protocol.Raw(`{"name":"a","parameters":{"type":"object","$defs":{"X":{}},"properties":{}}}`),
				protocol.Raw(`{"name":"b","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}}}}`),
			}}, ""), "tools[1]: b: ",
		},
	} {
		_, _, err := newAgent(t, agent.Config{}, nil).Chat(t.Context(), test.chat)
		var refused *format.UnusableError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongChatsAreRefusedBeforeTheirPrompt: no template can be interrupted.
func TestLongChatsAreRefusedBeforeTheirPrompt(t *testing.T) {
	kit := &fakeKit{panicOn: "Weather?"}
	a := newAgent(t, agent.Config{Prompt: format.Options{ChatTemplate: "x"}, ContextLength: 100}, kit)
	long := chatWith(toolset.Functions{}, "")
	for len(long.Messages) < 100 {
		long.Messages = append(long.Messages, long.Messages[0])
	}
	var overflow *generation.OverflowError
	if _, _, err := a.Chat(t.Context(), long); !errors.As(err, &overflow) || overflow.Prompt != 100 || !overflow.AtLeast {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Chat(ctx, chatWith(toolset.Functions{}, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyChatsAfterAResultMayEndWithNothing(t *testing.T) {
	for name, c := range map[string]struct {
		messages []format.ChatMessage
		must     bool
		want     bool
	}{
		"a system message alone":        {nil, false, false},
		"a question":                    {[]format.ChatMessage{{Text: "Weather?"}}, false, false},
		"a result":                      {[]format.ChatMessage{{Text: "Weather?"}, {Model: true}, {Of: "weather", Text: "rain"}}, false, true},
		"a result, and a required call": {[]format.ChatMessage{{Text: "Weather?"}, {Model: true}, {Of: "weather", Text: "rain"}}, true, false},
	} {
		chat := chatWith(toolset.Functions{Raw: []protocol.Raw{protocol.Raw(cityTool)}, MustCall: c.must}, "")
		chat.System, chat.Messages = "Be brief.", c.messages
		_, reader, err := newAgent(t, agent.Config{}, nil).Chat(t.Context(), chat)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := reader.Read(""); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEqualResponseFormatsAreCompiledOnce(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	made := map[*format.Catalog]bool{}
	for _, schema := range []string{`{"type":"integer"}`, `{"type":"integer"}`, `{"type":"string"}`, `{"type":"integer"}`} {
		c := chatWith(toolset.Functions{}, schema)
		if _, _, err := a.Chat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		made[c.Catalog] = true
	}
	if len(made) != 2 {
		t.Errorf("%d catalogs of 2 schemas", len(made))
	}
}

func TestCompleteCallsOfAnAnswerThatWasCutOff(t *testing.T) {
	askRome := strings.Replace(askOslo, "Oslo", "Rome", 1)
	list := "```json\n[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}, {\"name\": \"weather\", \"arguments\": {\"city\": \"Be"
	for name, test := range map[string]struct {
		answer, say string
		calls       int
	}{
		"one and a half":            {askRome + "\n" + strings.Replace(askRome, "Rome", "Bern", 1)[:40], "", 1},
		"half":                      {askRome[:40], "", 0},
		"one and a half after text": {"I ask.\n" + askRome + "\n" + askRome[:40], "I ask.", 1},
		"half after text":           {"I ask.\n" + askRome[:40], "I ask.", 0},
		"half a mark after text":    {"I ask. <tool", "I ask.", 0},
		"a list":                    {list, "", 1},
		"a list, after its comma":   {list[:strings.Index(list, ", {\"name\": \"weather\", \"arguments\": {\"city\": \"Be")+2], "", 1},
		"a reply with braces in it": {"{x} and (y) > z", "{x} and (y) > z", 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, read, err := newAgent(t, agent.Config{}, nil).Chat(t.Context(), chatWith(weather(false, false), ""))
			if err != nil {
				t.Fatal(err)
			}
			if say, calls := read.Cut(test.answer); say != test.say || len(calls) != test.calls {
				t.Errorf("%q, %v", say, calls)
			}
		})
	}
}
