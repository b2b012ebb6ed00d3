package live

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/agent/format"
	"agentd/household"
	"agentd/inference/defaultmodel"
	"agentd/inference/load"
	"agentd/llama/synth"
	"agentd/protocol"

	"github.com/rs/zerolog"
)

const (
	// decisionsCompared is how many decisions each way of computing has to take.
	decisionsCompared = 30
	// tolerated is how many of them may come out differently: a step of sixteen rows
	// uses kernels that round otherwise than those for a single row. Where two tokens
	// are almost equally probable, that decides.
	tolerated = 1
	// toleratedIn8Bits is more, since 8 bits round more. The less a model knows, the
	// more of its decisions change.
	toleratedIn8Bits = 3
	// One in uncachedStride of them is also computed without any cache, which takes
	// long.
	uncachedStride = 3
	// width is how many candidates decode at once where it is not one.
	width = 16
)

// openDefault opens the default model, or a variant of it.
func openDefault(t *testing.T, opts load.Config) *modelVersion {
	t.Helper()
	opts.Device, opts.Threads, opts.Log = "cpu", 1, zerolog.Nop()
	opts.Scheduler.QueueLimit, opts.Agent.MaxNewTokens, opts.Agent.Constrain = decisionsCompared, 128, "on"
	s, err := openVersion(t.Context(), new(Service), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestEmptyPathServesDefaultModel from memory.
func TestEmptyPathServesDefaultModel(t *testing.T) {
	f := openDefault(t, load.Config{}).Info
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	if !f.Default || f.Path != "" || f.Name != "agentd household" || f.Format != format.Qwen {
		t.Errorf("%+v", f)
	}
	if f := openDefault(t, load.Config{Path: path}).Info; f.Default {
		t.Error("a model that was named is called the default one")
	}
}

// TestDefaultModelIsNotMapped, since its file in memory would stay. Other models are mapped.
func TestDefaultModelIsNotMapped(t *testing.T) {
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.gguf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for given, file := range map[string]string{"": "memfd:household", copied: copied} {
		openDefault(t, load.Config{Path: given})
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		if mapped := strings.Contains(string(maps), file); mapped != (given != "") {
			t.Errorf("path %q: %s is mapped: %t", given, file, mapped)
		}
	}
}

// responder is the service as a household asks it.
type responder struct{ *modelVersion }

func (r responder) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return r.Decide(ctx, req)
}

// decide asks for one decision.
func decide(t *testing.T, s *modelVersion, in protocol.AgentInput) protocol.AgentOutput {
	t.Helper()
	outs, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{in}})
	if err != nil {
		t.Fatal(err)
	}
	return outs[0]
}

// conversations are the inputs of people's conversations with a planner. The agent
// writes their memory, from corrections.
func conversations(t *testing.T, s *modelVersion) (inputs []protocol.AgentInput) {
	t.Helper()
	for seed := uint64(1); len(inputs) < decisionsCompared; seed++ {
		e := household.New(seed, household.Options{Split: household.Eval})
		for !e.Done() && len(inputs) < decisionsCompared {
			inputs = append(inputs, e.Input())
			memory, err := e.Correct(t.Context(), responder{s})
			if err != nil {
				t.Fatal(err)
			}
			e.Apply(e.Expected(), memory)
		}
	}
	return inputs
}

// inTurn asks for one decision after the other.
func inTurn(t *testing.T, s *modelVersion, inputs []protocol.AgentInput) []protocol.AgentOutput {
	t.Helper()
	var outs []protocol.AgentOutput
	for _, in := range inputs {
		outs = append(outs, decide(t, s, in))
	}
	return outs
}

// together asks for all decisions at the same time, each in its own request.
func together(t *testing.T, s *modelVersion, inputs []protocol.AgentInput) []protocol.AgentOutput {
	t.Helper()
	outs := make([]protocol.AgentOutput, len(inputs))
	var all sync.WaitGroup
	for i, in := range inputs {
		all.Go(func() {
			got, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{in}})
			if err != nil {
				t.Error(err)
				return
			}
			outs[i] = got[0]
		})
	}
	all.Wait()
	return outs
}

// text is a decision, or why there is none.
func text(o protocol.AgentOutput) string {
	if o.Error != nil {
		return o.Error.Code
	}
	return string(o.Output.AppendJSON(nil))
}

// differences are the decisions that were taken both times and are not the same.
func differences(want, got []protocol.AgentOutput) []string {
	var list []string
	for i := range want {
		if got[i].Status == "" { // not asked for, or the test has failed
			continue
		}
		same := text(want[i]) == text(got[i])
		if want[i].Output != nil && got[i].Output != nil {
			same = household.Same(*want[i].Output, *got[i].Output)
		}
		if !same {
			list = append(list, fmt.Sprintf("decision %d: %s, and %s", i, text(want[i]), text(got[i])))
		}
	}
	return list
}

// quantized is the path of the weights in Q8_0.
func quantized(t *testing.T) string {
	t.Helper()
	source, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "q8_0.gguf")
	if err := synth.Quantize(source, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// cached is how many tokens of its prompt a decision found computed.
func cached(t *testing.T, o protocol.AgentOutput) int {
	t.Helper()
	if len(o.InternalSteps) != 1 {
		t.Fatalf("no model call: %s", text(o))
	}
	step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
	if err != nil {
		t.Fatal(err)
	}
	var elements struct {
		Generation struct {
			Cached int `json:"cached_tokens"`
			Prompt int `json:"prompt_tokens"`
		} `json:"generation"`
	}
	if err := json.Unmarshal(step.InputElements, &elements); err != nil || elements.Generation.Prompt == 0 {
		t.Fatalf("%v in %s", err, step.InputElements)
	}
	return elements.Generation.Cached
}
