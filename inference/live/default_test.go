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

	"github.com/rs/zerolog"

	"agentd/agent/format"
	"agentd/household"
	"agentd/inference/defaultmodel"
	"agentd/inference/load"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
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
	for given, file := range map[string]string{"": "memfd:model", copied: copied} {
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

// TestDefaultModelDecidesEquallyHoweverItIsComputed compares with decisions
// that were taken one after the other. Their accuracy does not matter here, see household eval.
func TestDefaultModelDecidesEquallyHoweverItIsComputed(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}})
	inputs := conversations(t, s)
	want := inTurn(t, s, inputs)

	compare := func(rule string, tolerated int, want []protocol.AgentOutput, decide func(t *testing.T) []protocol.AgentOutput) {
		t.Run(rule, func(t *testing.T) {
			list := differences(want, decide(t))
			t.Logf("%d of %d decisions differ", len(list), len(want))
			if len(list) > tolerated {
				for _, d := range list {
					t.Error(d)
				}
			}
		})
	}
	compare("again, when all of it is in the cache", 0, want, func(t *testing.T) []protocol.AgentOutput {
		return inTurn(t, s, inputs)
	})
	compare("when nothing is in the cache", tolerated/uncachedStride, want, func(t *testing.T) []protocol.AgentOutput {
		return uncached(t, inputs)
	})
	compare("with draft tokens", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		drafting := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1, DraftRows: 8}}})
		outs := inTurn(t, drafting, inputs)
		if s := drafting.Engine.Stats(); s.DraftTokens == 0 || s.AcceptedTokens < s.DraftTokens/4 {
			t.Errorf("%d of %d draft tokens were accepted", s.AcceptedTokens, s.DraftTokens)
		}
		return outs
	})
	wide := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	compare("sixteen at once", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, wide, inputs)
	})
	compare("sixteen at once, when all of it is in the cache", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, wide, inputs)
	})
	small := openDefault(t, load.Config{ContextLength: 4096, CacheRAM: 200, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	together(t, small, inputs)
	compare("sixteen at once, when a part of it is in host memory", tolerated, want, func(t *testing.T) []protocol.AgentOutput {
		before := small.Engine.Stats()
		outs := together(t, small, inputs)
		after := small.Engine.Stats()
		if loaded, found := after.LoadedCells-before.LoadedCells, after.CachedTokens-before.CachedTokens; loaded < found/20 { // a tenth is usual; which prefixes are evicted depends on timing
			t.Errorf("%d of the %d tokens that were found came from host memory", loaded, found)
		}
		return outs
	})

	invariant := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}, Isolate: true}})
	some := inputs[:width] // nothing of them is cached
	compare("each by itself, when sixteen ask at once", 0, inTurn(t, invariant, some), func(t *testing.T) []protocol.AgentOutput {
		return together(t, invariant, some)
	})

	compare("sixteen at once, with a KV cache of 8 bits", toleratedIn8Bits, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, openDefault(t, load.Config{KVType: "q8_0", Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}}), inputs)
	})
	compare("sixteen at once, with weights of 8 bits", toleratedIn8Bits, want, func(t *testing.T) []protocol.AgentOutput {
		return together(t, openDefault(t, load.Config{Path: quantized(t), Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}}), inputs)
	})
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

// uncached takes some of the decisions, each with a cache that is new.
func uncached(t *testing.T, inputs []protocol.AgentInput) []protocol.AgentOutput {
	t.Helper()
	outs := make([]protocol.AgentOutput, len(inputs))
	for i := 0; i < len(inputs); i += uncachedStride {
		t.Run(fmt.Sprintf("decision %d", i), func(t *testing.T) {
			outs[i] = decide(t, openDefault(t, load.Config{ContextLength: 4096, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}}), inputs[i])
			if found := cached(t, outs[i]); found != 0 {
				t.Errorf("%d tokens were in the cache", found)
			}
		})
	}
	return outs
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
