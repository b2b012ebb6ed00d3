package client_test

import (
	"context"
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
