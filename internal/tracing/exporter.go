package tracing

import (
	"context"
	"sync/atomic"

	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

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

func newExporter(to sdk.SpanExporter, log zerolog.Logger) *exporter {
	e := &exporter{to: to, log: log}
	e.base, e.end = context.WithCancel(context.Background())
	return e
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

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }
