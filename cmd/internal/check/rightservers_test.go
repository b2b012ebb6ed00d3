package check

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/protocol"
)

// variantOf is a server that is right in another way than ours. send writes an answer.
type variantOf struct {
	name   string
	change func(h *heard, a *httptest.ResponseRecorder)
	send   func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder)
}

// rewritten changes the text of JSON answers.
func rewritten(name string, change func(text string) string) variantOf {
	return variantOf{name: name, change: func(_ *heard, a *httptest.ResponseRecorder) {
		if a.Body.Len() > 0 && json.Valid(a.Body.Bytes()) {
			set(a, a.Code, change(a.Body.String()))
		}
	}}
}

// decidesAlways is a server whose model decides in another way.
func decidesAlways(name string, decide func(in *protocol.AgentInput, o *protocol.AgentOutput)) variantOf {
	d := each(Must, name, func(h *heard, o *protocol.AgentOutput) {
		if o.Output != nil && !h.corrected(o) {
			decide(h.input(o), o)
		}
	})
	return variantOf{name: name, change: d.change}
}

// says makes a reply of a candidate.
func says(o *protocol.AgentOutput, text string) {
	o.Output = &protocol.AgentDecision{Say: text, ToolCalls: []protocol.ToolCall{}}
	remember(o, *o.Output)
	for i := range o.InternalSteps {
		o.InternalSteps[i] = protocol.SetMember(o.InternalSteps[i], "output_raw", protocol.String("<say>"+text+"</say>"))
	}
}

// plainSend sends an answer with its length.
func plainSend(w http.ResponseWriter, _ *http.Request, a *httptest.ResponseRecorder) {
	for name, values := range a.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes())
}

// hijacked sends an answer by hand, with lines of a header and the body; it closes the connection.
func hijacked(version string, extra ...string) func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
	return func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		lines := []string{version + " " + strconv.Itoa(a.Code) + " " + http.StatusText(a.Code)}
		for name := range a.Header() {
			lines = append(lines, strings.ToLower(name)+":"+a.Header().Get(name))
		}
		text := strings.Join(append(lines, extra...), "\r\n") + "\r\n\r\n"
		if r.Method != http.MethodHead {
			text += a.Body.String()
		}
		_, _ = io.WriteString(c, text)
		if t, ok := c.(*net.TCPConn); ok { // else what the client still sends would reset the answer
			_ = t.CloseWrite()
			_ = t.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.Copy(io.Discard, t)
		}
	}
}

// zipTo sends an answer as gzip to clients that take it.
func zipTo(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
	if a.Header().Get("Content-Encoding") != "" || a.Body.Len() == 0 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		plainSend(w, r, a)
		return
	}
	a.Header().Del("Content-Length")
	a.Header().Set("Content-Encoding", "gzip")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(a.Body.Bytes())
	_ = z.Close()
	a.Body = &b
	plainSend(w, r, a)
}

var rightServers = []variantOf{
	{name: "ours"},
	rewritten("JSON with white space", func(text string) string {
		var b bytes.Buffer
		_ = json.Indent(&b, []byte(text), " ", "\t")
		return "\r\n" + b.String() + "\n"
	}),
	rewritten("members in another order", func(text string) string {
		return regexp.MustCompile(`\{("request_id":"(?:\\.|[^"\\])*"),("source_id":-?\d+,"candidate_index":\d+,"status":"[a-z]+"),`).ReplaceAllString(text, `{$2,$1,`)
	}),
	rewritten("other wording of errors", func(text string) string {
		return regexp.MustCompile(`"msg":"(\\.|[^"\\])*"`).ReplaceAllString(text, `"msg":"Das geht nicht."`)
	}),
	rewritten("more in problems", func(text string) string { return strings.ReplaceAll(text, `"loc":`, `"input":null,"loc":`) }),
	rewritten("other sentences of errors", func(text string) string {
		return regexp.MustCompile(`^\{"detail":"(\\.|[^"\\])*"\}$`).ReplaceAllString(text, `{"detail":"No."}`)
	}),
	rewritten("letters as escapes", func(text string) string { return strings.ReplaceAll(text, `"completed"`, `"\u0063ompleted"`) }),
	rewritten("null for what is optional", func(text string) string {
		return strings.ReplaceAll(text, `"status":"completed","memory"`, `"status":"completed","error":null,"memory"`)
	}),
	rewritten("defaults left out", func(text string) string { return strings.ReplaceAll(text, `,"tool_calls":[]}`, `}`) }),
	rewritten("other codes of the model's errors", func(text string) string {
		return strings.ReplaceAll(text, `"component":"scheduler"`, `"component":"model"`)
	}),
	decidesAlways("replies in place of calls", func(_ *protocol.AgentInput, o *protocol.AgentOutput) { says(o, "I can't do that.") }),
	decidesAlways("replies in another script", func(_ *protocol.AgentInput, o *protocol.AgentOutput) { says(o, "我不知道。\n\"¿Qué?\" \\") }),
	decidesAlways("replies that are empty", func(_ *protocol.AgentInput, o *protocol.AgentOutput) { says(o, "") }),
	decidesAlways("an error of the model each time", func(in *protocol.AgentInput, o *protocol.AgentOutput) {
		o.Status, o.Output, o.Memory = protocol.StatusError, nil, in.Memory
		o.Error = &protocol.AgentError{Code: "model_error", Message: "no"}
	}),
	decidesAlways("two calls for two robots", func(in *protocol.AgentInput, o *protocol.AgentOutput) {
		if calls := o.Output.ToolCalls; len(calls) == 1 && strings.Contains(string(in.Attributes), `"rover","arm"`) {
			calls = append(calls, calls[0])
			calls[0].TargetRobotName, calls[1].TargetRobotName = "rover", "arm"
			o.Output.ToolCalls = calls
			remember(o, *o.Output)
		}
	}),
	decidesAlways("tokens in the memory", func(_ *protocol.AgentInput, o *protocol.AgentOutput) {
		o.Memory = protocol.SetMember(o.Memory, "_tokens", protocol.Raw(`{"version":1}`))
	}),
	decidesAlways("two steps", func(_ *protocol.AgentInput, o *protocol.AgentOutput) {
		first := protocol.SetMember(o.InternalSteps[0], "id", protocol.Raw(`"step-00"`))
		o.InternalSteps = append([]protocol.Raw{protocol.SetMember(first, "component", protocol.Raw(`"planner"`))}, o.InternalSteps...)
	}),
	{name: "closes after errors, unannounced", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		if a.Code < 400 {
			plainSend(w, r, a)
			return
		}
		a.Header().Del("Connection")
		hijacked("HTTP/1.1", "Content-Length: "+strconv.Itoa(a.Body.Len()))(w, r, a)
	}},
	{name: "closes after each answer", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		w.Header().Set("Connection", "close")
		plainSend(w, r, a)
	}},
	{name: "HTTP/1.0, lower-case headers", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Del("Content-Length")
		hijacked("HTTP/1.0")(w, r, a)
	}},
	{name: "chunks", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Del("Content-Length")
		body := a.Body.Bytes()
		a.Body = nil
		for name, values := range a.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(a.Code)
		for len(body) > 0 {
			n := min(1000, len(body))
			_, _ = w.Write(body[:n])
			_ = http.NewResponseController(w).Flush()
			body = body[n:]
		}
	}},
	{name: "gzip of everything", send: zipTo},
	{name: "no gzip", change: nil, send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) { plainSend(w, r, a) }},
	{name: "another type of JSON", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		if a.Header().Get("Content-Type") == "application/json" {
			a.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		plainSend(w, r, a)
	}},
	{name: "more headers", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Server", "other/1.0")
		plainSend(w, r, a)
	}},
	{name: "slow", send: func(w http.ResponseWriter, r *http.Request, a *httptest.ResponseRecorder) {
		time.Sleep(3 * time.Millisecond)
		plainSend(w, r, a)
	}},
}

// serve is the server.
func (v *variantOf) serve(right http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h := &heard{r: r, body: string(body)}
		if r.URL.Path == responses && len(body) < 1<<20 {
			h.req, _ = protocol.DecodeAgentRequest(body)
		}
		if v.name == "no gzip" || v.change != nil {
			r.Header.Del("Accept-Encoding")
		}
		a := httptest.NewRecorder()
		right.ServeHTTP(a, r)
		if v.change != nil && r.Method != http.MethodHead {
			v.change(h, a)
		}
		if v.send == nil {
			plainSend(w, r, a)
		} else {
			v.send(w, r, a)
		}
	})
}

// start starts the server and returns its URL.
func (v *variantOf) start(t *testing.T) string {
	s := httptest.NewServer(v.serve(rightServer(t, false)))
	t.Cleanup(s.Close)
	return s.URL
}
