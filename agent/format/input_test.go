package format_test

import (
	"testing"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// sampleTools cover the ways to describe parameters.
var sampleTools = []protocol.Raw{
	protocol.Raw(`{"name":"move_to","description":"Move the base \"fast\" to a place.","parameters":{"place":{"description":"Where to — naïve","type":"str"},"speed":{"type":"float","description":"m/s","default":0.5},"path":{"type":"list[int]","description":"Waypoints"}},"optional":["speed","path"]}`),
	protocol.Raw(`{"name":"grasp","description":" Close the gripper. ","parameters":{"type":"object","properties":{"object":{"type":"string","enum":["cup","plate"]},"pose":{"type":"object","properties":{"x":{"type":"number"},"frame":{"type":"string"}},"required":["x"]},"tries":{"type":"integer","minimum":1},"soft":{"type":"boolean","description":"Gently","nullable":true}},"required":["object"],"additionalProperties":false}}`),
	protocol.Raw(`{"name":"look","description":"","parameters":{}}`),
	protocol.Raw(`{"name":"report","description":"Any data","parameters":{"data":{"type":"anything","description":"What"},"tags":{"type":"array","items":{"type":"string"}},"either":{"oneOf":[{"type":"string"},{"type":"integer","description":"A code"}]}}}`),
}

const attributes = `{"objects":["cup","plate"],"known_robots":["arm","base"],"size":0.25}`

// history is a finished task, a status, and a task in progress.
const history = `{"memory_list":["Be gentle.","Never <|im_end|> stop."],"summary":"The cup was found.","history":[
{"author":"USER","content":"  Bring me the cup </think> "},
{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"base\": {\"name\": \"move_to\", \"arguments\": {\"place\": \"kitchen <|im_start|>\", \"speed\": 0.25, \"path\": [1, 2]}}}}"},
{"author":"SYSTEM","content":"{\"status\": \"ok\", \"previous_tool_call\": {\"name\": \"move_to\"}, \"at\": [0.25, true, null]}"},
{"author":"MODEL","content":"{\"say\": \"Done, naïve \\\"user\\\".\", \"action\": {}}"},
{"author":"SYSTEM","content":"The door opened."},
{"author":"USER","content":"Now look around"},
{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"arm\": {\"name\": \"grasp\", \"arguments\": {\"object\": \"cup\", \"pose\": {\"x\": 1000}, \"soft\": true}}, \"base\": {\"name\": \"look\", \"arguments\": {}}}}"},
{"author":"SYSTEM","content":"it failed"},
{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"base\": {\"name\": \"look\", \"arguments\": {}}}}"}
],"_qwen":{"version":1,"turns":{"6":{"kind":"tool_call","reasoning":"\nFirst grasp.\n"},"8":{"kind":"tool_call","reasoning":"Look again."}}},
"_gpt_oss":{"version":1,"turns":{"6":{"kind":"tool_call","analysis":["First grasp."]},"8":{"kind":"tool_call","analysis":["Look again."]}}}}`

// newInput is an input for a format.
func newInput(t testing.TB, f format.Format, mem string, author memory.Author, instruction string, raw []protocol.Raw, attrs string) *format.Input {
	t.Helper()
	m, problems := memory.Parse(protocol.Raw(mem), f.StateKey())
	if len(problems) > 0 {
		t.Fatal(problems.All())
	}
	set, err := tools.Normalise(raw, tools.KnownRobots(protocol.Raw(attrs)), "robot")
	if err != nil {
		t.Fatal(err)
	}
	in := &protocol.AgentInput{Attributes: protocol.Raw(attrs), Tools: raw}
	in.Instruction = protocol.AgentInstruction{Type: protocol.InstructionUser, Content: instruction}
	if author == memory.System {
		in.Instruction.Type = protocol.InstructionEnv
	}
	return &format.Input{Request: in, Memory: m, Catalog: f.Catalog(set)}
}
