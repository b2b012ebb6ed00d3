package tracing

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

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
