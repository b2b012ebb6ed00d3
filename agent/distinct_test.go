package agent

import (
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

func TestCandidatesOptionNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		text, where string
		distinct    bool
		cfg         Config
	}{
		"both members":        {`{"distinct": true, "rank": "logprob"}`, "", true, Config{}},
		"distinct alone":      {`{"distinct": true}`, "", true, Config{}},
		"not distinct":        {`{"distinct": false}`, "", false, Config{}},
		"empty":               {`{}`, "", false, Config{}},
		"no object":           {`true`, "candidates", false, Config{}},
		"number for distinct": {`{"distinct": 1}`, "candidates.distinct", false, Config{}},
		"other rank":          {`{"distinct": true, "rank": "score"}`, "candidates.rank", true, Config{}},
		"rank of plain ones":  {`{"rank": "logprob"}`, "candidates.rank", false, Config{}},
		"unknown member":      {`{"distinct": true, "top": 3}`, "candidates.top", true, Config{}},
		"engine without":      {`{"distinct": true}`, "candidates.distinct", true, Config{NoDistinct: "no"}},
		"fixed length":        {`{"distinct": true}`, "candidates.distinct", true, Config{IgnoreEnd: true}},
	} {
		a := &Agent{cfg: c.cfg}
		distinct, problems := a.readCandidates(protocol.Raw(c.text))
		where := ""
		for _, p := range problems {
			var parts []string
			for _, l := range p.Loc[1:] { // after "body"
				parts = append(parts, l.(string))
			}
			where = strings.Join(parts, ".")
		}
		if distinct != c.distinct || where != c.where || len(problems) > 1 {
			t.Errorf("%s: %v, problems %v", name, distinct, problems)
		}
	}
}

func TestDrawsOfDistinctCandidatesAreRefused(t *testing.T) {
	for keys, refused := range map[string]bool{
		`{"inference_mode": true, "candidates": {"distinct": true}}`:   false,
		`{"candidates": {"distinct": true}, "inference_mode": true}`:   false,
		`{"inference_mode": false, "candidates": {"distinct": true}}`:  true,
		`{"candidates": {"distinct": true}}`:                           true,
		`{"inference_mode": false, "candidates": {"distinct": false}}`: false,
	} {
		in := inputRun{input: &protocol.AgentInput{ExtraKeys: protocol.Raw(keys)}}
		problems := new(Agent).readExtraKeys(&in, nil)
		if refused != (len(problems) == 1 && strings.HasSuffix(problems.All(), "set inference_mode to true, or leave candidates out")) || !refused && len(problems) > 0 {
			t.Errorf("%s: %v", keys, problems)
		}
	}
}

func TestKeysAreEqualForEqualDecisions(t *testing.T) {
	call := func(robot, arguments string) tools.Call {
		return tools.Call{Name: "go", TargetRobotName: robot, Arguments: protocol.Raw(arguments)}
	}
	calls := func(list ...tools.Call) format.Decision {
		return format.Decision{AgentDecision: protocol.AgentDecision{ToolCalls: list}}
	}
	for name, c := range map[string]struct {
		a, b  format.Decision
		equal bool
	}{
		"white space and order of members": {calls(call("r", `{"a": 1, "b": "x"}`)), calls(call("r", `{"b":"x","a":1}`)), true},
		"escapes":                          {calls(call("r", `{"a": "\u0078"}`)), calls(call("r", `{"a": "x"}`)), true},
		"number with a fraction of zero":   {calls(call("r", `{"a": 1.0}`)), calls(call("r", `{"a": 1}`)), true},
		"order of robots":                  {calls(call("r", `{}`), call("s", `{}`)), calls(call("s", `{}`), call("r", `{}`)), true},
		"reasoning":                        {format.Decision{AgentDecision: protocol.AgentDecision{Say: "x"}, Reasoning: []string{"y"}}, format.Decision{AgentDecision: protocol.AgentDecision{Say: "x"}}, true},
		"large integers":                   {calls(call("r", `{"a": 9007199254740993}`)), calls(call("r", `{"a": 9007199254740992}`)), false},
		"number and text":                  {calls(call("r", `{"a": "1"}`)), calls(call("r", `{"a": 1}`)), false},
		"order of elements":                {calls(call("r", `{"a": [1, 2]}`)), calls(call("r", `{"a": [2, 1]}`)), false},
		"robot":                            {calls(call("r", `{}`)), calls(call("s", `{}`)), false},
		"text":                             {format.Decision{AgentDecision: protocol.AgentDecision{Say: "x"}}, format.Decision{AgentDecision: protocol.AgentDecision{Say: "y"}}, false},
		"text that looks like a call":      {format.Decision{AgentDecision: protocol.AgentDecision{Say: "\"\n\"r\" \"go\" {}"}}, calls(call("r", `{}`)), false},
		"calls twice for one robot":        {calls(call("r", `{}`), call("r", `{"a":1}`)), calls(call("r", `{"a":1}`), call("r", `{}`)), false},
	} {
		if equal := DecisionKey(&c.a.AgentDecision) == DecisionKey(&c.b.AgentDecision); equal != c.equal {
			t.Errorf("%s: equal %v", name, equal)
		}
	}
}
