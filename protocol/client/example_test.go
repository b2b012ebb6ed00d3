package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"agentd/protocol"
	"agentd/protocol/client"
)

// Example asks an agent server for a decision.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // in place of agentd
		_, _ = io.WriteString(w, `[{"request_id": "turn-1", "source_id": 0, "candidate_index": 0, "status": "completed", "memory": {}, "internal_steps": [],
			"output": {"say": "", "tool_calls": [{"name": "open", "arguments": {"door": "kitchen"}, "target_robot_name": "arm"}]}}]`)
	}))
	defer server.Close()

	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	outputs, err := c.Responses(context.Background(), &protocol.AgentRequest{
		RequestID: "turn-1",
		Inputs: []protocol.AgentInput{{
			Instruction: protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "Open the kitchen door."},
			Tools:       []protocol.Raw{protocol.Raw(`{"name": "open", "description": "Open a door.", "parameters": {"door": {"type": "str"}}}`)},
			Attributes:  protocol.Raw(`{"known_robots": ["arm"]}`),
			NumOutputs:  1,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, call := range outputs[0].Output.ToolCalls {
		fmt.Println(call.TargetRobotName, call.Name, string(call.Arguments))
	}
	// Output: arm open {"door":"kitchen"}
}

// Example_logprobs asks for the tokens of an answer and their logprobs.
func Example_logprobs() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // in place of agentd
		_, _ = io.WriteString(w, `[{"request_id": "turn-1", "source_id": 0, "candidate_index": 0, "status": "completed", "memory": {},
			"internal_steps": [{"id": "step-0", "component": "commander", "origin": "model", "full_prompt": "…", "output_raw": "Yes.<|im_end|>",
				"input_elements": {"generation": {"prompt_token_ids": [5, 9], "token_ids": [7, 2], "logprobs": [-0.25, -0.5], "sum_logprob": -0.75}}}],
			"output": {"say": "Yes.", "tool_calls": []}}]`)
	}))
	defer server.Close()

	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	outputs, err := c.Responses(context.Background(), &protocol.AgentRequest{
		RequestID: "turn-1",
		Inputs: []protocol.AgentInput{{
			Instruction: protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "Is the door open?"},
			NumOutputs:  1,
			ExtraKeys:   protocol.Raw(`{"return": ["token_ids", "logprobs"]}`),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	step, err := protocol.DecodeInternalStep(outputs[0].InternalSteps[0])
	if err != nil {
		log.Fatal(err)
	}
	var elements struct {
		Generation struct {
			Tokens   []int32    `json:"token_ids"`
			Logprobs []*float64 `json:"logprobs"` // nil: not known
		} `json:"generation"`
	}
	if err := json.Unmarshal(step.InputElements, &elements); err != nil {
		log.Fatal(err)
	}
	for i, id := range elements.Generation.Tokens {
		fmt.Println(id, *elements.Generation.Logprobs[i])
	}
	// Output:
	// 7 -0.25
	// 2 -0.5
}
