package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/household"
	"agentd/inference/defaultmodel"
	"agentd/internal/base/waittest"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/protocol/client"
)

// decisionsCompared are the decisions that an engine takes in the ordinary tests. Engines round
// otherwise, which decides between tokens that are almost equally probable: one of twenty may
// differ.
const decisionsCompared = 60

// defaultFile is the default model's file.
func defaultFile(t *testing.T) string {
	t.Helper()
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func newClient(t *testing.T, r *running) *client.Client {
	t.Helper()
	c, err := client.New(r.url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// householdInputs are the inputs of people's conversations with a planner.
func householdInputs(t *testing.T, c *client.Client, n int) (inputs []protocol.AgentInput) {
	t.Helper()
	for seed := uint64(1); len(inputs) < n; seed++ {
		e := household.New(seed, household.Options{Split: household.Eval})
		for !e.Done() && len(inputs) < n {
			inputs = append(inputs, e.Input())
			memory, err := e.Correct(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			e.Apply(e.Expected(), memory)
		}
	}
	return inputs
}

// decisions asks for the greedy decision of each input, one after the other, so that a prompt
// finds the one before in the cache.
func decisions(t *testing.T, c *client.Client, inputs []protocol.AgentInput) []protocol.AgentOutput {
	t.Helper()
	outs := make([]protocol.AgentOutput, len(inputs))
	for i, in := range inputs {
		got, err := c.Responses(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{in}})
		if err != nil {
			t.Fatal(err)
		}
		outs[i] = got[0]
	}
	return outs
}

// compareDecisions counts the decisions that two servers take otherwise. What one decides, the
// other must decide, too.
func compareDecisions(t *testing.T, ours, theirs *running, n int) {
	t.Helper()
	c := newClient(t, ours)
	inputs := householdInputs(t, c, n)
	want, got := decisions(t, c, inputs), decisions(t, newClient(t, theirs), inputs)
	var differ []string
	undecided := 0 // by the model itself, which fails in both
	for i := range want {
		switch {
		case want[i].Output == nil && got[i].Output == nil:
			undecided++
		case want[i].Output == nil:
			t.Errorf("decision %d: only the embedded engine fails: %s, and %s", i, answerOf(want[i]), answerOf(got[i]))
		// The grammar of vLLM can't exclude a second call of a robot, which is an error then.
		case got[i].Output == nil || !household.Same(*want[i].Output, *got[i].Output):
			differ = append(differ, fmt.Sprintf("%d: %s, and %s", i, answerOf(want[i]), answerOf(got[i])))
		}
	}
	t.Logf("%d of %d decisions are equal, %d are errors of both", len(want)-len(differ)-undecided, len(want), undecided)
	if undecided > n/20 { // else the comparison shows little
		t.Errorf("%d decisions are errors of both", undecided)
	}
	if len(differ) > n/20 {
		t.Error(strings.Join(differ, "\n"))
	}
}

func TestLlamaServerDecidesAsTheEmbeddedEngine(t *testing.T) {
	engine := llamaServer(t, defaultFile(t), "--ctx-size", "32768")
	compareDecisions(t, serveModel(t), serveEngines(t, []string{engine.url}), decisionsCompared)
}

func TestAgentdAsEngineDecidesAsTheEmbeddedEngine(t *testing.T) {
	t.Parallel()
	engine := serveModel(t)
	compareDecisions(t, serveModel(t), serveEngines(t, []string{engine.url}), decisionsCompared/2)
}

// TestVLLM is for make test-vllm, which starts the server with the default model.
func TestVLLM(t *testing.T) {
	url := os.Getenv("AGENTD_TEST_VLLM")
	if url == "" {
		t.Skip("no AGENTD_TEST_VLLM; make test-vllm starts vLLM and sets it")
	}
	r := serveEngines(t, []string{url})
	t.Run("decides as the embedded engine", func(t *testing.T) { compareDecisions(t, serveModel(t), r, 200) })
	t.Run("answers as the specification says", func(t *testing.T) { responses(t, r) })
	t.Run("same request, same candidates", func(t *testing.T) { sameCandidates(t, r, 1) })
	t.Run("corrections", func(t *testing.T) { corrections(t, r) })
}

func TestSameRequestToAnEngineGivesSameCandidates(t *testing.T) {
	model := tinyModel(t, synth.Qwen3)
	r := serveEngines(t, []string{llamaServer(t, model).url}, "--model", model, "--max-new-tokens", "24")
	sameCandidates(t, r, 4) // those that reach the limit count as one
	sameLines(t, r)
}

// sameCandidates asks the same twice. Of eight candidates, some must differ.
func sameCandidates(t *testing.T, r *running, different int) {
	answers := func() (list []string) {
		for _, o := range r.ask("same", user(1, "Say something.").outputs(8)) {
			list = append(list, answerOf(o))
		}
		return list
	}
	first, again := answers(), answers()
	found := map[string]bool{}
	for i := range first {
		found[first[i]] = true
		if first[i] != again[i] {
			t.Errorf("candidate %d: %s, then %s", i, first[i], again[i])
		}
	}
	if len(found) < different {
		t.Errorf("%d different answers of 8", len(found))
	}
}

// slots counts the slots of llama-server that compute.
func (e *engineProcess) slots(t *testing.T) (busy int) {
	t.Helper()
	_, answer, err := exchange("GET", e.url+"/slots", "")
	var list []struct {
		Busy bool `json:"is_processing"`
	}
	if err != nil || json.Unmarshal([]byte(answer), &list) != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	for _, slot := range list {
		if slot.Busy {
			busy++
		}
	}
	return busy
}

// computes waits until so many slots compute. llama-server looks for clients that left when no
// answer ended for a second, and one about its slots is one: so it is asked seldom.
func (e *engineProcess) computes(t *testing.T, want int) {
	t.Helper()
	pause := 5 * time.Millisecond
	if want == 0 {
		pause = 1500 * time.Millisecond
		time.Sleep(pause)
	}
	for deadline := time.Now().Add(patience); e.slots(t) != want; time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("%d slots compute, want %d", e.slots(t), want)
		}
	}
}

// endlessEngine is agentd before an engine whose model never ends a text by itself.
func endlessEngine(t *testing.T, args ...string) (*engineProcess, *running) {
	t.Helper()
	model := endlessModel(t)
	e := llamaServer(t, model, "--ctx-size", "16384")
	return e, serveEngines(t, []string{e.url}, append([]string{"--model", model, "--debug", "constrain=off"}, args...)...)
}

func TestClientsThatLeaveEndTheEnginesWork(t *testing.T) {
	e, r := endlessEngine(t, "--max-new-tokens", "6000")
	ctx, cancel := context.WithCancel(t.Context())
	gone := r.postUntil(ctx, body(t, "leaves", user(1, "a").outputs(2)))
	e.computes(t, 2)
	cancel()
	wait(t, "the client's end", gone)
	e.computes(t, 0)
	r.becomes("agentd_candidates_admitted", 0)
	if n := r.metric("agentd_generations_cancelled_total"); n != 1 {
		t.Errorf("%v generations were cancelled", n)
	}
	r.health("ready")
}

// TestKilledEngineIsReplaced: of two engines one is killed under load and comes back. Every
// accepted request ends with valid answers, or with an error that may be retried.
func TestKilledEngineIsReplaced(t *testing.T) {
	model := tinyModel(t, synth.Qwen3)
	a, b := llamaServer(t, model), llamaServer(t, model)
	r := serveEngines(t, []string{a.url, b.url}, "--model", model, "--max-new-tokens", "24")
	up := func(e *engineProcess) string { return `agentd_engine_up{engine="` + e.url + `"}` }

	// load sends requests of many runs until it is stopped, and counts their answers.
	load := func() (stop func() map[int]int) {
		done := make(chan struct{})
		var clients sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for client := range 4 {
			clients.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					text := body(t, "load", user(1, fmt.Sprintf("run %d of %d", i, client)).outputs(2))
					status, answer, err := exchange("POST", r.url+"/v1/responses", text)
					if err == nil && status == http.StatusOK {
						_, err = checked(text, answer)
					}
					if err != nil {
						t.Errorf("%d %.300s: %v", status, answer, err)
					}
					mu.Lock()
					statuses[status]++
					mu.Unlock()
				}
			})
		}
		return func() map[int]int {
			close(done)
			clients.Wait()
			return statuses
		}
	}
	stop := load()
	waittest.Eventually(t, "both engines get requests", func() bool {
		return r.metric(`agentd_engine_requests_total{engine="`+a.url+`"}`) >= 5 && r.metric(`agentd_engine_requests_total{engine="`+b.url+`"}`) >= 5
	})
	a.kill()
	r.becomes(up(a), 0)
	r.health("ready")
	a.start(t)
	r.becomes(up(a), 1)
	statuses := stop()
	for status := range statuses {
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("an answer has status %d", status)
		}
	}
	t.Logf("answers by status: %v", statuses)
	if statuses[http.StatusOK] == 0 {
		t.Error("no request was answered")
	}

	a.kill()
	b.kill()
	for status := 0; status != http.StatusServiceUnavailable; {
		var answer string
		var err error
		if status, answer, err = exchange("POST", r.url+"/v1/responses", body(t, "none", user(1, "a"))); err != nil {
			t.Fatal(answer, err)
		}
	}
	r.health("loading")
	b.start(t)
	r.health("ready")
	r.ask("again", user(1, "a"))
}

func TestEngineWithAnotherVocabularyIsRefused(t *testing.T) {
	engine := llamaServer(t, tinyModel(t, synth.Qwen3))
	var log strings.Builder
	err := run(t.Context(), []string{"--port", "0", "--engine", engine.url}, &log, &log)
	if err == nil || !strings.Contains(err.Error(), "has another vocabulary than") || !strings.Contains(err.Error(), engine.url) {
		t.Errorf("got %v", err)
	}
}
