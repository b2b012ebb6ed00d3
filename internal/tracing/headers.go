package tracing

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// headerName is a name as HTTP allows it.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkHeaders finds headers in OpenTelemetry's variables that its exporter would print and leave
// out. They are mostly keys, so the error names only the variable and the header's place.
func checkHeaders() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		for i, header := range strings.Split(value, ",") {
			key, text, assigned := strings.Cut(header, "=")
			_, err := url.PathUnescape(text)
			if !assigned || !headerName.MatchString(strings.TrimSpace(key)) || err != nil {
				return fmt.Errorf("%s: header %d is not NAME=VALUE; in a value write a comma as %%2C and %% as %%25", name, i+1)
			}
		}
	}
	return nil
}
