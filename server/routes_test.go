package server

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"agentd/protocol"
)

func TestEachRouteIsInTheDocuments(t *testing.T) {
	s := newTest(t, Ready, echo, func(o *Options) { o.Completions = true })
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## 2. Endpoints\n")
	table, _, _ = strings.Cut(table, "\n### ")
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(protocol.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, r := range s.router.Routes() {
		path := strings.NewReplacer(":run_id", "{run_id}", ":name", "{name}").Replace(r.Path)
		if r.Method == http.MethodHead || isPage(path) || strings.HasPrefix(path, pathMagma+"/") {
			continue
		}
		served[r.Method+" "+path] = true
		if doc.Paths[path][strings.ToLower(r.Method)] == nil {
			t.Errorf("openapi.json lacks %s %s", r.Method, path)
		}
		if !strings.Contains(table, "`"+r.Method+" "+path+"`") {
			t.Errorf("section 2 of docs/protocol.md lacks %s %s", r.Method, path)
		}
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if name := strings.ToUpper(method) + " " + path; method != "servers" && method != "parameters" && !served[name] {
				t.Errorf("openapi.json has %s, which is not served", name)
			}
		}
	}
	if len(served) < 15 {
		t.Errorf("only %d routes: %v", len(served), served)
	}
}

// The body is that of client.responses.create(model=..., input=..., instructions=..., tools=[...]) of OpenAI's package.
func TestBodyOfOpenAIsResponsesIsToldTheOtherPath(t *testing.T) {
	s := newTest(t, Ready, echo)
	w := request{method: "POST", path: "/v1/responses", body: `{"input":[{"role":"user","content":"Hello."}],"instructions":"Be short.","model":"gpt-5","tools":[{"type":"function","name":"go","parameters":{"type":"object"},"strict":true}]}`}.do(t, s)
	var answer struct {
		Detail []struct{ Type, Msg string }
		Error  struct{ Message, Type string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 422 || len(answer.Detail) != 1 {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	if first := answer.Detail[0].Msg; !strings.Contains(first, "agent server protocol") || !strings.Contains(first, "/v1/chat/completions") ||
		!strings.Contains(first, `setOpenAIAPI("chat_completions")`) || !strings.Contains(first, "useResponsesApi: false") {
		t.Errorf("first: %s", first)
	} else if answer.Error.Message != first || answer.Error.Type != "invalid_request_error" {
		t.Errorf("OpenAI's clients show %q, want %q", answer.Error, first)
	}
	w = request{method: "POST", path: "/v1/responses", body: `{"request_id":"r","inputs":[],"input":"x"}`}.do(t, s)
	if strings.Contains(w.Body.String(), "OpenAI") {
		t.Errorf("a body of the protocol is told the other path: %s", w.Body)
	}
}

// TestErrorsOfOpenAIsPathsHaveBothForms: OpenAI's clients show error.message only. Other paths have the protocol's form alone.
func TestErrorsOfOpenAIsPathsHaveBothForms(t *testing.T) {
	open := newTest(t, Ready, echo)
	closed := newTest(t, Ready, echo, func(o *Options) { o.Tokens = []string{"a-token"}; o.Completions = true })
	for name, test := range map[string]struct {
		s            *Server
		method, path string
		status       int
		both         bool
	}{
		"a path of OpenAI that is not served": {open, "POST", "/v1/embeddings", 404, true},
		"a model":                             {open, "GET", "/v1/models/any", 404, true},
		"a chat without a token":              {closed, "POST", "/v1/chat/completions", 401, true},
		"a list of models without a token":    {closed, "GET", "/v1/models", 401, true},
		"another method":                      {closed, "GET", "/v1/chat/completions", 401, true},
		"a base URL without /v1":              {open, "POST", "/chat/completions", 404, true},
		"a base URL with /v1 twice":           {open, "POST", "/v1/v1/chat/completions", 404, true},
		"Responses at a base URL without /v1": {open, "POST", "/responses", 404, true},
		"Responses at a base URL with two":    {open, "POST", "/v1/v1/responses", 404, true},
		"an unknown path":                     {open, "GET", "/nothing", 404, false},
		"a file of the page, not there":       {closed, "GET", "/assets/none.js", 404, false},
		"an unknown path below /v1":           {open, "GET", "/v1/nothing", 404, false},
		"another method of inference":         {open, "GET", "/v1/responses", 405, false},
		"another method of a chat":            {open, "PUT", "/v1/chat/completions", 404, true},
		"inference without a token":           {closed, "POST", "/v1/responses", 401, false},
	} {
		w := request{method: test.method, path: test.path}.do(t, test.s)
		var answer struct {
			Detail string
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != test.status || answer.Detail == "" || (answer.Error != nil) != test.both {
			t.Errorf("%s: %d, %v: %s", name, w.Code, err, w.Body)
		} else if test.both && answer.Error.Message != answer.Detail {
			t.Errorf("%s: OpenAI's clients show %q, want %q", name, answer.Error.Message, answer.Detail)
		} else if wrong := strings.Contains(name, "base URL"); strings.Contains(answer.Detail, "ends with one /v1") != wrong {
			t.Errorf("%s: %q", name, answer.Detail)
		}
	}
}
