package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	otlp = "OTEL_EXPORTER_OTLP_"
	// standardEndpoint is OpenTelemetry's default if only OTEL_TRACES_EXPORTER=otlp is set.
	standardEndpoint = "http://localhost:4318/v1/traces"
)

// Enabled reports whether environment variables OTEL_* name a collector or the exporter otlp. OpenTelemetry's other
// variables apply too: for the exporter (OTEL_EXPORTER_OTLP_*), the sampler (OTEL_TRACES_SAMPLER), the queue
// (OTEL_BSP_*), limits of spans and the resource.
func Enabled() bool {
	to, _ := first("ENDPOINT")
	exporter := strings.ToLower(os.Getenv("OTEL_TRACES_EXPORTER"))
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && exporter != "none" && (to != "" || exporter == "otlp")
}

// first returns a setting of the exporter and its variable: that for traces, without it that for all signals.
func first(name string) (text, variable string) {
	for _, variable := range []string{otlp + "TRACES_" + name, otlp + name} {
		if text := os.Getenv(variable); text != "" {
			return text, variable
		}
	}
	return "", ""
}

// check checks the variables. OpenTelemetry would use its default for an invalid one, or panic.
func check() error {
	if p, name := first("PROTOCOL"); p == "grpc" {
		return fmt.Errorf("%s is %q, but traces are sent by http/protobuf; set it to that and name the collector's port for HTTP, mostly 4318", name, p)
	}
	for _, check := range []func() error{checkSecrets, checkWords, checkEndpoint, checkFiles, checkNumbers, checkSampler} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func checkEndpoint() error {
	text, variable := first("ENDPOINT")
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New(variable + " is not a URL; want a collector's URL with http:// or https://, such as http://127.0.0.1:4318")
	}
	if u.RawQuery != "" {
		return errors.New(variable + " has a query, which collectors do not read; put a key into OTEL_EXPORTER_OTLP_HEADERS")
	}
	if insecure, name := first("INSECURE"); insecure != "" && strings.EqualFold(insecure, "true") != (u.Scheme == "http") {
		return fmt.Errorf("%s is %q, but %s begins with %s://; the URL alone is enough", name, insecure, variable, u.Scheme)
	}
	return nil
}

// oneOf checks that text, "" for a variable that is not set, is one of words.
func oneOf(name, text string, words ...string) error {
	if text == "" || slices.Contains(words, text) {
		return nil
	}
	return fmt.Errorf("%s is %q; want %s", name, text, strings.Join(words, " or "))
}

func checkWords() error {
	for _, setting := range []struct {
		name  string
		words []string
	}{
		{"PROTOCOL", []string{"http/protobuf", "http/json"}},
		{"COMPRESSION", []string{"gzip", "none"}},
		{"INSECURE", []string{"true", "false"}},
	} {
		text, variable := first(setting.name)
		if err := oneOf(variable, text, setting.words...); err != nil {
			return err
		}
	}
	for word := range strings.SplitSeq(os.Getenv("OTEL_PROPAGATORS"), ",") {
		if err := oneOf("OTEL_PROPAGATORS", strings.TrimSpace(word), "tracecontext", "baggage"); err != nil {
			return fmt.Errorf("%w; agentd passes on the W3C trace context alone", err)
		}
	}
	return nil
}

// checkFiles reads the certificates that the exporter will read.
func checkFiles() error {
	if file, name := first("CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: %s has no certificate in PEM", name, file)
		}
	}
	cert, name := first("CLIENT_CERTIFICATE")
	key, keyName := first("CLIENT_KEY")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fmt.Errorf("%s: set %sCLIENT_CERTIFICATE and %sCLIENT_KEY together", name+keyName, otlp, otlp)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("%s and %s: %w", name, keyName, err)
	}
	return nil
}

// maxQueue bounds the queue of spans, which is allocated at the start.
const maxQueue = 1 << 20

// checkNumbers checks integer variables. Times are in milliseconds.
func checkNumbers() error {
	const largest = 1<<31 - 1
	timeout, timeoutName := first("TIMEOUT")
	bounds := map[string][2]int{
		"OTEL_BSP_SCHEDULE_DELAY": {1, largest}, "OTEL_BSP_EXPORT_TIMEOUT": {1, largest},
		"OTEL_BSP_MAX_QUEUE_SIZE": {1, maxQueue}, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": {1, maxQueue},
	}
	for _, name := range []string{
		"ATTRIBUTE_VALUE_LENGTH", "ATTRIBUTE_COUNT", "SPAN_ATTRIBUTE_VALUE_LENGTH", "SPAN_ATTRIBUTE_COUNT",
		"SPAN_EVENT_COUNT", "EVENT_ATTRIBUTE_COUNT", "SPAN_LINK_COUNT", "LINK_ATTRIBUTE_COUNT",
	} {
		bounds["OTEL_"+name+"_LIMIT"] = [2]int{0, largest}
	}
	values := map[string]int{"OTEL_BSP_MAX_QUEUE_SIZE": 2048, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": 0} // 0: as the queue allows
	number := func(name, text string, of [2]int) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < of[0] || n > of[1] {
			return fmt.Errorf("%s is %q; want an integer from %d to %d without a unit; times are milliseconds", name, text, of[0], of[1])
		}
		values[name] = n
		return nil
	}
	if timeout != "" {
		if err := number(timeoutName, timeout, [2]int{1, largest}); err != nil {
			return err
		}
	}
	for name, of := range bounds {
		if text := os.Getenv(name); text != "" {
			if err := number(name, text, of); err != nil {
				return err
			}
		}
	}
	if batch, queue := values["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], values["OTEL_BSP_MAX_QUEUE_SIZE"]; batch > queue {
		return fmt.Errorf("OTEL_BSP_MAX_EXPORT_BATCH_SIZE is %d, more than OTEL_BSP_MAX_QUEUE_SIZE, which is %d", batch, queue)
	}
	return nil
}

func checkSampler() error {
	sampler := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")))
	err := oneOf("OTEL_TRACES_SAMPLER", sampler,
		"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")
	if err != nil || !strings.HasSuffix(sampler, "traceidratio") {
		return err
	}
	if text := strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER_ARG")); text != "" {
		if ratio, err := strconv.ParseFloat(text, 64); err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q; want a number from 0 to 1", text)
		}
	}
	return nil
}

// headerName matches the name of an HTTP header.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkSecrets refuses invalid values that OpenTelemetry's exporter would log: a URL with a
// password, or a header without a value. The error does not contain the value.
func checkSecrets() error {
	const advice = "has a user or password, which collectors do not read; put a key into OTEL_EXPORTER_OTLP_HEADERS"
	for _, name := range []string{otlp + "TRACES_ENDPOINT", otlp + "ENDPOINT"} {
		if strings.Contains(os.Getenv(name), "@") {
			return errors.New(name + " " + advice)
		}
	}
	for _, name := range []string{otlp + "TRACES_HEADERS", otlp + "HEADERS"} {
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
