package protocol

import (
	"bytes"
	"maps"
	"math"
	"mime"
	"net/url"
	"reflect"
	"regexp"
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
	BackendLocal     = "local"     // the model of the agent server; needs no endpoint
)

var backendTypes = []string{BackendOllama, BackendOpenAI, BackendAnthropic, BackendLocal}

// Defaults of coaching sessions; times are seconds.
const (
	DefaultConnectTimeout = 10
	DefaultBackendTimeout = 30
	DefaultMaxRetry       = 3
)

// CoachingSessionConfig is the body of PUT /v1/coaching/sessions/{run_id}. See [NewCoachingSessionConfig].
type CoachingSessionConfig struct {
	Backends       CoachingBackends `wire:"backends,always"` // nonempty for ProviderLLM
	Provider       string           `wire:"provider,oneof=llm|human"`
	Endpoint       string           `wire:"endpoint,nullable,url"` // required for ProviderHuman, "" when absent
	ConnectTimeout float64          `wire:"connect_timeout"`       // seconds, above 0
	CaptureLogs    bool             `wire:"capture_logs,always"`   // false: responses carry no logs
}

// CoachingBackends are the models of a session in order; in JSON an object of definitions by name, or a list.
type CoachingBackends []CoachingBackend

// CoachingBackend is one model that a coach can ask.
type CoachingBackend struct {
	Name         string   // its key in backends; its index when backends is a list
	Type         string   `wire:"type,required,oneof=ollama|openai|anthropic|local"`
	Endpoint     string   `wire:"endpoint,nullable"`       // http(s) URL; "" for BackendLocal, which does not use one
	DefaultModel string   `wire:"default_model,always,id"` // required unless the JSON has model, its other name
	_            struct{} `wire:"model"`
	Headers      Headers  `wire:"headers"`
	Timeout      float64  `wire:"timeout,always"`           // seconds, above 0
	MaxRetry     int64    `wire:"max_retry,always,least=0"` // retries after the first try
}

func (c *CoachingSessionConfig) setDefaults() {
	c.Provider, c.ConnectTimeout, c.CaptureLogs = ProviderLLM, DefaultConnectTimeout, true
}

func (b *CoachingBackend) setDefaults() {
	b.Timeout, b.MaxRetry = DefaultBackendTimeout, DefaultMaxRetry
}

// NewCoachingSessionConfig returns a configuration with the defaults.
func NewCoachingSessionConfig() *CoachingSessionConfig {
	c := new(CoachingSessionConfig)
	c.setDefaults()
	return c
}

// NewCoachingBackend returns a backend with the defaults.
func NewCoachingBackend(name, typ string) CoachingBackend {
	b := CoachingBackend{Name: name, Type: typ}
	b.setDefaults()
	return b
}

// DecodeCoachingSessionConfig decodes a configuration and fills in the defaults.
func DecodeCoachingSessionConfig(body []byte) (*CoachingSessionConfig, error) {
	return decode[CoachingSessionConfig](body, MaxDepth)
}

func (c *CoachingSessionConfig) check(problem report, p presence) {
	if c.Provider == ProviderLLM && len(c.Backends) == 0 && (p.valid("backends") || !p.has("backends")) {
		problem(TypeValue, `provider "llm" requires at least one backend`, "backends")
	}
	if c.Provider == ProviderHuman && !p.has("endpoint") {
		problem(TypeValue, `provider "human" requires an endpoint`, "endpoint")
	}
}

func (b *CoachingBackends) read(d *decoder) {
	if d.kind() == '[' {
		d.list(reflect.ValueOf(b).Elem(), &anything)
		for i := range *b {
			(*b)[i].Name = strconv.Itoa(i)
		}
		return
	}
	d.entries(func(name string) {
		if len(name) > MaxID {
			d.problemf(TypeValue, "has a name of %d bytes; at most %d are allowed", len(name), MaxID)
		}
		one := readModel[CoachingBackend](d)
		one.Name = name
		*b = append(*b, *one)
	})
}

func (b *CoachingBackends) write(s *sink) {
	names := make([]string, len(*b))
	for i := range *b {
		names[i] = (*b)[i].Name
	}
	s.object(names, func(i int) { s.value(&(*b)[i]) })
}

// readOther reads model, another name of default_model.
func (b *CoachingBackend) readOther(d *decoder, _ string) {
	b.DefaultModel, _ = d.string(&rule{nonempty: true, id: true})
}

func (b *CoachingBackend) check(problem report, p presence) {
	switch {
	case b.Type == BackendLocal:
		b.Endpoint = "" // has no effect, so it is not in the effective configuration
	case b.Type == "":
	case !p.has("endpoint"):
		problem(TypeMissing, `field "endpoint" is required; only type "local" needs none`, "endpoint")
	case p.valid("endpoint"):
		checkEndpoint(b.Endpoint, problem, "endpoint")
	}
	switch preferred, alias := p.has("default_model"), p.has("model"); {
	case preferred && alias:
		problem(TypeValue, "default_model and model mean the same; send one of them", "model")
	case !preferred && !alias:
		problem(TypeMissing, `field "default_model" is required`, "default_model")
	}
}

func checkEndpoint(s string, problem report, at ...any) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		// The endpoint is not quoted, since it may have a password.
		problem(TypeValue, "must be an http or https URL with a host, such as https://host/path", at...)
	}
}

// read reads a map of header names to values that HTTP can carry.
func (h *Headers) read(d *decoder) {
	d.entries(func(name string) {
		value, ok := d.string(&anything)
		switch {
		case !ok:
		case isJSONType(name, value):
			return // has no effect, so it is not in the effective configuration
		case !IsHeaderName(name):
			d.problem(TypeValue, "must be a header name: letters, digits and !#$%&'*+-.^_`|~")
		case !isHeaderValue(value):
			d.problem(TypeValue, "must be a header value: one line without control characters")
		}
		if *h == nil {
			*h = make(Headers)
		}
		(*h)[name] = value
	})
}

func (h *Headers) write(s *sink) {
	names := slices.Sorted(maps.Keys(*h))
	s.object(names, func(i int) { s.text((*h)[names[i]]) })
}

// isJSONType reports whether a header is the JSON Content-Type, which clients' configurations often have.
func isJSONType(name, value string) bool {
	if !strings.EqualFold(name, "Content-Type") || !isHeaderValue(value) {
		return false
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && media == "application/json"
}

var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")

// IsHeaderName reports whether a text can be the name of an HTTP header.
func IsHeaderName(s string) bool { return headerName.MatchString(s) }

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

// Equal compares effective configurations. The order of backends matters, that of headers does not.
func (c *CoachingSessionConfig) Equal(o *CoachingSessionConfig) bool {
	return bytes.Equal(c.AppendJSON(nil), o.AppendJSON(nil))
}
