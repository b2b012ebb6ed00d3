package tracing

import (
	"strings"
	"testing"
)

func TestHeadersThatCannotBeReadAreNamedWithoutValue(t *testing.T) {
	const variable = "OTEL_EXPORTER_OTLP_HEADERS"
	for value, want := range map[string]string{
		"authorization=Bearer%20SECRET": "",
		"a=SECRET,b=SECRET,c=":          "",
		"authorization Bearer SECRET":   variable + ": header 1 ",
		"a=SECRET,SECRET":               variable + ": header 2 ",
		"a=SECRET%zz":                   variable + ": header 1 ",
		"a b=SECRET":                    variable + ": header 1 ",
		"a=SECRET, ":                    "",
	} {
		t.Setenv(variable, value)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
		err := check()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", value, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "zz")):
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

func TestEndpointWithPasswordIsRefusedWithoutIt(t *testing.T) {
	for _, endpoint := range []string{"http://u:SECRET@h", "http://u:SECRET@SECRET/SECRET@h", "http://u:123/SECRET@h", "http://u:SECRET/SECRET@h"} {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
			t.Run(variable, func(t *testing.T) {
				t.Setenv(variable, endpoint)
				if err := check(); err == nil || strings.Contains(err.Error(), "SECRET") || !strings.HasPrefix(err.Error(), variable) {
					t.Errorf("%s: %v", endpoint, err)
				}
			})
		}
	}
}
