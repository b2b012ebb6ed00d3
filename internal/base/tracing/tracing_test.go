package tracing

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEndpointAndProtocolAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		env     map[string]string
		enabled bool
		wrong   string // part of the error; "": none
	}{
		"nothing":                      {},
		"an address":                   {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, enabled: true},
		"a path":                       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://traces.example.org/otlp"}, enabled: true},
		"no scheme":                    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"}, enabled: true, wrong: "is not a URL"},
		"a password":                   {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:p@traces"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_HEADERS"},
		"the variable of traces":       {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, enabled: true},
		"another signal's variable":    {env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}},
		"a variable without a scheme":  {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4319"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL; want a collector's URL with http://"},
		"a name without a scheme":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		"another scheme":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://c:4317"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		"no host":                      {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://:4318/v1/traces"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not a URL"},
		"no host at all":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http:///v1"}, enabled: true, wrong: "is not a URL"},
		"a password in a variable":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:p@c"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT has a user"},
		"the variable that holds":      {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "c:4318", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, enabled: true, wrong: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is"},
		"no SDK":                       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}},
		"no traces":                    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}},
		"gRPC":                         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, enabled: true, wrong: "http/protobuf"},
		"gRPC for other signals":       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, enabled: true},
		"gRPC, but nothing to send to": {env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"} {
				t.Setenv(name, test.env[name])
			}
			if Enabled() != test.enabled {
				t.Errorf("enabled %t", Enabled())
			}
			if !test.enabled {
				return
			}
			err := check()
			if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want %q", err, test.wrong)
			}
			if err != nil && strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error has a password: %v", err)
			}
		})
	}
}

// TestStuckCollectorHoldsUpNoSpan makes more spans than the queue takes.
func TestStuckCollectorHoldsUpNoSpan(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
	hold := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer c.Close()
	defer close(hold)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	var log bytes.Buffer
	tracer, err := Open(t.Context(), "1", zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		_, span := tracer.Request(t.Context(), "request")
		span.End()
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	tracer.Close(done)
}

func TestNoTracerMakesNoSpan(t *testing.T) {
	tracer, err := Open(t.Context(), "1", zerolog.Nop())
	if tracer != nil || err != nil {
		t.Fatalf("got %v, %v", tracer, err)
	}
	ctx, span := tracer.Request(t.Context(), "request")
	if span.IsRecording() || On(ctx) || ctx != t.Context() {
		t.Error("a span was made")
	}
	if child, _ := Start(ctx, "child"); child != ctx {
		t.Error("a child was made")
	}
	tracer.Drop()
	tracer.Close(t.Context())
}

// BenchmarkOff is what a request with one input costs without a tracer.
func BenchmarkOff(b *testing.B) {
	var tracer *Tracer
	header := http.Header{"Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		ctx, request := tracer.Request(Extract(b.Context(), header), "request")
		_, input := Start(ctx, "input")
		if On(ctx) {
			b.Fatal("it is on")
		}
		input.End()
		request.End()
	}
}

func TestOnlyValidTraceContextsArePassedOn(t *testing.T) {
	const id = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, c := range map[string]struct{ parent, state, wantParent, wantState string }{
		"none":              {},
		"with its state":    {id, "a=1", id, "a=1"},
		"version ff":        {"ff" + id[2:], "", "", ""},
		"too short":         {id[:50], "a=1", "", ""},
		"a state by itself": {"", "a=1", "", ""},
		"a broken state":    {id, "a", id, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := http.Header{}, http.Header{}
			from.Set("Traceparent", c.parent)
			from.Set("Tracestate", c.state)
			Inject(Extract(t.Context(), from), to)
			if to.Get("Traceparent") != c.wantParent || to.Get("Tracestate") != c.wantState {
				t.Errorf("got %v", to)
			}
		})
	}
}
