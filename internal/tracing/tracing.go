// Package tracing sends OpenTelemetry traces to a collector by OTLP/HTTP. The span of a request
// is in its context, and with it where its children go, so that no package below the server
// needs a setting. Without a span that is recorded, all of this does nothing.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation in spans.
const scope = "agentd"

// Enabled reports whether the standard's variables OTEL_* name a collector. Others of them hold too: of the
// exporter (OTEL_EXPORTER_OTLP_*), the sampler (OTEL_TRACES_SAMPLER), the queue (OTEL_BSP_*), the limits of spans
// and the resource.
func Enabled() bool {
	text, _ := endpoint()
	return text != "" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// endpoint is the URL of the collector and the variable that holds it, "" without one.
func endpoint() (text, variable string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if text := os.Getenv(variable); text != "" {
			return text, variable
		}
	}
	return "", ""
}

// check returns what is wrong with a variable. The exporter would take its default for one that it can't read.
func check() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" {
			if !strings.HasPrefix(p, "http/") {
				return fmt.Errorf("%s is %q, but traces are sent by http/protobuf; set it to that and name the collector's port for HTTP, mostly 4318", name, p)
			}
			break // the first one wins
		}
	}
	if err := checkSecrets(); err != nil {
		return err
	}
	text, variable := endpoint()
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New(variable + " is not a URL; want a collector's URL with http:// or https://, such as http://127.0.0.1:4318")
	}
	if u.RawQuery != "" {
		return errors.New(variable + " has a query, which collectors do not read; put a key into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// Tracer starts the spans of requests. A nil Tracer starts none.
type Tracer struct {
	provider *sdk.TracerProvider
	exporter *exporter
}

// Open starts sending traces in the background. It contacts nobody. It returns nil where
// nothing is traced.
func Open(ctx context.Context, version string, log zerolog.Logger) (*Tracer, error) {
	if !Enabled() {
		return nil, nil //nolint:nilnil // a nil Tracer is a working one
	}
	if err := check(); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn().Err(err).Msg("OpenTelemetry") })) // its own writes to stderr
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("agentd"), semconv.ServiceVersion(version)), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), to.Shutdown(ctx))
	}
	e := &exporter{to: to, log: log}
	e.base, e.end = context.WithCancel(context.Background())
	return &Tracer{sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithResource(of)), e}, nil
}

// Close sends what is left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	defer context.AfterFunc(ctx, t.exporter.end)()
	// It ends soon after ctx, since then all exports fail. The exporter logs why spans were lost.
	_ = t.provider.Shutdown(context.WithoutCancel(ctx))
	t.exporter.end()
}

// Drop gives up what is left, so that Close does not wait.
func (t *Tracer) Drop() {
	if t != nil {
		t.exporter.end()
	}
}

// Request starts the span of a request, below the caller's that [Extract] found.
func (t *Tracer) Request(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return t.provider.Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
}

// On reports whether the span in ctx is recorded.
func On(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Start starts a span below the one in ctx. Without a recorded one it does nothing and returns
// that one.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, parent
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// Past makes a span of what already ended.
func Past(ctx context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, span := Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(to))
}

// Under returns ctx with the span of another context, or ctx where that is nil.
func Under(ctx, of context.Context) context.Context {
	if of == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// Fail marks a span as failed. kind is one of few words; the message may be "".
func Fail(span trace.Span, kind, message string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(cmp.Or(kind, "_OTHER")))
	span.SetStatus(codes.Error, message)
}

// Extract returns ctx with the trace context of a caller's headers (W3C Trace Context), if they
// have a valid one.
func Extract(ctx context.Context, h http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}

// Inject sets the headers of the trace context in ctx: that of the current span, or the
// caller's where nothing is traced.
func Inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// exporter logs once that the collector fails, and once that it works again. Its spans are lost.
type exporter struct {
	to      sdk.SpanExporter
	log     zerolog.Logger
	failing atomic.Bool
	lost    atomic.Int64 // spans since it fails

	// base ends with the exporter, whatever the SDK's own goroutine still tries.
	base context.Context
	end  context.CancelFunc
}

// ExportSpans implements sdk.SpanExporter. The SDK calls it from one goroutine at a time.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(e.base, cancel)()
	defer cancel()
	err := e.to.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		e.lost.Add(int64(len(spans)))
		if !e.failing.Swap(true) {
			e.log.Warn().Err(err).Msg("traces are not delivered and get lost until the collector takes them")
		}
	case e.failing.Swap(false):
		e.log.Info().Int64("lost_spans", e.lost.Swap(0)).Msg("traces are delivered again")
	}
	return nil // the SDK would print it
}

func (e *exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }

// headerName is a name as HTTP allows it.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkSecrets finds what OpenTelemetry's exporter would print because it cannot read it: a URL with
// a password, or a header without a value. The error does not repeat it.
func checkSecrets() error {
	const advice = "has a user or password, which collectors do not read; put a key into OTEL_EXPORTER_OTLP_HEADERS"
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if strings.Contains(os.Getenv(name), "@") {
			return errors.New(name + " " + advice)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		for i, header := range strings.Split(os.Getenv(name), ",") {
			if strings.TrimSpace(header) == "" {
				continue
			}
			key, text, assigned := strings.Cut(header, "=")
			_, err := url.PathUnescape(text)
			if !assigned || !headerName.MatchString(strings.TrimSpace(key)) || err != nil {
				return fmt.Errorf("%s: header %d is not NAME=VALUE; in a value write a comma as %%2C and %% as %%25", name, i+1)
			}
		}
	}
	return nil
}
