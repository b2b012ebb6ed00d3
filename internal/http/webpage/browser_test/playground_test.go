package browser

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"agentd/protocol"
)

// below is a proxy that serves a URL below a path, and passes the host name on or not.
func below(t *testing.T, to, path string, passHost bool) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if passHost {
			r.Out.Host = r.In.Host
		}
	}}
	s := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(path, "/"), proxy))
	t.Cleanup(s.Close)
	return s.URL + path
}

func TestPagesWorkBelowAPathOfAProxy(t *testing.T) {
	for name, passHost := range map[string]bool{"host passed on": true, "another host": false} {
		t.Run(name, func(t *testing.T) {
			g := newPerson(t).open(below(t, newPlayground(t), "/sim/agentd/", passHost), 1300, 900)
			g.shows("ready")
			g.press("Decide")
			g.showsIn("#candidates", "Candidate 4")
			if color := eval[string](g, `getComputedStyle(document.querySelector("button.main")).backgroundColor`); color == "rgba(0, 0, 0, 0)" {
				t.Error("the page has no style")
			}
			if links := eval[[]string](g, `all("nav a").slice(0, 2).map(a => new URL(a.href).pathname)`); links[0] != "/sim/agentd/metrics" || links[1] != "/sim/agentd/openapi.json" {
				t.Errorf("links to %q", links)
			}
			g.until(`Object.assign(navigator.clipboard, { writeText: async (text) => { window.copied = text; } }) && true`)
			g.press("Copy as curl")
			g.until(`window.copied?.includes("/sim/agentd/v1/responses'")`)
		})
	}
}

func TestConsoleWorksBelowAPathOfAProxy(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(below(t, h.url, "/people/", true), 1300, 900)
	g.shows("Nothing waits for you")
	g.shows("/people/v1/coaching/requests")
	h.post("foreign.json")
	g.until(`all(".queue-link").length === 1`) // by the stream of events
	g.claim("Ada")
}

// echo answers with the arguments of the tool's enum, and says what follows "say ".
type echo struct{ decider }

func (e echo) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	outs, err := e.decider.Decide(ctx, req)
	for i := range outs {
		if say, ok := strings.CutPrefix(req.Inputs[0].Instruction.Content, "say "); ok {
			outs[i].Output = &protocol.AgentDecision{Say: say}
			continue
		}
		var tool struct {
			Parameters struct {
				Properties struct {
					Door struct{ Enum []json.RawMessage }
				}
			}
		}
		if len(req.Inputs[0].Tools) > 0 && json.Unmarshal(req.Inputs[0].Tools[0], &tool) == nil && len(tool.Parameters.Properties.Door.Enum) > 0 {
			door := string(tool.Parameters.Properties.Door.Enum[0])
			outs[i].Output.ToolCalls[0].Arguments = protocol.Raw(`{"door":` + door + `,"angle":1.0}`)
		}
	}
	return outs, err
}

func TestPlaygroundKeepsNumbersAsTheyAreWritten(t *testing.T) {
	g := newPerson(t).open(serve(t, echo{}), 1300, 900)
	g.write("Tools, a JSON list", `[{"name": "unlock", "parameters": {"type": "object", "properties": {"door": {"enum": [9007199254740993]}}}}]`)
	g.press("Decide")
	for _, number := range []string{"9007199254740993", "1.0"} {
		g.showsIn("#candidates", number)
	}
	g.press("Answer as JSON")
	g.showsIn("#raw pre", `"door": 9007199254740993, "angle": 1.0`)
	g.until(`Object.assign(navigator.clipboard, { writeText: async (text) => { window.copied = text; } }) && true`)
	g.press("Copy as Python")
	g.until(`window.copied?.includes("[9007199254740993]")`)
}

func TestPlaygroundWorksWithoutStorageAndClipboard(t *testing.T) {
	p := newPerson(t)
	g := p.open("about:blank", 1300, 900)
	source := `Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("denied", "SecurityError"); } });
		Object.defineProperty(Navigator.prototype, "clipboard", { get() { return undefined; } });`
	if _, err := chromedp.Call(g.ctx, cdp.AddScriptToEvaluateOnNewDocument, cdp.AddScriptToEvaluateOnNewDocumentParams{Source: source}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(g.ctx, chromedp.Navigate(newPlayground(t, "a-token"))); err != nil {
		t.Fatal(err)
	}
	g.shows("ready")
	g.write("Token", "a-token")
	g.press("Decide")
	g.showsIn("#candidates", "Candidate 4")
	g.press("Copy as curl")
	g.shows("Copy by hand")
	g.until(`control("Code to copy by hand") !== undefined || document.querySelector("#code").value.startsWith("curl -s '")`)
}

func TestTextsFromRightToLeftBeginAtTheRight(t *testing.T) {
	g := newPerson(t).open(serve(t, echo{}), 1300, 900)
	g.write("Instruction", "say لا أستطيع أن أفتح الباب، فهو مغلق!")
	g.press("Decide")
	g.showsIn("#candidates", "لا أستطيع")
	g.until(`getComputedStyle(document.querySelector("#candidates p")).direction === "rtl"`)
	g.write("Instruction", "اذهب إلى المطبخ!")
	g.until(`getComputedStyle(document.querySelector("#instruction")).direction === "rtl"`)
}

func TestPlaygroundSaysThatItWaitsAndDropsOldAnswers(t *testing.T) {
	to, err := url.Parse(newPlayground(t))
	if err != nil {
		t.Fatal(err)
	}
	held, broken := make(chan struct{}), false
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			select {
			case <-held:
			case <-r.Context().Done():
			}
			if broken {
				w.WriteHeader(http.StatusBadGateway)
				_, _ = io.WriteString(w, "<html>bad gateway</html>")
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	g := newPerson(t).open(s.URL, 1300, 900)
	g.press("Decide")
	g.showsIn("#summary", "Waiting for the answer")
	held <- struct{}{}
	g.showsIn("#candidates", "Candidate 4")
	g.press("Decide")
	g.showsIn("#summary", "Waiting for the answer")
	g.until(`document.querySelector("#candidates").childElementCount === 0`)
	broken = true
	held <- struct{}{}
	g.showsIn("#problem", "The server answered 502.")
	g.showsIn("#summary", "There is no answer.")
	g.until(`all("#candidates > li").length === 0 && all("details").every(d => d.hidden)`)
}
