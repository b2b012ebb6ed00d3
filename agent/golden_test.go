package agent_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenFiles continues memories of the first implementation, and compares whole responses.
// Each case has a request and the answers of the model.
func TestGoldenFiles(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Config struct {
					Format, Template string
					Thinking         bool
					Agent            string
					Budget, Keep     int // in characters
					CallsPerRobot    string
				}
				Request json.RawMessage
				Answers []string
			}
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			req, err := protocol.DecodeAgentRequest(c.Request)
			if err != nil {
				t.Fatal(err)
			}
			a := newAgent(t, agent.Config{Kind: c.Config.Agent, Summary: agent.Summary{Budget: c.Config.Budget, Characters: c.Config.Budget > 0, Keep: c.Config.Keep}, Format: c.Config.Format, Prompt: format.Options{ChatTemplate: c.Config.Template, Architecture: "qwen3", EnableThinking: c.Config.Thinking, CallsPerRobot: c.Config.CallsPerRobot}, Seed: 42}, nil)
			outs := run(t, a, &script{answers: c.Answers}, req)
			var got bytes.Buffer
			if err := json.Indent(&got, protocol.AgentOutputs(outs).AppendJSON(nil), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := strings.TrimSuffix(path, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (rewrite it with -update and read the change):\n%s", golden, diff)
			}
		})
	}
}
