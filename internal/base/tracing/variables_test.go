package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// opened is what Open says with these variables and no others, and what it logged.
func opened(t *testing.T, env map[string]string) (tracer *Tracer, log string, err error) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	var out bytes.Buffer
	tracer, err = Open(t.Context(), "1", zerolog.New(&out))
	if tracer != nil {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		tracer.Close(ended)
	}
	return tracer, out.String(), err
}

func TestEachWrongVariableIsOneSentence(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-5", "integer from 1 to 1048576"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "integer from 1"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "9000000000000000000", "integer from 1"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "many", "integer from 1"},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1", "integer from 1"},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096", "more than OTEL_BSP_MAX_QUEUE_SIZE, which is 2048"},
		{"OTEL_BSP_SCHEDULE_DELAY", "5s", "milliseconds"},
		{"OTEL_BSP_SCHEDULE_DELAY", "-1", "milliseconds"},
		{"OTEL_BSP_EXPORT_TIMEOUT", "1.5", "milliseconds"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "5s", "milliseconds"},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1", "milliseconds"},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x", "integer from 0"},
		{"OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "-1", "integer from 0"},
		{"OTEL_TRACES_EXPORTER", "console", "want otlp or none"},
		{"OTEL_TRACES_EXPORTER", "zipkin", "want otlp or none"},
		{"OTEL_TRACES_EXPORTER", "otlp,console", "want otlp or none"},
		{"OTEL_SDK_DISABLED", "yes", "want true or false"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http", "want http/protobuf or http/json"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "want gzip or none"},
		{"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP", "want gzip or none"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "false", "the URL alone is enough"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "1", "want true or false"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent/ca.pem", "no such file"},
		{"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", empty, "has no certificate in PEM"},
		{"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nonexistent/key.pem", "together"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/nonexistent/cert.pem", "together"},
		{"OTEL_TRACES_SAMPLER", "sometimes", "want always_on or"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", "want always_on or"},
		{"OTEL_PROPAGATORS", "tracecontext,b3", "want tracecontext or baggage"},
		{"OTEL_RESOURCE_ATTRIBUTES", "team", "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(test.name+" "+test.value, func(t *testing.T) {
			_, log, err := opened(t, map[string]string{endpoint: "http://127.0.0.1:4318", test.name: test.value})
			if err == nil || !strings.HasPrefix(err.Error(), test.name) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || log != "" {
				t.Errorf("error %v, log %s; want one sentence on %s with %q", err, log, test.name, test.want)
			}
		})
	}
	for _, ratio := range []string{"2", "-0.1", "NaN", "half"} {
		_, _, err := opened(t, map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio})
		if err == nil || !strings.Contains(err.Error(), "want a number from 0 to 1") {
			t.Errorf("ratio %s: %v", ratio, err)
		}
	}
}

func TestRightVariablesAreTaken(t *testing.T) {
	to := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
	for name, test := range map[string]struct {
		env  map[string]string
		open bool
	}{
		"nothing":                        {nil, false},
		"exporter in capital":            {map[string]string{"OTEL_TRACES_EXPORTER": "OTLP"}, true},
		"no exporter":                    {map[string]string{"OTEL_TRACES_EXPORTER": "None", "OTEL_EXPORTER_OTLP_ENDPOINT": to["OTEL_EXPORTER_OTLP_ENDPOINT"]}, false},
		"disabled":                       {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, false},
		"a small queue":                  {map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, true},
		"numbers of a disabled exporter": {map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "-5"}, false},
		"a sampler":                      {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, true},
		"the rest": {map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
			"OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_PROPAGATORS": "tracecontext, baggage", "OTEL_SPAN_EVENT_COUNT_LIMIT": "0",
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, log, err := opened(t, test.env)
			if err != nil || (tracer != nil) != test.open {
				t.Errorf("opened %t, %v", tracer != nil, err)
			}
			for line := range strings.Lines(log) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
		})
	}
}
