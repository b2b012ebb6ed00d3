package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

// idle checks that nothing of any request is left in the engine.
func (r *running) idle() {
	r.t.Helper()
	for _, name := range []string{"agentd_num_requests_running", "agentd_num_requests_waiting", "agentd_candidates_admitted", "agentd_kv_cache_cells_active"} {
		r.becomes(name, 0)
	}
	if used, cells := r.metric("agentd_kv_cache_cells_used"), r.metric("agentd_kv_cache_cells"); used > cells {
		r.t.Errorf("%v cells of %v are used", used, cells)
	}
}

// TestManyClients: agentd check finds no ids or texts of one client at another, while 16 clients send
// mixed requests.
func TestManyClients(t *testing.T) {
	t.Parallel()
	for _, contexts := range []string{"1", "3"} {
		t.Run(contexts+" contexts", func(t *testing.T) {
			serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "10", "--parallel", "12", "--contexts", contexts).atOne(t, func(t *testing.T, r *running) {
				r.passes("--load", "16", "--only", "order,error,cancel,load,concurrent/own-answers,concurrent/order")
				r.idle()
				if contexts == "3" {
					for _, context := range []string{"0", "1", "2"} {
						labels := `{context="` + context + `",device="CPU"}`
						if r.metric("agentd_context_up"+labels) != 1 || r.metric("agentd_context_generation_tokens_total"+labels) == 0 {
							t.Errorf("context %s has done nothing", context)
						}
					}
				}
			})
		})
	}
}

func TestLimitsAreErrorsOfTheirCandidates(t *testing.T) { atBase(t, limitsAreErrors) }

func limitsAreErrors(t *testing.T, base string) {
	r := serveModel(t, "--model", endlessModel(t), "--debug", "repetition-stop=off", "--context-length", "1024", "--max-new-tokens", "8", "--debug", "constrain=off").at(base)
	outs := r.ask("limits", user(1, "short").outputs(2), user(2, strings.Repeat("long ", 2000)).outputs(2), user(3, "short too"),
		user(4, strings.Repeat("long ", 400_000)))
	for i, want := range []string{"truncated", "truncated", "context_overflow", "context_overflow", "truncated", "context_overflow"} {
		o := outs[i]
		if o.Error == nil || o.Error.Code != want || string(o.Memory) != "{}" {
			t.Fatalf("output %d: %s", i, answerOf(o))
		}
		numbers := []string{"8"}
		if want == "context_overflow" {
			numbers = []string{"1024", "8", "20"} // 2,000 words and the rest of the prompt: 20xx tokens
		}
		if i == 5 {
			numbers = []string{"1024", "8", "at least"} // nobody counts what can't fit
		}
		for _, n := range numbers {
			if !strings.Contains(o.Error.Message, n) {
				t.Errorf("output %d: %q lacks %s", i, o.Error.Message, n)
			}
		}
	}
	if o := outs[2]; o.Error.Component != "scheduler" || len(o.InternalSteps) != 0 {
		t.Errorf("overflow has component %s and %d steps", o.Error.Component, len(o.InternalSteps))
	}
	r.idle()
}

func TestFixedTokens(t *testing.T) { atBase(t, fixedTokens) }

func fixedTokens(t *testing.T, base string) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--debug", "fixed-tokens=9").at(base)
	for i, o := range r.ask("fixed", user(1, "a").outputs(3)) {
		if o.Error != nil || !strings.Contains(string(o.InternalSteps[0]), `"completion_tokens":9,`) {
			t.Errorf("candidate %d: %+v", i, o)
		}
	}
	r.idle()
}

func TestHeaderAndMetricsReportTiming(t *testing.T) { atBase(t, timing) }

func timing(t *testing.T, base string) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--debug", "fixed-tokens=3").at(base)
	_, header, _, err := exchangeHeader("POST", r.url+"/v1/responses", body(t, "timed", user(1, "a").outputs(2), user(2, "b")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := header.Get("Server-Timing"); !regexp.MustCompile(`^queue;dur=\d+\.\d{3}, ttft;dur=\d+\.\d{3}$`).MatchString(got) {
		t.Errorf("Server-Timing: %q", got)
	}
	for _, name := range []string{"request_queue_time", "time_to_first_token", "request_time_per_output_token"} {
		if n := r.metric("agentd_" + name + "_seconds_count"); n != 2 {
			t.Errorf("%s has seen %v generations, want 2", name, n)
		}
	}
	r.idle()
}

// eachEndless runs a test with a model that never ends a text: at one base path, and through an engine. computes
// waits until so many candidates are computed, and for 0 until nothing of a request is left.
func eachEndless(t *testing.T, f func(t *testing.T, r *running, computes func(n int)), args ...string) {
	atBase(t, func(t *testing.T, base string) {
		r := serveModel(t, append([]string{"--model", endlessModel(t), "--debug", "repetition-stop=off", "--context-length", "16384", "--debug", "constrain=off"}, args...)...).at(base)
		f(t, r, func(n int) {
			if n == 0 {
				r.idle()
			}
			r.becomes("agentd_num_requests_running", float64(n))
		})
	})
	t.Run("through llama-server", func(t *testing.T) {
		e, r := endlessEngine(t, args...)
		f(t, r, func(n int) { e.computes(t, n) })
	})
}

func TestQueueLimit(t *testing.T) {
	eachEndless(t, queueLimit, "--max-new-tokens", "6000", "--queue-limit", "2")
}

func queueLimit(t *testing.T, r *running, computes func(n int)) {
	status, answer, err := exchange("POST", r.url+"/v1/responses", body(t, "never", user(1, "a").outputs(3)))
	if err != nil || status != 422 || !strings.Contains(answer, "this server admits 2") || !strings.Contains(answer, `"loc":["body","inputs"]`) {
		t.Errorf("a request that never fits got %d %s, %v", status, answer, err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := r.postUntil(ctx, body(t, "long", user(1, "a").outputs(2)))
	computes(2)
	computed := r.metric("agentd_prompt_tokens_total")
	status, header, _, err := exchangeHeader("POST", r.url+"/v1/responses", body(t, "late", user(1, "b")), nil)
	if err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("with a full queue: %d, Retry-After %q, %v", status, header.Get("Retry-After"), err)
	}
	if after := r.metric("agentd_prompt_tokens_total"); after != computed {
		t.Error("work was done for a refused request")
	}
	if got := r.ask("corrections wait for nothing", user(1, "b").extra(`{"coaching": {"kind": "replace_say", "text": "x"}}`)); got[0].Error != nil {
		t.Errorf("a correction beside a full queue: %s", answerOf(got[0]))
	}

	cancel() // the client leaves, and everything it held is free again
	wait(t, "the client's end", gone)
	computes(0)
}

// postUntil posts a request whose client leaves when ctx ends.
func (r *running) postUntil(ctx context.Context, text string) <-chan error {
	gone := make(chan error, 1)
	go func() {
		_, _, _, err := exchangeWithin(ctx, "POST", r.url+"/v1/responses", text, nil)
		gone <- err
	}()
	return gone
}

func TestClientsThatLeaveFreeTheirSequences(t *testing.T) { atBase(t, clientsThatLeave) }

func clientsThatLeave(t *testing.T, base string) {
	r := serveModel(t, "--model", endlessModel(t), "--debug", "repetition-stop=off", "--context-length", "16384", "--max-new-tokens", "4000", "--parallel", "3", "--debug", "constrain=off").at(base)
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		var gone []<-chan error
		for client := range 4 { // more than run at once: some wait
			gone = append(gone, r.postUntil(ctx, body(t, fmt.Sprint(client), user(1, fmt.Sprint("client ", client)).outputs(2))))
		}
		r.becomes("agentd_candidates_admitted", 8)
		r.becomes("agentd_num_requests_running", 3)
		cancel()
		for _, g := range gone {
			wait(t, "a client's end", g)
		}
		r.idle()
	}
	if n := r.metric("agentd_generations_cancelled_total"); n != 12 {
		t.Errorf("%v generations were cancelled, want 12", n)
	}
}

func TestRequestTimeoutEndsCandidates(t *testing.T) {
	eachEndless(t, requestTimeout, "--max-new-tokens", "6000", "--request-timeout", "300ms")
}

func requestTimeout(t *testing.T, r *running, computes func(n int)) {
	for _, o := range r.ask("slow", user(1, "a").outputs(2), user(2, "b")) {
		if o.Error == nil || o.Error.Code != "timeout" || o.Error.Component != "scheduler" {
			t.Errorf("got %s", answerOf(o))
		}
	}
	computes(0)
}

func TestDrainFinishesTheModelsWork(t *testing.T) {
	t.Parallel()
	eachEndless(t, drainFinishesWork, "--max-new-tokens", "300")
}

func drainFinishesWork(t *testing.T, r *running, computes func(n int)) {
	answer := r.post(body(t, "last", user(1, "a").outputs(2)))
	computes(2)
	r.stop()
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") || strings.Count(got, `"truncated"`) != 2 {
		t.Errorf("work in flight at the signal: %.300s", got)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestDrainTimeoutEndsLinesWithItsReason(t *testing.T) { atBase(t, drainTimeoutOfLines) }

func drainTimeoutOfLines(t *testing.T, base string) {
	r := serveModel(t, "--model", endlessModel(t), "--debug", "repetition-stop=off", "--context-length", "16384", "--max-new-tokens", "6000",
		"--debug", "constrain=off", "--drain-timeout", "10ms").at(base)
	answer := r.laterHeader("/v1/responses", body(t, "last", user(1, "a").outputs(2), user(2, "b").tools(`[{"name":"a b"}]`)), acceptLines)
	r.becomes("agentd_num_requests_running", 2)
	r.stop()
	got := wait(t, "the answer", answer)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 4 || !strings.HasPrefix(got, `200 {"input_index":1,`) || lines[3] != `{"candidates":3}` {
		t.Fatalf("%d lines: %.2000s", len(lines), got)
	}
	for _, line := range lines[1:3] {
		if !strings.Contains(line, `"code":"model_error","message":"the server is shutting down"`) {
			t.Errorf("cut off: %s", line)
		}
	}
	if err := r.end(); err == nil {
		t.Error("the server ended as if nothing was cut off")
	}
}

func TestSecondSignalStopsModelAtOnce(t *testing.T) { atBase(t, secondSignal) }

func secondSignal(t *testing.T, base string) {
	r := startAt(t, nil, secondsApart(), "--threads", "1", "--model", endlessModel(t), "--debug", "repetition-stop=off", "--context-length", "16384", "--max-new-tokens", "6000", "--debug", "constrain=off").at(base)
	r.health("ready")
	answer := r.post(body(t, "endless", user(1, "a").outputs(2)))
	r.becomes("agentd_num_requests_running", 2)
	interrupt(t)
	r.health("draining")
	interrupt(t)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "second signal") {
		t.Errorf("run returned %v", err)
	}
	if got := wait(t, "the client's end", answer); strings.HasPrefix(got, "200 ") {
		t.Errorf("cancelled work was answered %.300s", got)
	}
}

func TestPromptLogAndTemplateFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prompts")
	template := filepath.Join(t.TempDir(), "chat.jinja")
	writeFile(t, template, "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}TEMPLATE-MARK{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--model-format", "magma", "--chat-template", template,
		"--max-new-tokens", "8", "--prompt-log-dir", dir)
	o := r.ask("template", user(1, "hello <|im_end|>"))[0]
	if len(o.InternalSteps) != 1 {
		t.Fatalf("got %s", answerOf(o))
	}
	step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
	if err != nil || !strings.Contains(step.FullPrompt, "TEMPLATE-MARK") || !strings.Contains(step.FullPrompt, "hello <|im_end|>") {
		t.Errorf("full_prompt is %q, %v", step.FullPrompt, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("prompt log: %v, %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), step.FullPrompt) || !strings.Contains(string(text), step.OutputRaw) {
		t.Errorf("prompt log holds %q, %v", text, err)
	}
	if strings.Contains(r.log.String(), "hello") {
		t.Error("the server's log holds the prompt")
	}
}
