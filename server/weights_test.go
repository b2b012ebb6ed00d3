package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"agentd/protocol"
)

// fakeWeights are weights that change at once, or fail.
type fakeWeights struct {
	inferenceFunc
	cleared int
	info    protocol.Weights
	err     error
	over    chan struct{} // open: paused
}

func (f *fakeWeights) Current(context.Context) (*protocol.Weights, error) { return &f.info, nil }

func (f *fakeWeights) SetModel(_ context.Context, path string) error {
	f.info.Model.Path = path
	return f.err
}

func (f *fakeWeights) SetAdapter(_ context.Context, name, path string) error {
	f.info.Adapters = append(f.info.Adapters, protocol.WeightsFile{Name: name, Path: path, Version: "v"})
	return f.err
}

func (f *fakeWeights) RemoveAdapter(string) error {
	f.info.Adapters = []protocol.WeightsFile{}
	return f.err
}

func (f *fakeWeights) Pause(_ context.Context, mode string) error {
	f.info.Paused = mode
	return f.err
}

func (f *fakeWeights) PauseAgain(ctx context.Context, mode string) error { return f.Pause(ctx, mode) }

func (f *fakeWeights) ClearCache(context.Context) (bool, error) {
	f.cleared++
	return f.info.Paused != "", f.err
}

func (f *fakeWeights) Resume() {
	if f.info.Paused = ""; f.over != nil {
		close(f.over)
		f.over = nil
	}
}

func (f *fakeWeights) Resumed() <-chan struct{} {
	if f.over != nil {
		return f.over
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

const (
	readerToken  = "0123456789abcdef-reader"
	trainerToken = "0123456789abcdef-trainer"
)

// withWeights makes a server of weights and of two tokens, one of which may change them.
func withWeights(t *testing.T, f *fakeWeights) *Server {
	t.Helper()
	f.info = protocol.Weights{Model: protocol.WeightsFile{Path: "m", Version: "v"}, Adapters: []protocol.WeightsFile{{Name: "a", Path: "p", Version: "v"}}}
	s := newTest(t, Loading, nil, func(o *Options) {
		o.Tokens, o.MayChangeWeights = []string{readerToken, trainerToken}, map[string]bool{trainerToken: true}
		o.Completions = true
	})
	s.Ready(f)
	return s
}

func openAPIDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(protocol.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestWeightsAnswersAreInDocument: status and body of every answer.
func TestWeightsAnswersAreInDocument(t *testing.T) {
	doc := openAPIDocument(t)
	const change = `{"model":"m.gguf"}`
	for name, tc := range map[string]struct {
		token, method, path, body string
		err                       error
		status                    int
		want                      string
	}{
		"weights that serve":    {readerToken, "GET", "/v1/weights", "", nil, 200, `{"model":{"path":"m","version":"v"},"adapters":[{"name":"a","path":"p","version":"v"}]}`},
		"no token":              {"", "GET", "/v1/weights", "", nil, 401, "bearer token"},
		"another model":         {trainerToken, "PUT", "/v1/weights", change, nil, 200, `"path":"m.gguf"`},
		"another adapter":       {trainerToken, "PUT", "/v1/weights", `{"adapter":{"name":"b","path":"p"}}`, nil, 200, `"name":"b"`},
		"no right to change":    {readerToken, "PUT", "/v1/weights", change, nil, 403, "NAME+weights:TOKEN"},
		"no right to remove":    {readerToken, "DELETE", "/v1/weights/adapters/a", "", nil, 403, "NAME+weights:TOKEN"},
		"a change in progress":  {trainerToken, "PUT", "/v1/weights", change, &Error{Code: CodeConflict, Detail: "being loaded"}, 409, "being loaded"},
		"a body of no form":     {trainerToken, "PUT", "/v1/weights", `{}`, nil, 422, "one of model and adapter"},
		"an adapter's name":     {trainerToken, "PUT", "/v1/weights", `{"adapter":"rand"}`, nil, 422, "adapter: must be an object, not "},
		"a name with a space":   {trainerToken, "PUT", "/v1/weights", `{"adapter":{"name":"a b","path":"p"}}`, nil, 422, `["body","adapter","name"]`},
		"a file of no use":      {trainerToken, "PUT", "/v1/weights", change, &Error{Code: CodeInvalid, Detail: "no GGUF"}, 422, "no GGUF"},
		"too little memory":     {trainerToken, "PUT", "/v1/weights", change, &Error{Code: CodeNoMemory, Detail: "needs 9 MB"}, 507, "needs 9 MB"},
		"a removed adapter":     {trainerToken, "DELETE", "/v1/weights/adapters/a", "", nil, 200, `"adapters":[]`},
		"an unknown adapter":    {trainerToken, "DELETE", "/v1/weights/adapters/z", "", &Error{Code: CodeNotFound, Detail: "no adapter"}, 404, "no adapter"},
		"a pause":               {trainerToken, "POST", "/v1/pause", `{"mode":"keep"}`, nil, 200, `"paused":"keep"`},
		"a pause of no mode":    {trainerToken, "POST", "/v1/pause", `{"mode":"stop"}`, nil, 422, `must be wait, abort or keep`},
		"a pause without mode":  {trainerToken, "POST", "/v1/pause", `{}`, nil, 422, `["body","mode"]`},
		"a pause of other form": {trainerToken, "POST", "/v1/pause", `{"mode":"keep","for":1}`, nil, 422, `for: unknown field; remove it`},
		"a second pause":        {trainerToken, "POST", "/v1/pause", `{"mode":"keep"}`, &Error{Code: CodeConflict, Detail: "paused already"}, 409, "paused already"},
		"no right to pause":     {readerToken, "POST", "/v1/pause", `{"mode":"keep"}`, nil, 403, "NAME+weights:TOKEN"},
		"a pause that ended":    {trainerToken, "POST", "/v1/pause", `{"mode":"wait"}`, &Error{Code: CodeConflict, Detail: "was ended"}, 409, "was ended"},
		"a resume":              {trainerToken, "POST", "/v1/resume", "", nil, 200, `"adapters":[{"name":"a","path":"p","version":"v"}]}`},
		"no right to resume":    {readerToken, "POST", "/v1/resume", "", nil, 403, "NAME+weights:TOKEN"},
		"an engine that closed": {trainerToken, "DELETE", "/v1/weights/adapters/a", "", &Error{Code: CodeDraining}, 503, "shutting down"},
	} {
		atBoth(t, name, func(t *testing.T, base string) {
			r := request{method: tc.method, path: base + tc.path, body: tc.body}
			if tc.token != "" {
				r.header = map[string]string{"Authorization": "Bearer " + tc.token}
			}
			w := r.do(t, withWeights(t, &fakeWeights{inferenceFunc: echo, err: tc.err}))
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
				t.Fatalf("%d %s, want %d with %s", w.Code, w.Body, tc.status, tc.want)
			}
			path := regexp.MustCompile(`adapters/\w+`).ReplaceAllString(tc.path, "adapters/{name}")
			answer := doc.Paths.Find(path).GetOperation(tc.method).Responses.Status(tc.status)
			if answer == nil {
				t.Fatalf("the document has no status %d", tc.status)
			}
			var v any
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			if err := answer.Value.Content.Get("application/json").Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("the schema refuses %s: %v", w.Body, err)
			}
		})
	}
}

func TestWeightsDecoderAgreesWithDocument(t *testing.T) {
	schema := openAPIDocument(t).Components.Schemas["WeightsChange"].Value
	accepted := 0
	for _, body := range []string{
		`{}`, `{"model":"m"}`, `{"model":""}`, `{"model":1}`, `{"modell":"m"}`, `[]`, `{"adapter":{}}`, `{"adapter":{"name":"a"}}`, `{"adapter":{"path":"p"}}`,
		`{"adapter":{"name":"a","path":"p"}}`, `{"adapter":{"name":"a","path":""}}`, `{"adapter":{"name":"","path":"p"}}`, `{"adapter":{"name":".a","path":"p"}}`,
		`{"adapter":{"name":"a","path":"p","scale":1}}`, `{"model":"m","adapter":{"name":"a","path":"p"}}`, `{"adapter":{"name":"` + strings.Repeat("a", 255) + `","path":"p"}}`,
		`{"adapter":{"name":"` + strings.Repeat("a", 256) + `","path":"p"}}`, `{"adapter":"a"}`,
	} {
		_, decodeErr := decodeWeightsChange([]byte(body))
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		schemaErr := schema.VisitJSON(v, openapi3.EnableJSONSchema2020())
		if (decodeErr == nil) != (schemaErr == nil) {
			t.Errorf("%s:\ndecoder: %v\nschema: %v", body, decodeErr, schemaErr)
		}
		if decodeErr == nil {
			accepted++
		}
	}
	if accepted != 3 {
		t.Errorf("%d bodies were accepted, want 3", accepted)
	}
}

func TestServerWithoutTokensChangesNoWeights(t *testing.T) {
	s := newTest(t, Loading, nil)
	s.Ready(&fakeWeights{inferenceFunc: echo, err: errors.New("not reached")})
	w := request{method: "PUT", path: "/v1/weights", body: `{"model":"m"}`}.do(t, s)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "token file") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
