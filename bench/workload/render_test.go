package workload

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/inference/live"
	"agentd/inference/load"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/protocol/client"
	"agentd/scheduler"
	"agentd/server"
)

// tiny is a trace of a few turns.
func tiny(t *testing.T) *Trace {
	t.Helper()
	return generate(t, Options{Seed: 1, Agents: 2, Turns: 3, Groups: 1, Candidates: 1})
}

// render renders a trace for a model, with the path "" the default one.
func render(t *testing.T, made *Trace, path string) {
	t.Helper()
	if err := Render(t.Context(), made, path); err != nil {
		t.Fatal(err)
	}
}

// serve is a client of a server with the default model.
func serve(t *testing.T) *client.Client {
	t.Helper()
	service, err := live.Open(t.Context(), load.Config{Device: "cpu", Threads: 1, ContextLength: 4096, Log: zerolog.Nop(), Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}, QueueLimit: 4}, Agent: agent.Config{MaxNewTokens: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := server.New(server.Options{
		Info: protocol.AgentInfo{
			ProtocolVersion: protocol.Version, AgentID: "full-history-agent", AgentVersion: "test",
			Capabilities: map[string]bool{"inference": true, "coaching": false}, CoachingResume: true, CoachingUnavailableReason: "a test",
		},
		Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready(service)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	c, err := client.New(h.URL, client.WithHTTPClient(h.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRenderedPromptsEqualTheServers(t *testing.T) {
	c := serve(t)
	made := tiny(t)
	render(t, made, "")
	for i := range made.Turns {
		turn := &made.Turns[i]
		if i%3 == 1 { // two turns of each agent will do
			continue
		}
		outs, err := c.Responses(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{turn.Input}})
		if err != nil {
			t.Fatal(err)
		}
		step, err := protocol.DecodeInternalStep(outs[0].InternalSteps[0])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.FullPrompt, turn.Prompt); diff != "" {
			t.Fatalf("turn %d: %s", i, diff)
		}
		var elements struct {
			Generation struct {
				Prompt int `json:"prompt_tokens"`
			} `json:"generation"`
		}
		if err := json.Unmarshal(step.InputElements, &elements); err != nil || elements.Generation.Prompt != len(turn.Tokens) {
			t.Errorf("turn %d: %d tokens, not %d, %v", i, len(turn.Tokens), elements.Generation.Prompt, err)
		}
	}
	counts := Count(made.Turns, nil)
	if counts.UniqueTokens >= counts.PromptTokens || counts.UniqueTokens < len(made.Turns[0].Tokens) {
		t.Errorf("%+v", counts)
	}
}

func TestRenderedTokensSpellThePrompt(t *testing.T) {
	for _, arch := range []string{"", synth.GPTOSS} {
		path := ""
		if arch != "" {
			var err error
			if path, err = synth.Tiny("", arch); err != nil {
				t.Fatal(err)
			}
		}
		made := tiny(t)
		if err := Render(t.Context(), made, path); err != nil {
			t.Fatal(err)
		}
		gguf, sum, err := Model(path)
		if err != nil || made.Model != sum || len(sum) != 64 {
			t.Fatalf("model %s, %s, %v", made.Model, sum, err)
		}
		m, err := llama.New(gguf, llama.SetVocabOnly(true))
		if err != nil {
			t.Fatal(err)
		}
		for i := range made.Turns {
			turn := &made.Turns[i]
			if diff := cmp.Diff(turn.Prompt, m.Vocab().Detokenize(turn.Tokens, true)); diff != "" {
				t.Fatal(diff)
			}
			s, err := m.NewSampler(llama.SamplerConfig{Grammar: turn.Grammar})
			if err != nil || turn.Grammar == "" {
				t.Fatal(err)
			}
			s.Close()
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// A first run without options holds the longest answer.
func TestDefaultWorkloadsFitTheDefaultModel(t *testing.T) {
	file, _, err := Model("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(file, llama.SetDevices("cpu"))
	if err != nil {
		t.Fatal(err)
	}
	most := m.Info().ContextTrain
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	const answer = agent.DefaultMaxNewTokens
	made := generate(t, Defaults())
	render(t, made, "")
	longest := 0
	for i := range made.Turns {
		longest = max(longest, len(made.Turns[i].Tokens))
	}
	t.Logf("%+v, the longest has %d tokens", Count(made.Turns, nil), longest)
	if longest+answer > most {
		t.Errorf("a prompt has %d tokens; with %d for the answer that is more than %d", longest, answer, most)
	}
}

func TestRenderErrorNamesTheTurnAndChangesNothing(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.gguf")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, test := range map[string]struct {
		path   string
		change func(*protocol.AgentInput)
	}{
		"turn 1 of agent 1: invalid_tools: tools[0]": {change: func(in *protocol.AgentInput) { in.Tools = []protocol.Raw{protocol.Raw(`{"description":"?"}`)} }},
		"turn 1 of agent 1: it is a correction": {change: func(in *protocol.AgentInput) {
			in.ExtraKeys = protocol.Raw(`{"coaching":{"kind":"replace_say","text":"x"}}`)
		}},
		"turn 1 of agent 1: body.inputs[0].memory.history: it mu": {change: func(in *protocol.AgentInput) { in.Memory = protocol.Raw(`{"history":1}`) }},
		"model file: open ":                           {path: filepath.Join(t.TempDir(), "none.gguf")},
		"the vocabulary of " + junk + " could not be": {path: junk},
	} {
		made := tiny(t)
		if test.change != nil {
			test.change(&made.Turns[3].Input)
		}
		err := Render(t.Context(), made, test.path)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, not %q", err, want)
		}
		if made.Model != "" || made.Turns[0].Prompt != "" {
			t.Errorf("%s: the trace was changed", want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Render(ended, tiny(t), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
