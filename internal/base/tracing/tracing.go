// Package tracing sends OpenTelemetry traces to a collector by OTLP/HTTP. The span of a request
// is in its context, and has the tracer of its children, so that packages below the server need
// no setting. Without a recorded span, all functions do nothing.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr/funcr"
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

// Tracer starts the spans of requests. A nil Tracer does nothing.
type Tracer struct {
	provider *sdk.TracerProvider
	exporter *exporter
}

// Open makes a Tracer that sends traces in the background. It does not connect yet. It returns nil
// if tracing is off, see Enabled.
func Open(ctx context.Context, version string, log zerolog.Logger) (*Tracer, error) {
	if err := errors.Join( // an exporter that we don't have is an error
		oneOf("OTEL_SDK_DISABLED", strings.ToLower(os.Getenv("OTEL_SDK_DISABLED")), "true", "false"),
		oneOf("OTEL_TRACES_EXPORTER", strings.ToLower(os.Getenv("OTEL_TRACES_EXPORTER")), "otlp", "none"),
	); err != nil {
		return nil, err
	}
	if !Enabled() {
		return nil, nil //nolint:nilnil // a nil Tracer is a working one
	}
	if err := check(); err != nil {
		return nil, err
	}
	for _, name := range []string{"OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"} {
		if to := os.Getenv(name); to != "" && to != "none" {
			log.Warn().Str("variable", name).Msg("agentd sends traces only; metrics are at /metrics, and logs on stderr")
		}
	}
	// Its own write lines of text to stderr.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn().Err(err).Msg("OpenTelemetry") }))
	otel.SetLogger(funcr.New(func(_, text string) { log.Warn().Str("reason", text).Msg("OpenTelemetry") }, funcr.Options{}))
	var options []otlptracehttp.Option
	if text, _ := first("ENDPOINT"); text == "" {
		options = append(options, otlptracehttp.WithEndpointURL(standardEndpoint))
	}
	to, err := otlptracehttp.New(ctx, options...)
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

// Close sends the remaining spans, until ctx ends.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	defer context.AfterFunc(ctx, t.exporter.end)()
	// It ends soon after ctx, since then all exports fail. The exporter logs why spans were lost.
	_ = t.provider.Shutdown(context.WithoutCancel(ctx))
	t.exporter.end()
}

// Drop discards the remaining spans, so that Close does not wait.
func (t *Tracer) Drop() {
	if t != nil {
		t.exporter.end()
	}
}

// Request starts the span of a request, as a child of the caller's span that [Extract] found.
func (t *Tracer) Request(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return t.provider.Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
}

// On reports whether the span in ctx is recorded.
func On(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Start starts a child of the span in ctx. If that is not recorded, it does nothing and returns it.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, parent
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// Past makes a span of something that has ended.
func Past(ctx context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	_, span := Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(to))
}

// Under returns ctx with the span of another context; if that is nil, it returns ctx.
func Under(ctx, of context.Context) context.Context {
	if of == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(of))
}

// Fail marks a span as failed. kind is its error.type, of which there are few; message may be "".
func Fail(span trace.Span, kind, message string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(cmp.Or(kind, "_OTHER")))
	span.SetStatus(codes.Error, message)
}

// Extract returns ctx with the trace context in a caller's headers (W3C Trace Context), if they have a valid one.
func Extract(ctx context.Context, h http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}

// Inject sets the headers for the trace context in ctx: that of the current span, or the caller's if tracing is off.
func Inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// exporter logs once that the collector fails, and once that it works again. Spans in between are lost.
type exporter struct {
	to      sdk.SpanExporter
	log     zerolog.Logger
	failing atomic.Bool
	lost    atomic.Int64 // number of lost spans since the first failure

	// base ends with the exporter, and so do exports that the SDK's goroutine still tries.
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
