package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agentd/internal/base/waittest"
	"agentd/llama/synth"
)

// The caller's trace context in these tests.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	callerState = "vendor=1"
)

// traceCollector receives traces by OTLP/HTTP.
type traceCollector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracepb.Span
	services []string
	headers  []http.Header
	paths    []string
}

func newTraceCollector(t *testing.T) *traceCollector {
	c := &traceCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Errorf("the collector got no spans: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers, c.paths = append(c.headers, r.Header), append(c.paths, r.URL.Path)
		for _, of := range got.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					c.services = append(c.services, a.Value.GetStringValue())
				}
			}
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// tree writes each span of a parent with its children in brackets, in the order of their starts.
func (c *traceCollector) tree(t *testing.T, parent string) string {
	t.Helper()
	var below []*tracepb.Span
	for _, s := range c.spans {
		if fmt.Sprintf("%x", s.ParentSpanId) == parent {
			below = append(below, s)
		}
	}
	slices.SortStableFunc(below, func(a, b *tracepb.Span) int {
		return strings.Compare(fmt.Sprintf("%020d %d", a.StartTimeUnixNano, number(a, "agentd.input.id")), fmt.Sprintf("%020d %d", b.StartTimeUnixNano, number(b, "agentd.input.id")))
	})
	var list []string
	for _, s := range below {
		if s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s ends before it starts", s.Name)
		}
		if got := fmt.Sprintf("%x", s.TraceId); got != callerTrace {
			t.Errorf("%s is of trace %s", s.Name, got)
		}
		text := s.Name
		if inside := c.tree(t, fmt.Sprintf("%x", s.SpanId)); inside != "" {
			text += " [" + inside + "]"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// named are the spans of a name.
func (c *traceCollector) named(name string) (list []*tracepb.Span) {
	for _, s := range c.spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

func value(s *tracepb.Span, key string) *commonpb.AnyValue {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

func number(s *tracepb.Span, key string) int64 { return value(s, key).GetIntValue() }

// call posts a body within the caller's trace.
func (r *running) call(path, body string) {
	r.t.Helper()
	status, _, answer, err := exchangeHeader("POST", r.url+path, body, http.Header{
		"Traceparent": {"00-" + callerTrace + "-" + callerSpan + "-01"}, "Tracestate": {callerState},
	})
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("got %d %.500s, %v", status, answer, err)
	}
}

// quit ends the server, which sends what it has traced.
func (r *running) quit() {
	r.t.Helper()
	r.stop()
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
}

// logs waits until the log has a text.
func (r *running) logs(text string) {
	r.t.Helper()
	waittest.Eventually(r.t, "the log has "+text, func() bool { return strings.Contains(r.log.String(), text) })
}

// collectorVariable names the collector of traces.
const collectorVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

func TestTraceHasInputsPhasesAndCoaches(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20trace-key")
	c, coach := newTraceCollector(t), newCoaches(t, "no answer of use")
	t.Setenv(collectorVariable, c.URL+"/otlp")
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3))
	r.expect(204, "", "PUT", session1, fmt.Sprintf(`{"backends": {
		"away": {"type": "openai", "endpoint": %q, "model": "m", "max_retry": 0, "headers": {"Authorization": "Bearer %s"}},
		"own": {"type": "local", "model": "mine", "max_retry": 0, "timeout": 300}}}`, coach.URL+"/v1?key=query-secret", coachKey))
	r.call("/v1/responses", body(t, "r1", user(1, "SECRET one").greedy(), user(2, "SECRET two").outputs(3)))
	r.call("/v1/coaching", strings.ReplaceAll(coachingRequest(t, "c1"), "gave up", "SECRET"))
	r.call("/v1/chat/completions", `{"messages": [{"role": "user", "content": "SECRET"}], "n": 2, "max_tokens": 3, "ignore_eos": true}`)
	r.quit()

	const phases = "[queue, prefill, decode]"
	model := value(c.named("invoke_agent full-history")[0], "gen_ai.request.model").GetStringValue()
	want := "POST /v1/responses [invoke_agent full-history " + phases + ", invoke_agent full-history " + phases + "], " +
		"POST /v1/coaching [chat m, chat mine " + phases + "], POST /v1/chat/completions [chat " + model + " " + phases + "]"
	if got := c.tree(t, callerSpan); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range c.named("invoke_agent full-history") {
		id, tokens := number(s, "agentd.input.id"), number(s, "gen_ai.usage.output_tokens")
		if number(s, "gen_ai.usage.input_tokens") == 0 || tokens == 0 || number(s, "gen_ai.request.choice.count") != id*2-1 ||
			value(s, "gen_ai.operation.name").GetStringValue() != "invoke_agent" || value(s, "gen_ai.request.model").GetStringValue() == "" {
			t.Errorf("input %d has %v", id, s.Attributes)
		}
	}
	if s := c.named("chat " + model); len(s) == 1 && (number(s[0], "gen_ai.usage.output_tokens") != 6 || value(s[0], "gen_ai.request.model").GetStringValue() != model ||
		value(s[0], "gen_ai.operation.name").GetStringValue() != "chat" || len(value(s[0], "gen_ai.response.finish_reasons").GetArrayValue().GetValues()) != 2) {
		t.Errorf("the chat has %v", s[0].Attributes)
	}
	if s := c.named("chat m"); len(s) == 1 && (value(s[0], "gen_ai.provider.name").GetStringValue() != "openai" ||
		value(s[0], "server.address").GetStringValue() != "127.0.0.1" || number(s[0], "gen_ai.usage.input_tokens") != 5) {
		t.Errorf("the coach has %v", s[0].Attributes)
	}
	if s := c.named("POST /v1/responses"); len(s) == 1 && (s[0].Kind != tracepb.Span_SPAN_KIND_SERVER || number(s[0], "http.response.status_code") != 200 || s[0].TraceState != callerState) {
		t.Errorf("the request is %v", s[0])
	}
	if !slices.Contains(c.services, "agentd") || c.paths[0] != "/otlp/v1/traces" || c.headers[0].Get("Authorization") != "Bearer trace-key" {
		t.Errorf("services %q, paths %q, headers %v", c.services, c.paths, c.headers)
	}
	for _, secret := range []string{"SECRET", coachKey, "query-secret", "no answer of use"} {
		if strings.Contains(fmt.Sprint(c.spans), secret) {
			t.Errorf("a span holds %q", secret)
		}
	}
	if strings.Contains(r.log.String(), "trace-key") {
		t.Error("the log holds the collector's key")
	}
	if !strings.Contains(r.log.String(), `"trace_id":"`+callerTrace+`"`) {
		t.Error("the log lacks the trace")
	}
}

func TestTraceContinuesThroughRemoteEngine(t *testing.T) {
	c := newTraceCollector(t)
	t.Setenv(collectorVariable, c.URL)
	engine := serveModel(t)
	r := serveEngines(t, []string{engine.url})
	r.call("/v1/responses", body(t, "r1", user(1, "PROMPT of a person").greedy()))
	r.quit()
	engine.quit()
	name := "text_completion " + value(c.named("invoke_agent full-history")[0], "gen_ai.request.model").GetStringValue()
	want := "POST /v1/responses [invoke_agent full-history [" + name + " [POST /v1/completions [" + name + " [queue, prefill, decode]]]]]"
	if got := c.tree(t, callerSpan); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCallersTraceContextReachesEngineWithoutTraces(t *testing.T) {
	c := newTraceCollector(t)
	t.Setenv(collectorVariable, c.URL)
	engine := serveModel(t)
	t.Setenv(collectorVariable, "")
	r := serveEngines(t, []string{engine.url})
	r.call("/v1/responses", body(t, "r1", user(1, "Hello.").greedy()))
	r.quit()
	engine.quit()
	if got, want := c.tree(t, callerSpan), "POST /v1/completions [text_completion agentd household [queue, prefill, decode]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnreachableCollectorCostsOneWarning(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // each request is an export
	t.Setenv(collectorVariable, "http://127.0.0.1:9")
	r := serveModel(t)
	const lost = "traces are not delivered"
	for range 5 {
		r.call("/v1/responses", body(t, "r1", user(1, "Hello.").greedy()))
		r.logs(lost)
	}
	r.quit()
	if n := strings.Count(r.log.String(), lost); n != 1 {
		t.Errorf("%d warnings:\n%s", n, r.log)
	}
}

func TestSamplerOfTheStandardHolds(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	c := newTraceCollector(t)
	t.Setenv(collectorVariable, c.URL)
	r := serveModel(t)
	r.call("/v1/responses", body(t, "r1", user(1, "Hello.").greedy()))
	r.quit()
	if len(c.spans) != 0 {
		t.Errorf("got %d spans", len(c.spans))
	}
}
