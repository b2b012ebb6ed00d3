package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// New returns the backend of a definition. It contacts nobody.
func New(def protocol.CoachingBackend, o Options) (Backend, error) {
	r := &remote{name: def.Name, typ: def.Type, model: def.DefaultModel}
	switch def.Type {
	case protocol.BackendLocal:
		if o.Local == nil {
			return nil, fmt.Errorf("backend %q: type %q is this server's own model, and none is loaded", def.Name, def.Type)
		}
		return &local{model: o.Local, name: def.Name, shown: def.DefaultModel, keys: o.Redactor}, nil
	case protocol.BackendOpenAI, protocol.BackendOllama:
		r.try, r.modes.modes = r.tryChat, []string{ModeSchema, ModeTool, ModeText}
	case protocol.BackendAnthropic:
		r.try, r.modes.modes = r.tryClaude, []string{ModeTool, ModeText}
	default:
		return nil, fmt.Errorf("backend %q: type %q is unknown: use %s, %s, %s or %s", def.Name, def.Type,
			protocol.BackendOpenAI, protocol.BackendOllama, protocol.BackendAnthropic, protocol.BackendLocal)
	}
	var err error
	if r.wire, err = newWire(def, o); err != nil {
		return nil, fmt.Errorf("backend %q: %w", def.Name, err)
	}
	if def.Type == protocol.BackendOllama && strings.HasSuffix(strings.TrimRight(r.endpoint.Path, "/"), ollamaChat) {
		// It takes Ollama's own bodies rather than chat completions. Its tools are only ever offered, never required.
		r.try, r.modes.modes = r.tryOllama, []string{ModeSchema, ModeText}
	}
	return r, nil
}

// remote is a backend at an endpoint.
type remote struct {
	*wire
	modes    modeFallback
	try      func(ctx context.Context, q Question, mode string) (Answer, error) // one call; errors as Ask's
	name     string
	typ      string
	model    string
	newLimit atomic.Bool // the endpoint wants newLimitParam
}

func (r *remote) Name() string { return r.name }
func (r *remote) Type() string { return r.typ }
func (r *remote) Budget() int  { return 0 }

func (r *remote) Describe() string {
	return r.show(fmt.Sprintf("%s (%s, %s at %s)", r.name, r.typ, r.model, egress.SafeURL(r.endpoint.String())), maxDetail)
}

func (r *remote) Ask(ctx context.Context, q Question) (Answer, error) {
	a, err := r.modes.ask(ctx, func(mode string) (Answer, error) { return r.try(ctx, q, mode) })
	if err != nil {
		return Answer{}, err
	}
	if a.Model = r.show(a.Model, maxShownName); a.Model == "" {
		a.Model = r.model
	}
	return a, nil
}

// ollamaChat ends the path of an endpoint that speaks Ollama's own API.
const ollamaChat = "/api/chat"

// wholePaths end the paths of complete endpoints. Any other endpoint is a base.
var wholePaths = []string{"/chat/completions", ollamaChat, "/messages"}

// basePaths complete a base, by type.
var basePaths = map[string]string{
	protocol.BackendOpenAI:    "/chat/completions",
	protocol.BackendOllama:    "/v1/chat/completions",
	protocol.BackendAnthropic: "/v1/messages",
}

// resolveEndpoint returns the URL for requests of a type. It keeps the query, where some services take the API version.
func resolveEndpoint(typ, endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// The parser's error repeats the URL, and with it a password.
		return nil, fmt.Errorf("endpoint %q is not a URL: use http://host/path or https://host/path", egress.SafeURL(endpoint))
	}
	u.Fragment, u.RawFragment = "", ""
	path := strings.TrimRight(u.Path, "/")
	if slices.ContainsFunc(wholePaths, func(whole string) bool { return strings.HasSuffix(path, whole) }) {
		return u, nil
	}
	rest := basePaths[typ]
	if strings.HasSuffix(path, "/v1") {
		// People often include the version in the base. No server has /v1/v1.
		rest = strings.TrimPrefix(rest, "/v1")
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would make a path without its slash, which prints well and is a bad request
	}
	return u.JoinPath(rest), nil
}

// modeFallback holds the output modes of a backend, the strictest first. What an endpoint supports shows only when it
// is asked. A refusal leads to the next mode, and later questions begin with the mode that worked.
type modeFallback struct {
	modes []string
	first atomic.Int32 // index into modes; only rises
}

// ask tries the modes from the first that may work. All of them are one try, since a refusal comes at once.
func (f *modeFallback) ask(ctx context.Context, try func(mode string) (Answer, error)) (Answer, error) {
	for i := int(f.first.Load()); ; i++ {
		a, err := try(f.modes[i])
		switch {
		case err == nil:
			f.keep(i, a)
			return a, nil
		case ctx.Err() != nil || i == len(f.modes)-1 || !refusesMode(err):
			// The error of the plainest request is the most useful.
			return Answer{}, err
		}
	}
}

// keep remembers that mode i led to answer a.
func (f *modeFallback) keep(i int, a Answer) {
	if a.Mode != f.modes[i] && i < len(f.modes)-1 {
		i++ // accepted, but ignored
	}
	for {
		first := f.first.Load()
		if int32(i) <= first || f.first.CompareAndSwap(first, int32(i)) {
			return
		}
	}
}

// refusesMode reports whether an error may be about the output mode. Endpoints use different statuses for that, so all
// of them count. If the error is about something else, one more request costs little.
func refusesMode(err error) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented}, e.Status)
}

// schemaMode is the mode of an answer. One that was asked for with ModeSchema and is not JSON shows that the endpoint
// ignores the schema.
func schemaMode(mode, text string) string {
	if mode == ModeSchema && json.Valid([]byte(text)) {
		return ModeSchema
	}
	return ModeText
}

// system is the system text of a question. With ModeText it holds the schema.
func system(q Question, mode string) string {
	if mode != ModeText {
		return q.System
	}
	return strings.TrimSpace(q.System + "\n\nAnswer with one JSON object in a ```json fence. It must fit this JSON Schema:\n\n```json\n" +
		string(q.Schema) + "\n```")
}

// maxTokens is the limit on the answer of a question.
func maxTokens(q Question) int {
	return cmp.Or(max(q.MaxTokens, 0), DefaultMaxTokens)
}
