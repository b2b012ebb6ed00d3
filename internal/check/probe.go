package check

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentd/protocol"
)

// kit is a server that is judged.
type kit struct {
	config    Config
	base      string // URL without a slash at its end
	transport *http.Transport
	have      need
	coach     *coach
	load      *load
	cache     map[string]*exchange
	silent    bool // a request got no answer
	info      struct {
		AgentID        string          `json:"agent_id"`
		Capabilities   map[string]bool `json:"capabilities"`
		Kinds          []string        `json:"specialized_coaching"`
		Resume         bool            `json:"coaching_resume"`
		SessionVersion string          `json:"coaching_session_version"`
		Reason         string          `json:"coaching_unavailable_reason"`
	}
}

func (k *kit) close() {
	k.load.end()
	k.coach.close()
	k.transport.CloseIdleConnections()
}

// probe is a rule that is applied.
type probe struct {
	ctx  context.Context
	kit  *kit
	rule *rule
	last *exchange // what a report shows
	mu   sync.Mutex

	sessions []string // paths of coaching sessions, which are closed at the end
}

// ruleName stands in texts for the id of the rule that sends them.
const ruleName = "RULE"

// text is a body: head, then unit n times, then tail. In the unit # is its number, from 1.
type text struct {
	head, unit string
	n          int
	tail       string
}

func (t text) String() string {
	if !strings.Contains(t.unit, "#") {
		return t.head + strings.Repeat(t.unit, t.n) + t.tail
	}
	var b strings.Builder
	b.WriteString(t.head)
	for i := range t.n {
		b.WriteString(strings.ReplaceAll(t.unit, "#", strconv.Itoa(i+1)))
	}
	b.WriteString(t.tail)
	return b.String()
}

// shell is a command that prints the body.
func (t text) shell() string {
	if t.n == 0 {
		return "printf %s " + quote(t.head+t.tail)
	}
	each := strings.NewReplacer(`\`, `\\`, "&", `\&`, "#", "&").Replace(t.unit)
	return fmt.Sprintf("{ printf %%s %s; seq %d | sed %s | tr -d '\\n'; printf %%s %s; }", quote(t.head), t.n, quote("s~.*~"+each+"~"), quote(t.tail))
}

// request is what a rule sends.
type request struct {
	method, path string
	header       []string // "Name: value"; the Content-Type of a body is added
	text         text
	anonymous    bool // without the token
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
		body = fmt.Sprintf("%s%s (%d times) %s", t.head, t.unit, t.n, t.tail)
	}
	return strings.TrimSpace(r.method + " " + r.path + " " + strings.Join(append(slices.Clone(r.header), shown(body)), " "))
}

// named is the request of a rule, whose id it names.
func (r request) named(id string) request {
	r.path = strings.ReplaceAll(r.path, ruleName, url.PathEscape(id))
	r.text.head = strings.ReplaceAll(r.text.head, ruleName, id)
	r.text.tail = strings.ReplaceAll(r.text.tail, ruleName, id)
	return r
}

// headers are the lines of the header, with the type of a body.
func (r *request) headers() []string {
	typed := slices.ContainsFunc(r.header, func(h string) bool { return strings.HasPrefix(h, "Content-Type:") })
	if r.method == http.MethodGet || typed {
		return r.header
	}
	return append([]string{"Content-Type: application/json"}, r.header...)
}

const gzipped = "Content-Encoding: gzip"

// curl is a command that repeats the request. The token is a variable.
func (r *request) curl(base string, token bool) string {
	parts := []string{"curl", "-sS", "-i", "-X", r.method}
	for _, h := range r.headers() {
		if strings.HasSuffix(h, ": ") {
			h = strings.TrimSuffix(h, " ") // curl then leaves it out
		}
		parts = append(parts, "-H", quote(h))
	}
	if token && !r.anonymous {
		parts = append(parts, "-H", `"Authorization: Bearer $TOKEN"`)
	}
	body := r.text.String()
	switch {
	case r.text.n > 0 || slices.Contains(r.header, gzipped):
		before := r.text.shell()
		if slices.Contains(r.header, gzipped) {
			before += " | gzip"
		}
		return before + " | " + strings.Join(append(parts, "--data-binary", "@-", quote(base+r.path)), " ")
	case r.method != http.MethodGet || body != "":
		parts = append(parts, "--data-binary", quote(body))
	}
	return strings.Join(append(parts, quote(base+r.path)), " ")
}

// quote is a word of a POSIX shell, or of bash where the text has bytes that a terminal can't show.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}

// shown is a text, shortened.
func shown(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\n", " "), "\uFFFD")
}

// exchange is a request with its answer.
type exchange struct {
	request request
	status  int
	header  http.Header
	body    []byte
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

// decode reads the answer, as leniently as Go does.
func (x *exchange) decode(v any) error { return json.Unmarshal(x.body, v) }

// exchange sends a request for a rule. The error says that no answer came.
func (k *kit) exchange(ctx context.Context, r request, id string) (*exchange, error) {
	r = r.named(id)
	if k.coach != nil {
		r.text.head = strings.ReplaceAll(r.text.head, coachName, k.coach.url)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := []byte(r.text.String())
	if slices.Contains(r.header, gzipped) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(body)
		if err = errors.Join(err, z.Close()); err != nil {
			return nil, err
		}
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, k.base+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range r.headers() {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[name] = []string{value}
		if value == "" {
			delete(req.Header, name)
		}
	}
	if k.config.Token != "" && !r.anonymous {
		req.Header.Set("Authorization", "Bearer "+k.config.Token)
	}
	resp, err := k.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	x := &exchange{request: r, status: resp.StatusCode, header: resp.Header}
	if x.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return nil, fmt.Errorf("the answer %d breaks off: %w", x.status, err)
	}
	return x, nil
}

// busy reports whether the server refused work that it may do later.
func (x *exchange) busy() bool {
	return x.status == http.StatusServiceUnavailable && x.header.Get("Retry-After") != ""
}

// send sends a request. While there is load, it sends again what a busy server refuses.
func (p *probe) send(r request) *exchange {
	for try := 0; ; try++ {
		x, err := p.kit.exchange(p.ctx, r, p.rule.id)
		if err != nil {
			p.note(&exchange{request: r.named(p.rule.id)}, true)
			p.fail("no answer: %v", err)
		}
		p.note(x, false)
		if p.kit.load == nil || !x.busy() || try == busyTries {
			return x
		}
		p.sleep()
	}
}

func (p *probe) note(x *exchange, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = x
	p.kit.silent = p.kit.silent || silent
}

func (p *probe) sleep() {
	select {
	case <-time.After(pause):
	case <-p.ctx.Done():
		p.fail("%v", p.ctx.Err())
	}
}

// once is send, whose answer other rules use too.
func (p *probe) once(key string, r request) *exchange {
	x := p.kit.cache[key]
	if x == nil {
		x = p.send(r)
		p.kit.cache[key] = x
	}
	p.last = x
	return x
}

func (p *probe) seen() string {
	if p.last == nil {
		return ""
	}
	return p.last.String()
}

// together takes steps n times at once and ends as the first that ended early.
func (p *probe) together(n int, steps func(i int)) {
	ended := make([]any, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { ended[i] = recover() }()
			steps(i)
		})
	}
	all.Wait()
	for _, e := range ended {
		if e != nil {
			panic(e)
		}
	}
}

// status is an answer with one of some statuses.
func status(codes ...int) right {
	return right{strings.Trim(fmt.Sprint(codes), "[]"), func(x *exchange) bool { return slices.Contains(codes, x.status) }}
}

// both are two things that are right.
func both(a, b right) right {
	return right{a.text + ", " + b.text, func(x *exchange) bool { return a.judge(x) && b.judge(x) }}
}

var (
	ok      = status(http.StatusOK)
	refused = status(http.StatusUnprocessableEntity)
)
