package check

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"agentd/internal/base/clip"
	"agentd/protocol"
)

// kit is a server that is judged.
type kit struct {
	config    Config
	base      string // URL without a slash at its end
	transport *http.Transport
	single    *http.Transport // of requests over new connections
	have      map[need]bool
	coach     *coach
	load      *load
	cache     map[string]*exchange
	broken    map[string]breach // of laws; an answer that obeys one has none
	info      info
}

func (k *kit) close() {
	k.load.end()
	_ = k.coach.server.Close()
	k.transport.CloseIdleConnections()
	k.single.CloseIdleConnections()
}

// probe is a rule that is applied.
type probe struct {
	ctx   context.Context
	kit   *kit
	rule  *rule
	crowd bool // requests are sent at once

	mu       sync.Mutex
	last     *exchange // what a report shows
	sessions []string  // paths of coaching sessions, which are closed at the end
}

// In texts these stand for the id of the rule that sends them, and for the run of its sessions.
const (
	ruleName = "RULE"
	runName  = "RUNID"
)

// runOf is the run of a rule. It has no slash, which some servers can't read in a path.
func runOf(id string) string { return strings.ReplaceAll(id, "/", "-") }

// text is a body: head, then unit n times, then tail. In the unit # is its number, from 1.
type text struct {
	head, unit string
	n          int
	tail       string
}

func (t text) String() string {
	var b strings.Builder
	b.Grow(len(t.head) + t.n*(len(t.unit)+len(strconv.Itoa(t.n))) + len(t.tail))
	b.WriteString(t.head)
	for i := range t.n {
		b.WriteString(strings.ReplaceAll(t.unit, "#", strconv.Itoa(i+1)))
	}
	b.WriteString(t.tail)
	return b.String()
}

// shell is a command that prints the body.
func (t text) shell() string {
	unit := strings.NewReplacer("&", `\&`, "#", "&").Replace(t.unit)
	return fmt.Sprintf("{ printf %%s %s; seq %d | sed %s | tr -d '\\n'; printf %%s %s; }",
		quote(t.head), t.n, quote("s~.*~"+unit+"~"), quote(t.tail))
}

// request is what a rule sends.
type request struct {
	method, path string
	header       []string // "Name: value"; the Content-Type of a body is added
	text         text
	anonymous    bool   // without the token
	shared       string // rules with the same word share one answer
	chunked      bool   // the body is sent in chunks
	fresh        bool   // over a new connection
	old          bool   // HTTP/1.0
}

func get(path string, header ...string) request {
	return request{method: http.MethodGet, path: path, header: header}
}

// post sends a body to /v1/responses.
func post(body string, header ...string) request {
	return request{method: http.MethodPost, path: "/v1/responses", header: header, text: text{head: body}}
}

// String is the request in one line.
func (r request) String() string {
	t := r.text
	body := t.head + t.tail
	if t.n > 0 {
		body = fmt.Sprintf("%s%s (%d times) %s", t.head, shown(t.unit), t.n, t.tail)
	}
	return strings.Join(append([]string{r.method, r.path}, append(slices.Clone(r.header), shown(body))...), " ")
}

// headers are the lines of the header, with the type of a body.
func (r *request) headers() []string {
	typed := slices.ContainsFunc(r.header, func(h string) bool { return strings.HasPrefix(strings.ToLower(h), "content-type:") })
	if r.method == http.MethodGet || r.method == http.MethodHead || typed {
		return r.header
	}
	return append([]string{"Content-Type: application/json"}, r.header...)
}

// curl is a command that repeats the request. The token is a variable.
func (r *request) curl(c *Config) string {
	parts := []string{"curl", "-sS", "-i", "-X", r.method}
	if r.method == http.MethodHead {
		parts = []string{"curl", "-sS", "-I"}
	}
	if c.RootFile != "" {
		parts = append(parts, "--cacert", quote(c.RootFile))
	}
	if r.old {
		parts = append(parts, "--http1.0")
	}
	if r.chunked {
		parts = append(parts, "-H", quote("Transfer-Encoding: chunked"))
	}
	for _, h := range r.headers() {
		parts = append(parts, "-H", quote(strings.TrimSpace(h))) // without a value, curl leaves it out
	}
	if c.Token != "" && !r.anonymous {
		parts = append(parts, "-H", `"Authorization: Bearer $TOKEN"`)
	}
	parts = append(parts, quote(strings.TrimRight(c.URL, "/")+r.path))
	switch {
	case r.text.n > 0:
		return r.text.shell() + " | " + strings.Join(append(parts, "--data-binary", "@-"), " ")
	case r.text.head != "":
		parts = append(parts, "--data-binary", quote(r.text.head))
	}
	return strings.Join(parts, " ")
}

// quote is a word of a shell: of bash where the text has bytes that a terminal can't show.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' }) {
		return "'" + s + "'"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + s[i:i+1])
		case c < ' ' || c > '~': // bash writes \u in the encoding of its locale
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}

// shown is a text, shortened and in one line.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, clip.Text(s, maxShown))
}

// exchange is a request with its answer.
type exchange struct {
	request request
	status  int
	header  http.Header
	body    []byte
	chunked bool // of a raw request
}

// String is the answer in one line.
func (x *exchange) String() string {
	detail, problems := protocol.DecodeErrorBody(x.body)
	switch {
	case x.status < http.StatusBadRequest:
		detail = string(x.body)
	case len(problems) > 0:
		detail = problems.Error()
	}
	return strings.TrimSpace(strconv.Itoa(x.status) + " " + shown(detail))
}

// busy reports whether the server refused work that it may do later.
func (x *exchange) busy() bool {
	return x.status == http.StatusServiceUnavailable && x.header.Get("Retry-After") != ""
}

// named puts the names of a rule into its request.
func (k *kit) named(r *request, id string) {
	names := []string{ruleName, id, runName, runOf(id)}
	r.path = strings.NewReplacer(names...).Replace(r.path)
	if k.coach != nil {
		names = append(names, coachName, k.coach.url)
	}
	r.text.head, r.text.tail = strings.NewReplacer(names...).Replace(r.text.head), strings.ReplaceAll(r.text.tail, ruleName, id)
}

// exchange sends a request for a rule. The error says that no answer came. If a server has closed the
// connection of an earlier request meanwhile, it is asked once more over a new one, as browsers do.
func (k *kit) exchange(ctx context.Context, r request, id string) (*exchange, error) {
	k.named(&r, id)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	x, again, err := k.ask(ctx, r)
	if again {
		r.fresh = true
		x, _, err = k.ask(ctx, r)
	}
	return x, err
}

// ask sends a request. again reports whether the server had closed the connection before.
func (k *kit) ask(ctx context.Context, r request) (x *exchange, again bool, err error) {
	x = &exchange{request: r}
	reused := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	var body io.Reader = strings.NewReader(r.text.String())
	if r.chunked {
		body = io.MultiReader(body) // whose length is not known
	}
	req, err := http.NewRequestWithContext(ctx, r.method, k.base+r.path, body)
	if err != nil {
		return x, false, err
	}
	for _, h := range r.headers() {
		if name, value, _ := strings.Cut(h, ": "); value != "" {
			req.Header[name] = []string{value}
		}
	}
	if k.config.Token != "" && !r.anonymous {
		req.Header.Set("Authorization", "Bearer "+k.config.Token)
	}
	via := k.transport
	if r.fresh {
		via = k.single
	}
	resp, err := via.RoundTrip(req)
	if err != nil {
		return x, reused && ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	x.status, x.header = resp.StatusCode, resp.Header
	switch x.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); {
	case err != nil:
		err = fmt.Errorf("the answer %d breaks off: %w", x.status, err)
	case len(x.body) > maxAnswer:
		x.body, err = nil, fmt.Errorf("the answer %d has more than %d MiB", x.status, maxAnswer>>20)
	}
	return x, false, err
}

// send sends a request. In a crowd and under load, it sends again what a busy server refuses.
func (p *probe) send(r request) *exchange {
	if x := p.kit.cache[r.shared]; x != nil {
		p.last = x
		return x
	}
	for try := 0; ; try++ {
		x, err := p.kit.exchange(p.ctx, r, p.rule.id)
		p.note(x)
		if err != nil {
			p.fail("no answer: %v", err)
		}
		if p.kit.load == nil && !p.crowd || !x.busy() || try == busyTries {
			return x
		}
		time.Sleep(pause)
	}
}

// note keeps what a report shows, an answer for other rules, and a session that must be closed.
func (p *probe) note(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = x
	if x.request.shared != "" {
		p.kit.cache[x.request.shared] = x
	}
	if x.request.method == http.MethodPut {
		p.sessions = append(p.sessions, x.request.path)
	}
	if x.header != nil {
		p.kit.obey(x)
	}
}

// take sends a request and judges the answer. What goes wrong because the server does not reach the
// kit's coach is not a failure of the server.
func (p *probe) take(r request, right right) *exchange {
	x := p.send(r)
	verdict := right.judge(x)
	tested := r.method == http.MethodPut && x.status == http.StatusServiceUnavailable && right.text == noContent.text
	if verdict == Fail && (tested || right.coached) && len(p.kit.coach.questions(p.rule.id)) == 0 {
		p.end(Unexercised, "the server does not ask the kit's coach: %s", x)
	}
	if verdict != Pass {
		panic(ended{verdict, fmt.Sprintf("got %s; right is %s", x, right.text), x})
	}
	return x
}

// together takes steps n times at once and ends as the first that ended early.
func (p *probe) together(n int, take func(i int)) {
	p.crowd = true
	early := make([]any, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { early[i] = recover() }()
			take(i)
		})
	}
	all.Wait()
	for _, e := range early {
		if e != nil {
			panic(e)
		}
	}
}

// when is Pass if yes.
func when(yes bool) string {
	if yes {
		return Pass
	}
	return Fail
}

// status is an answer with one of some statuses.
func status(codes ...int) right {
	text := strings.Trim(fmt.Sprint(codes), "[]")
	return right{text: text, judge: func(x *exchange) string { return when(slices.Contains(codes, x.status)) }}
}

// both are two things that are right.
func both(a, b right) right {
	return right{text: a.text + ", " + b.text, judge: func(x *exchange) string {
		if verdict := a.judge(x); verdict != Pass {
			return verdict
		}
		return b.judge(x)
	}}
}

var (
	ok          = status(http.StatusOK)
	noContent   = status(http.StatusNoContent)
	notFound    = status(http.StatusNotFound)
	conflict    = status(http.StatusConflict)
	refused     = status(http.StatusUnprocessableEntity)
	down        = both(status(http.StatusServiceUnavailable), absent("Retry-After"))
	unsupported = status(http.StatusUnsupportedMediaType)
	notAllowed  = both(status(http.StatusMethodNotAllowed), header("Allow", http.MethodPost))
)
