package protocol

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clip"
)

// sessionWith is a session with one backend that has these members besides
// type, endpoint and default_model.
func sessionWith(backend string) string {
	if backend != "" {
		backend = "," + backend
	}
	return `{"backends":{"b":{"type":"openai","endpoint":"http://h/v1","default_model":"m"` + backend + `}}}`
}

func TestDecodeCoachingSessionConfigRules(t *testing.T) {
	backend := func(members string) string { return `{"backends":{"b":{` + members + `}}}` }
	checkRules(t, DecodeCoachingSessionConfig, []row{
		{"human with backends", `{"provider":"human","endpoint":"http://h","backends":{"b":{"type":"local","model":"m"}}}`, nil},
		{"llm with an endpoint", strings.Replace(sessionWith(""), "{", `{"endpoint":"http://h",`, 1), nil},
		{"endpoint null", strings.Replace(sessionWith(""), "{", `{"endpoint":null,`, 1), nil},
		{"body not an object", `[]`, problems("dict_type body")},
		{"empty", `{}`, problems("value_error body.backends")},
		{"llm with no backends", `{"backends":{}}`, problems("value_error body.backends")},
		{"llm with an empty list", `{"backends":[]}`, problems("value_error body.backends")},
		{"backends null", `{"backends":null}`, problems("dict_type body.backends")},
		{"backend null", `{"backends":{"b":null}}`, problems("dict_type body.backends.b")},
		{"human without an endpoint", `{"provider":"human"}`, problems("value_error body.endpoint")},
		{"human with a null endpoint", `{"provider":"human","endpoint":null}`, problems("value_error body.endpoint")},
		{"human with an empty endpoint", `{"provider":"human","endpoint":""}`, problems("value_error body.endpoint")},
		{"endpoint of another scheme", `{"provider":"human","endpoint":"ftp://h"}`, problems("value_error body.endpoint")},
		{"endpoint without a host", `{"provider":"human","endpoint":"http:///x"}`, problems("value_error body.endpoint")},
		{"provider unknown", `{"provider":"robot"}`, problems("literal_error body.provider")},
		{"provider null", strings.Replace(sessionWith(""), "{", `{"provider":null,`, 1), problems("string_type body.provider")},
		{"unknown field", strings.Replace(sessionWith(""), "{", `{"x":1,`, 1), problems("extra_forbidden body.x")},

		{"connect_timeout an integer", strings.Replace(sessionWith(""), "{", `{"connect_timeout":1,`, 1), nil},
		{"connect_timeout a fraction", strings.Replace(sessionWith(""), "{", `{"connect_timeout":0.5,`, 1), nil},
		{"connect_timeout zero", strings.Replace(sessionWith(""), "{", `{"connect_timeout":0,`, 1), problems("greater_than body.connect_timeout")},
		{"connect_timeout -0.0", strings.Replace(sessionWith(""), "{", `{"connect_timeout":-0.0,`, 1), problems("greater_than body.connect_timeout")},
		{"connect_timeout negative", strings.Replace(sessionWith(""), "{", `{"connect_timeout":-1e3,`, 1), problems("greater_than body.connect_timeout")},
		{"connect_timeout a string", strings.Replace(sessionWith(""), "{", `{"connect_timeout":"1",`, 1), problems("float_type body.connect_timeout")},
		{"connect_timeout true", strings.Replace(sessionWith(""), "{", `{"connect_timeout":true,`, 1), problems("float_type body.connect_timeout")},
		{"connect_timeout null", strings.Replace(sessionWith(""), "{", `{"connect_timeout":null,`, 1), problems("float_type body.connect_timeout")},
		{"connect_timeout beyond floats", strings.Replace(sessionWith(""), "{", `{"connect_timeout":1e400,`, 1), problems("finite_number body.connect_timeout")},
		{"capture_logs false", strings.Replace(sessionWith(""), "{", `{"capture_logs":false,`, 1), nil},
		{"capture_logs 0", strings.Replace(sessionWith(""), "{", `{"capture_logs":0,`, 1), problems("bool_type body.capture_logs")},
		{"capture_logs null", strings.Replace(sessionWith(""), "{", `{"capture_logs":null,`, 1), problems("bool_type body.capture_logs")},

		{"backend with everything", sessionWith(`"headers":{"Authorization":"Bearer x"},"timeout":2.5,"max_retry":0`), nil},
		{"the JSON content type", sessionWith(`"headers":{"Content-Type":"application/json"}`), nil},
		{"backend empty", backend(``), problems("missing body.backends.b.type", "missing body.backends.b.default_model")},
		{"backend type unknown", backend(`"type":"vllm","endpoint":"http://h","default_model":"m"`), problems("literal_error body.backends.b.type")},
		{"backend without an endpoint", backend(`"type":"ollama","default_model":"m"`), problems("missing body.backends.b.endpoint")},
		{"backend with a null endpoint", backend(`"type":"ollama","default_model":"m","endpoint":null`), problems("missing body.backends.b.endpoint")},
		{"backend endpoint not a URL", backend(`"type":"ollama","default_model":"m","endpoint":"localhost:11434"`), problems("value_error body.backends.b.endpoint")},
		{"backend endpoint not a string", backend(`"type":"ollama","default_model":"m","endpoint":1`), problems("string_type body.backends.b.endpoint")},
		{"every backend is checked", `{"backends":{"a":{"type":"ollama","default_model":"m","endpoint":1},"b":{"type":"ollama","default_model":"m","endpoint":"x"}}}`,
			problems("string_type body.backends.a.endpoint", "value_error body.backends.b.endpoint")},
		{"local without an endpoint", backend(`"type":"local","default_model":"m"`), nil},
		{"local with any endpoint", backend(`"type":"local","default_model":"m","endpoint":""`), nil},
		{"anthropic", backend(`"type":"anthropic","default_model":"m","endpoint":"https://h"`), nil},
		{"model for default_model", backend(`"type":"local","model":"m"`), nil},
		{"no model", backend(`"type":"local"`), problems("missing body.backends.b.default_model")},
		{"default_model empty", backend(`"type":"local","default_model":""`), problems("string_too_short body.backends.b.default_model")},
		{"a long default_model", backend(`"type":"local","default_model":"` + strings.Repeat("m", MaxID) + `"`), nil},
		{"a longer default_model", backend(`"type":"local","default_model":"` + strings.Repeat("m", MaxID+1) + `"`), problems("value_error body.backends.b.default_model")},
		{"a longer name", `{"backends":{"` + strings.Repeat("b", MaxID+1) + `":{"type":"local","default_model":"m"}}}`, problems("value_error body.backends." + clip.Text(strings.Repeat("b", MaxID+1), maxLocName))},
		{"two models", backend(`"type":"local","model":"m","default_model":"m"`), problems("value_error body.backends.b.model")},
		{"default_model null", backend(`"type":"local","default_model":null`), problems("string_type body.backends.b.default_model")},
		{"timeout zero", sessionWith(`"timeout":0`), problems("greater_than body.backends.b.timeout")},
		{"max_retry negative", sessionWith(`"max_retry":-1`), problems("greater_than_equal body.backends.b.max_retry")},
		{"max_retry 1.0", sessionWith(`"max_retry":1.0`), problems("int_type body.backends.b.max_retry")},
		{"headers null", sessionWith(`"headers":null`), problems("dict_type body.backends.b.headers")},
		{"header value not a string", sessionWith(`"headers":{"A":1}`), problems("string_type body.backends.b.headers.A")},
		{"header name with a space", sessionWith(`"headers":{"A B":"x"}`), problems("value_error body.backends.b.headers.A B")},
		{"header name empty", sessionWith(`"headers":{"":"x"}`), problems("value_error body.backends.b.headers.")},
		{"header value with a line break", sessionWith(`"headers":{"A":"x\r\nB: y"}`), problems("value_error body.backends.b.headers.A")},
		{"list with an invalid backend", `{"backends":[{"type":"local","model":"a"},{"type":1,"model":"b"}]}`, problems("string_type body.backends[1].type")},
	})
}

func TestUnknownBackendTypeListsTheTypes(t *testing.T) {
	_, err := DecodeCoachingSessionConfig([]byte(`{"backends":{"b":{"type":"vllm","endpoint":"http://h","default_model":"m"}}}`))
	for _, typ := range backendTypes {
		if err == nil || !strings.Contains(err.Error(), typ) {
			t.Errorf("%v does not list %s", err, typ)
		}
	}
}

func TestProblemsDoNotQuoteEndpoints(t *testing.T) {
	_, err := DecodeCoachingSessionConfig([]byte(`{"provider":"human","endpoint":"http://u:secret@[::1"}`))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("problems are %v", err)
	}
}

func TestCoachingSessionConfigIsEffective(t *testing.T) {
	got, err := DecodeCoachingSessionConfig([]byte(`{"backends":[{"type":"openai","endpoint":"http://h","model":"m"},{"type":"local","model":"l","endpoint":"http://unused"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &CoachingSessionConfig{
		Provider: "llm", ConnectTimeout: 10, CaptureLogs: true,
		Backends: []CoachingBackend{
			{Name: "0", Type: "openai", Endpoint: "http://h", DefaultModel: "m", Timeout: 30, MaxRetry: 3},
			{Name: "1", Type: "local", DefaultModel: "l", Timeout: 30, MaxRetry: 3},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCoachingSessionConfigEqual(t *testing.T) {
	const base = `{"backends":{"a":{"type":"ollama","endpoint":"http://a","default_model":"m","headers":{"X":"1","Y":"2"}},"b":{"type":"local","model":"m"}}}`
	for _, c := range []struct {
		name, other string
		equal       bool
	}{
		{"another order of keys", `{"backends":{"a":{"default_model":"m","headers":{"Y":"2","X":"1"},"endpoint":"http://a","type":"ollama","timeout":3e1,"max_retry":3},"b":{"model":"m","type":"local"}}}`, true},
		{"another order of backends", `{"backends":{"b":{"type":"local","model":"m"},"a":{"type":"ollama","endpoint":"http://a","default_model":"m","headers":{"X":"1","Y":"2"}}}}`, false},
		{"another name", strings.Replace(base, `"a":{`, `"c":{`, 1), false},
		{"another header", strings.Replace(base, `"Y":"2"`, `"Y":"3"`, 1), false},
		{"another model", strings.Replace(base, `"model":"m"`, `"model":"n"`, 1), false},
		{"another endpoint", strings.Replace(base, `http://a`, `http://b`, 1), false},
		{"another type", strings.Replace(base, `ollama`, `openai`, 1), false},
		{"another timeout", strings.Replace(base, `"type":"local"`, `"type":"local","timeout":1`, 1), false},
		{"another max_retry", strings.Replace(base, `"type":"local"`, `"type":"local","max_retry":1`, 1), false},
		{"another connect_timeout", `{"connect_timeout":1,` + base[1:], false},
		{"without logs", `{"capture_logs":false,` + base[1:], false},
		{"with an endpoint", `{"endpoint":"http://e",` + base[1:], false},
		{"one backend less", `{"backends":{"a":{"type":"ollama","endpoint":"http://a","default_model":"m","headers":{"X":"1","Y":"2"}}}}`, false},
		{"another provider", `{"provider":"human","endpoint":"http://e",` + base[1:], false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := DecodeCoachingSessionConfig([]byte(base))
			if err != nil {
				t.Fatal(err)
			}
			b, err := DecodeCoachingSessionConfig([]byte(c.other))
			if err != nil {
				t.Fatal(err)
			}
			if a.Equal(b) != c.equal || b.Equal(a) != c.equal {
				t.Errorf("Equal is %v and %v, want %v", a.Equal(b), b.Equal(a), c.equal)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]time.Duration{0: 0, 1e-300: 1, 0.5: 500 * time.Millisecond, 30: 30 * time.Second, 1e300: math.MaxInt64} {
		if got := Seconds(s); got != want {
			t.Errorf("Seconds(%v) = %v, want %v", s, got, want)
		}
	}
}

func TestCoachingSessionConfigEncoding(t *testing.T) {
	human := NewCoachingSessionConfig()
	human.Provider, human.Endpoint, human.ConnectTimeout, human.CaptureLogs = ProviderHuman, "http://h", 0.5, false
	llm := NewCoachingSessionConfig()
	for _, name := range []string{"z", "a"} {
		b := NewCoachingBackend(name, BackendOpenAI)
		b.Endpoint, b.DefaultModel, b.Headers = "http://"+name, "m", map[string]string{"Y": "2", "X": "1"}
		llm.Backends = append(llm.Backends, b)
	}
	for _, c := range []struct {
		cfg  *CoachingSessionConfig
		want string
	}{
		{human, `{"backends":{},"provider":"human","endpoint":"http://h","connect_timeout":0.5,"capture_logs":false}`},
		{llm, `{"backends":{"z":{"type":"openai","endpoint":"http://z","default_model":"m","headers":{"X":"1","Y":"2"},"timeout":30,"max_retry":3},` +
			`"a":{"type":"openai","endpoint":"http://a","default_model":"m","headers":{"X":"1","Y":"2"},"timeout":30,"max_retry":3}},"capture_logs":true}`},
	} {
		got := c.cfg.AppendJSON(nil)
		if string(got) != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		back, err := DecodeCoachingSessionConfig(got)
		if err != nil || !back.Equal(c.cfg) {
			t.Errorf("%s reads back as %+v, %v", got, back, err)
		}
	}
}

// TestJSONContentTypeOfBackendIsIgnored, since clients often configure it and requests are always
// JSON.
func TestJSONContentTypeOfBackendIsIgnored(t *testing.T) {
	plain, err := DecodeCoachingSessionConfig([]byte(sessionWith(`"headers":{"X":"y"}`)))
	if err != nil {
		t.Fatal(err)
	}
	for header, ignored := range map[string]bool{
		`"Content-Type":"application/json"`:                   true,
		`"Content-type":"Application/JSON"`:                   true,
		`"content-type":" application/json ; charset=utf-8"`:  true,
		`"CONTENT-TYPE":"application/json; charset=\"utf8\""`: true,
		`"Content-Type":"application/jsonl"`:                  false,
		`"Content-Type":"application/json, text/plain"`:       false,
		`"Content-Type":"text/plain"`:                         false,
		`"Content-Type":""`:                                   false,
		`"Content_Type":"application/json"`:                   false,
		`"Content-Types":"application/json"`:                  false,
	} {
		got, err := DecodeCoachingSessionConfig([]byte(sessionWith(`"headers":{"X":"y",` + header + `}`)))
		if err != nil {
			t.Fatalf("%s: %v", header, err)
		}
		if got.Equal(plain) != ignored {
			t.Errorf("%s: ignored %t, want %t", header, !ignored, ignored)
		}
	}
	_, err = DecodeCoachingSessionConfig([]byte(sessionWith(`"headers":{"Content-Type":"application/json\n"}`)))
	if err == nil {
		t.Error("a line break is accepted where the header is ignored")
	}
}
