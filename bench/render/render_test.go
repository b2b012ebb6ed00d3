package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/bench/workload"
	"agentd/inference"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/protocol/client"
	"agentd/scheduler"
	"agentd/server"
)

// trace is a small one of a kind.
func trace(t *testing.T, kind string) *workload.Trace {
	t.Helper()
	o := workload.Defaults(kind)
	o.Agents, o.Turns, o.Groups, o.Candidates = 2, 3, 1, 1
	if kind == workload.Synthetic {
		o.Tools, o.SystemWords, o.ObservationWords, o.OutputWords = 3, 30, 12, 9
	}
	made, err := workload.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// render renders a trace for a model, with the path "" the default one.
func render(t *testing.T, made *workload.Trace, path string, o Options) {
	t.Helper()
	if err := Render(t.Context(), made, path, o); err != nil {
		t.Fatal(err)
	}
}

// serve is a client of a server with the default model.
func serve(t *testing.T) *client.Client {
	t.Helper()
	service, err := inference.Open(t.Context(), inference.Config{Device: "cpu", Threads: 1, ContextLength: 4096, Log: zerolog.Nop(), Scheduler: scheduler.Config{MaxRunning: 1, QueueLimit: 4}, Agent: agent.Config{MaxNewTokens: 2}})
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

// TestPromptsAreThoseOfTheServer: text and number of tokens are what the server
// says that it gave to the model.
func TestPromptsAreThoseOfTheServer(t *testing.T) {
	c := serve(t)
	for _, kind := range []string{workload.Synthetic, workload.Household} {
		made := trace(t, kind)
		render(t, made, "", Options{})
		for i := range made.Turns {
			turn := &made.Turns[i]
			if i%3 == 1 { // two turns of each agent will do
				continue
			}
			in, err := turn.AgentInput()
			if err != nil {
				t.Fatal(err)
			}
			outs, err := c.Responses(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{in}})
			if err != nil {
				t.Fatal(err)
			}
			step, err := protocol.DecodeInternalStep(outs[0].InternalSteps[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.FullPrompt, turn.Prompt); diff != "" {
				t.Fatalf("%s, turn %d: %s", kind, i, diff)
			}
			var elements struct {
				Generation struct {
					Prompt int `json:"prompt_tokens"`
				} `json:"generation"`
			}
			if err := json.Unmarshal(step.InputElements, &elements); err != nil || elements.Generation.Prompt != len(turn.Tokens) {
				t.Errorf("%s, turn %d: %d tokens, not %d, %v", kind, i, len(turn.Tokens), elements.Generation.Prompt, err)
			}
		}
		counts, err := Ideal(made, nil)
		if err != nil || counts.UniqueTokens >= counts.PromptTokens || counts.UniqueTokens < len(made.Turns[0].Tokens) {
			t.Errorf("%+v, %v", counts, err)
		}
		t.Logf("%s: %+v", kind, counts)
	}
}

// TestTokensAndGrammarAreTheModels: the tokens spell the prompt, the grammar is one
// for its vocabulary, and a trace holds them.
func TestTokensAndGrammarAreTheModels(t *testing.T) {
	for _, arch := range []string{"", synth.GPTOSS} {
		path := ""
		if arch != "" {
			var err error
			if path, err = synth.Tiny("", arch); err != nil {
				t.Fatal(err)
			}
		}
		made := trace(t, workload.Synthetic)
		var told atomic.Int64
		render(t, made, path, Options{Progress: func(int) { told.Add(1) }})
		file, sum, err := Model(path)
		if err != nil || made.Header.Model != sum || len(sum) != 64 || int(told.Load()) != len(made.Turns) {
			t.Fatalf("model %s, %s, told of %d turns, %v", made.Header.Model, sum, told.Load(), err)
		}
		m, err := llama.New(file, llama.SetVocabOnly(true))
		if err != nil {
			t.Fatal(err)
		}
		for i := range made.Turns {
			turn := &made.Turns[i]
			tokens := make([]llama.Token, len(turn.Tokens))
			for k, id := range turn.Tokens {
				tokens[k] = llama.Token(id)
			}
			if diff := cmp.Diff(turn.Prompt, m.Vocab().Detokenize(tokens, true)); diff != "" {
				t.Fatal(diff)
			}
			if err := m.ValidateGrammar(turn.Grammar); err != nil || turn.Grammar == "" {
				t.Fatal(err)
			}
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := made.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := workload.Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, again); diff != "" {
			t.Error(diff)
		}
	}
}

// TestTheDefaultWorkloadsFitTheDefaultModel, with room for the longest answer of a
// server without options, so that a first run needs none either.
func TestTheDefaultWorkloadsFitTheDefaultModel(t *testing.T) {
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
	for _, kind := range []string{workload.Synthetic, workload.Household} {
		made, err := workload.Generate(workload.Defaults(kind))
		if err != nil {
			t.Fatal(err)
		}
		render(t, made, "", Options{})
		longest := 0
		for i := range made.Turns {
			longest = max(longest, len(made.Turns[i].Tokens))
		}
		counts, err := Ideal(made, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v, the longest has %d tokens", kind, counts, longest)
		if longest+answer > most {
			t.Errorf("%s: a prompt has %d tokens; with %d for the answer that is more than %d", kind, longest, answer, most)
		}
	}
}

func TestOptionsChangeWhatTheyAreFor(t *testing.T) {
	first := trace(t, workload.Synthetic)
	render(t, first, "", Options{})
	free := trace(t, workload.Synthetic)
	render(t, free, "", Options{Constrain: "off", HistoryMaxMessages: 2})
	last := len(first.Turns) - 1
	if free.Turns[last].Grammar != "" || free.Turns[0].Prompt != first.Turns[0].Prompt || len(free.Turns[last].Tokens) >= len(first.Turns[last].Tokens) {
		t.Errorf("a history of 2 messages has %d tokens, one of all %d; the grammar is %q",
			len(free.Turns[last].Tokens), len(first.Turns[last].Tokens), free.Turns[last].Grammar)
	}
}

func TestWhatCannotBeRenderedIsNamed(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.gguf")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, test := range map[string]struct {
		path    string
		options Options
		member  string
		value   string
	}{
		"turn 1 of agent 1: invalid_tools: tools[0]":              {member: "tools", value: `[{"description":"?"}]`},
		"turn 1 of agent 1: it is a correction":                   {member: "extra_keys", value: `{"coaching":{"kind":"replace_say","text":"x"}}`},
		"turn 1 of agent 1: body.inputs[0].memory.history: it mu": {member: "memory", value: `{"history":1}`},
		"turn 1 of agent 1: body.inputs[0].id: must be an intege": {member: "id", value: `"x"`},
		"model file: open ":                           {path: filepath.Join(t.TempDir(), "none.gguf")},
		"the vocabulary of " + junk + " could not be": {path: junk},
		"constrain is \"maybe\"":                      {options: Options{Constrain: "maybe"}},
	} {
		made := trace(t, workload.Synthetic)
		if test.member != "" {
			made.Turns[3].Input = protocol.SetMember(made.Turns[3].Input, test.member, protocol.Raw(test.value))
		}
		err := Render(t.Context(), made, test.path, test.options)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, not %q", err, want)
		}
		if made.Header.Model != "" || made.Turns[0].Prompt != "" {
			t.Errorf("%s: the trace was changed", want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Render(ended, trace(t, workload.Synthetic), "", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
