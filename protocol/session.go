package protocol

import (
	"maps"
	"math"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Providers of a coaching session.
const (
	ProviderLLM   = "llm"
	ProviderHuman = "human"
)

// Types of coaching backends.
const (
	BackendOllama    = "ollama"
	BackendOpenAI    = "openai"    // chat completions
	BackendAnthropic = "anthropic" // messages
	BackendLocal     = "local"     // the agent server's own model; needs no endpoint
)

var backendTypes = []string{BackendOllama, BackendOpenAI, BackendAnthropic, BackendLocal}

// Defaults of coaching sessions; times are seconds.
const (
	DefaultConnectTimeout = 10
	DefaultBackendTimeout = 30
	DefaultMaxRetry       = 3
)

// CoachingSessionConfig is the body of PUT /v1/coaching/sessions/{run_id}.
// Start from [NewCoachingSessionConfig], since the zero value has no logs.
type CoachingSessionConfig struct {
	Provider       string            // ProviderLLM (the default) or ProviderHuman
	Backends       []CoachingBackend // in the order in which they are tried; nonempty for ProviderLLM
	Endpoint       string            // http(s) URL; required for ProviderHuman, "" when absent
	ConnectTimeout float64           // seconds, above 0
	CaptureLogs    bool              // false: responses carry no logs
}

// CoachingBackend is one model that a coach can ask.
type CoachingBackend struct {
	Name         string // its key in backends; its index when backends is a list
	Type         string // one of the Backend types
	Endpoint     string // http(s) URL; "" for BackendLocal, which does not use one
	DefaultModel string
	Headers      Headers
	Timeout      float64 // seconds, above 0
	MaxRetry     int64   // tries after the first one, at least 0
}

// NewCoachingSessionConfig returns a configuration with the defaults.
func NewCoachingSessionConfig() *CoachingSessionConfig {
	return &CoachingSessionConfig{Provider: ProviderLLM, ConnectTimeout: DefaultConnectTimeout, CaptureLogs: true}
}

// NewCoachingBackend returns a backend with the defaults.
func NewCoachingBackend(name, typ string) CoachingBackend {
	return CoachingBackend{Name: name, Type: typ, Timeout: DefaultBackendTimeout, MaxRetry: DefaultMaxRetry}
}

var (
	sessionConfigFields = fields{
		optional("backends"), optional("provider"), nullable("endpoint"),
		optional("connect_timeout"), optional("capture_logs"),
	}

	// default_model is required too, unless model replaces it.
	coachingBackendFields = fields{
		required("type"), nullable("endpoint"), optional("default_model"), optional("model"),
		optional("headers"), optional("timeout"), optional("max_retry"),
	}
)

// DecodeCoachingSessionConfig decodes the body of PUT
// /v1/coaching/sessions/{run_id}. The result has the defaults filled in.
func DecodeCoachingSessionConfig(body []byte) (*CoachingSessionConfig, error) {
	return decode(body, (*decoder).sessionConfig)
}

func (d *decoder) sessionConfig() *CoachingSessionConfig {
	c := NewCoachingSessionConfig()
	backendsValid := true
	seen := d.object(sessionConfigFields, func(name string) {
		switch name {
		case "backends":
			before := len(d.problems)
			c.Backends = d.coachingBackends()
			backendsValid = len(d.problems) == before
		case "provider":
			c.Provider = d.literal(ProviderLLM, ProviderHuman)
		case "endpoint":
			if s, ok := d.string(); ok {
				c.Endpoint = s
				d.endpoint(s)
			}
		case "connect_timeout":
			c.ConnectTimeout = d.positive()
		case "capture_logs":
			c.CaptureLogs = d.boolean()
		}
	})
	if d.stopped() || seen == allFields {
		return c
	}
	if c.Provider == ProviderLLM && len(c.Backends) == 0 && backendsValid {
		d.problem(TypeValue, `provider "llm" requires at least one backend`, "backends")
	}
	if c.Provider == ProviderHuman && !seen.has(sessionConfigFields, "endpoint") {
		d.problem(TypeValue, `provider "human" requires an endpoint`, "endpoint")
	}
	return c
}

// coachingBackends reads an object of name to definition, or a list of
// definitions.
func (d *decoder) coachingBackends() (backends []CoachingBackend) {
	if d.kind() == '[' {
		d.array(func(i int) { backends = append(backends, d.coachingBackend(strconv.Itoa(i))) })
		return backends
	}
	d.entries(func(name string) {
		if len(name) > MaxID {
			d.problemf(TypeValue, "has a name of %d bytes; at most %d are allowed", len(name), MaxID)
		}
		backends = append(backends, d.coachingBackend(name))
	})
	return backends
}

func (d *decoder) coachingBackend(name string) CoachingBackend {
	b := NewCoachingBackend(name, "")
	hasEndpoint := false // as a string
	seen := d.object(coachingBackendFields, func(field string) {
		switch field {
		case "type":
			b.Type = d.literal(backendTypes...)
		case "endpoint":
			b.Endpoint, hasEndpoint = d.string()
		case "default_model", "model":
			b.DefaultModel = d.id()
		case "headers":
			b.Headers = d.headers()
		case "timeout":
			b.Timeout = d.positive()
		case "max_retry":
			b.MaxRetry = d.integerMin(0)
		}
	})
	if d.stopped() || seen == allFields {
		return b
	}
	switch {
	case b.Type == BackendLocal:
		b.Endpoint = "" // has no effect, so it is no part of the effective configuration
	case b.Type == "":
	case !seen.has(coachingBackendFields, "endpoint"):
		d.problem(TypeMissing, `field "endpoint" is required; only type "local" needs none`, "endpoint")
	case hasEndpoint:
		d.push(step{name: "endpoint", index: -1})
		d.endpoint(b.Endpoint)
		d.pop()
	}
	preferred, alias := seen.has(coachingBackendFields, "default_model"), seen.has(coachingBackendFields, "model")
	switch {
	case preferred && alias:
		d.problem(TypeValue, "default_model and model mean the same; send one of them", "model")
	case !preferred && !alias:
		d.problem(TypeMissing, `field "default_model" is required`, "default_model")
	}
	return b
}

// endpoint checks the form of an endpoint.
func (d *decoder) endpoint(s string) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		// The endpoint is not quoted, since it may have a password.
		d.problem(TypeValue, "must be an http or https URL with a host, such as https://host/path")
	}
}

// headers reads a map of header names to values that HTTP can carry.
func (d *decoder) headers() Headers {
	headers := make(Headers)
	d.entries(func(name string) {
		value, ok := d.string()
		switch {
		case !ok:
		case isJSONType(name, value):
			return // has no effect, so it is no part of the effective configuration
		case !isHeaderName(name):
			d.problem(TypeValue, "must be a header name: letters, digits and !#$%&'*+-.^_`|~")
		case !isHeaderValue(value):
			d.problem(TypeValue, "must be a header value: one line without control characters")
		}
		headers[name] = value
	})
	if len(headers) == 0 {
		return nil
	}
	return headers
}

// isJSONType reports whether a header is the JSON Content-Type. Configuration files of clients
// often have it, and requests to backends are always JSON.
func isJSONType(name, value string) bool {
	if !strings.EqualFold(name, "Content-Type") || !isHeaderValue(value) {
		return false
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && media == "application/json"
}

func isHeaderName(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !alphanumeric && !slices.Contains([]byte("!#$%&'*+-.^_`|~"), c)
	})
}

func isHeaderValue(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// Seconds converts a number of seconds to a duration. A larger number becomes the longest
// duration. A positive number stays positive, since zero often means no limit.
func Seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	d := time.Duration(s * float64(time.Second))
	if d == 0 && s > 0 {
		return 1
	}
	return d
}

// Equal reports whether two effective configurations are equal. The order of backends matters,
// that of headers does not.
func (c *CoachingSessionConfig) Equal(o *CoachingSessionConfig) bool {
	return c.Provider == o.Provider && c.Endpoint == o.Endpoint &&
		c.ConnectTimeout == o.ConnectTimeout && c.CaptureLogs == o.CaptureLogs &&
		slices.EqualFunc(c.Backends, o.Backends, func(a, b CoachingBackend) bool {
			return a.Name == b.Name && a.Type == b.Type && a.Endpoint == b.Endpoint &&
				a.DefaultModel == b.DefaultModel && a.Timeout == b.Timeout && a.MaxRetry == b.MaxRetry &&
				maps.Equal(a.Headers, b.Headers)
		})
}

// AppendJSON appends the configuration. backends is an object in their order. It omits settings
// with their default, since servers of the contract's first version know only backends and
// capture_logs.
func (c *CoachingSessionConfig) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"backends":{`...)
	for i := range c.Backends {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, c.Backends[i].Name)
		dst = append(dst, ':')
		dst = c.Backends[i].AppendJSON(dst)
	}
	dst = append(dst, '}')
	if c.Provider != ProviderLLM {
		dst = append(dst, `,"provider":`...)
		dst = appendString(dst, c.Provider)
	}
	dst = appendOptionalString(dst, `,"endpoint":`, c.Endpoint)
	if c.ConnectTimeout != DefaultConnectTimeout {
		dst = appendFloat(dst, `,"connect_timeout":`, c.ConnectTimeout)
	}
	dst = appendBool(dst, `,"capture_logs":`, c.CaptureLogs)
	return append(dst, '}')
}

// AppendJSON appends the definition, without its name.
func (b *CoachingBackend) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, b.Type)
	dst = appendOptionalString(dst, `,"endpoint":`, b.Endpoint)
	dst = append(dst, `,"default_model":`...)
	dst = appendString(dst, b.DefaultModel)
	if len(b.Headers) > 0 {
		dst = append(dst, `,"headers":{`...)
		for i, name := range slices.Sorted(maps.Keys(b.Headers)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, name)
			dst = append(dst, ':')
			dst = appendString(dst, b.Headers[name])
		}
		dst = append(dst, '}')
	}
	dst = appendFloat(dst, `,"timeout":`, b.Timeout)
	dst = appendInt(dst, `,"max_retry":`, b.MaxRetry)
	return append(dst, '}')
}
