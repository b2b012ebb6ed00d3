package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agentd/internal/base/tracing"
	"agentd/protocol"
)

func TestSpansTellWhichRequestsFailed(t *testing.T) {
	got := make(chan []string, 1)
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var spans collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &spans)
		}
		if err != nil {
			t.Error(err)
			return
		}
		var list []string
		for _, s := range spans.ResourceSpans[0].ScopeSpans[0].Spans {
			text := s.Name
			for _, a := range s.Attributes {
				if slices.Contains([]string{"http.response.status_code", "error.type", "agentd.client"}, a.Key) {
					text += " " + cmp.Or(a.Value.GetStringValue(), fmt.Sprint(a.Value.GetIntValue()))
				}
			}
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				text += " failed"
			}
			list = append(list, text)
		}
		got <- list
	}))
	defer c.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	tracer, err := tracing.Open(t.Context(), "1", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	s := newTest(t, Ready, func(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		switch req.Inputs[0].ID {
		case 2:
			panic("a bug")
		case 3:
			return nil, nil // no valid answer
		}
		return echo(ctx, req)
	}, func(o *Options) {
		o.Tracer, o.Tokens, o.Clients = tracer, []string{"a-token"}, map[string]string{"a-token": "fleet"}
	})
	for _, body := range []string{validBody, "{", strings.Replace(validBody, `"id": 1`, `"id": 2`, 1), strings.Replace(validBody, `"id": 1`, `"id": 3`, 1)} {
		request{"POST", "/v1/responses", body, map[string]string{"Authorization": "Bearer a-token"}}.do(t, s)
	}
	for _, path := range []string{"/health", "/metrics", "/magma/health", "/nowhere"} {
		request{"GET", path, "", map[string]string{"Authorization": "Bearer a-token"}}.do(t, s)
	}
	request{"POST", "/v1/responses", validBody, map[string]string{"Authorization": "Bearer another"}}.do(t, s)
	tracer.Close(t.Context())
	const name = "POST /v1/responses fleet "
	want := []string{name + "200", name + "422", name + "panic failed", name + "500 500 failed"}
	if spans := <-got; !slices.Equal(spans, want) {
		t.Errorf("got %q, want %q", spans, want)
	}
}
