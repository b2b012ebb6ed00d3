package check

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// dial opens a connection to the server, for what an HTTP client does not send.
func (k *kit) dial(ctx context.Context) (net.Conn, *url.URL, error) {
	u, err := url.Parse(k.base)
	if err != nil {
		return nil, nil, err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	address := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "http" {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return c, u, err
	}
	config := cmp.Or(k.transport.TLSClientConfig.Clone(), new(tls.Config))
	config.NextProtos = []string{"http/1.1"}
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	return c, u, err
}

// lines are the request line and header of a raw request.
func (k *kit) lines(u *url.URL, r *request) string {
	version := "HTTP/1.1"
	if r.old {
		version = "HTTP/1.0"
	}
	text := fmt.Sprintf("%s %s%s %s\r\nHost: %s\r\nConnection: close\r\n", r.method, u.EscapedPath(), r.path, version, u.Host)
	for _, h := range r.headers() {
		text += h + "\r\n"
	}
	if k.config.Token != "" && !r.anonymous {
		text += "Authorization: Bearer " + k.config.Token + "\r\n"
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(r.text.head))
	}
	return text + "\r\n"
}

// raw sends a request over a new connection. The body is all that comes until the server closes it.
func (p *probe) raw(r request) *exchange {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.kit.named(&r, p.rule.id)
	x := &exchange{request: r}
	c, u, err := p.kit.dial(ctx)
	if err != nil {
		p.fail("no connection: %v", err)
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, err = io.WriteString(c, p.kit.lines(u, &r)+r.text.head)
	from := bufio.NewReader(io.LimitReader(c, maxAnswer))
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(from, &http.Request{Method: r.method})
	}
	if err == nil {
		x.status, x.header = resp.StatusCode, resp.Header
		x.chunked = len(resp.TransferEncoding) > 0
		x.body, err = io.ReadAll(io.MultiReader(resp.Body, from)) // with what follows the body
		_ = resp.Body.Close()
	}
	p.note(x)
	if err != nil {
		p.fail("no answer: %v", err)
	}
	return x
}

// half sends half of a request. The connection stays open until it is closed.
func (p *probe) half(r request) net.Conn {
	p.kit.named(&r, p.rule.id)
	c, u, err := p.kit.dial(p.ctx)
	if err != nil {
		p.fail("no connection: %v", err)
	}
	_, _ = io.WriteString(c, p.kit.lines(u, &r)+r.text.head[:len(r.text.head)/2]) // the server may refuse it
	return c
}

// unpacked is the body of an answer that may be gzip.
func (x *exchange) unpacked() ([]byte, error) {
	switch x.header.Get("Content-Encoding") {
	case "", "identity":
		return x.body, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(x.body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(z, maxAnswer))
	}
	return nil, errors.New("an encoding that was not asked for")
}

// packed is a JSON answer under the encoding that it declares.
var packed = both(ok, right{text: "JSON, as it is or as gzip", judge: func(x *exchange) string {
	body, err := x.unpacked()
	return when(err == nil && json.Valid(body))
}})

// plainly is a JSON answer without an encoding.
var plainly = both(absent("Content-Encoding"), right{text: "JSON", judge: func(x *exchange) string { return when(x.status == 200 && json.Valid(x.body)) }})

// zipped is a text as gzip.
func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s) // a buffer takes everything
	_ = z.Close()
	return b.String()
}

// older is a rule about HTTP/1.0.
func older(p *probe, r request) {
	r.old = true
	x := p.raw(r)
	if x.status != http.StatusOK || x.chunked || !json.Valid(x.body) {
		p.fail("got %s; right is 200 and JSON without chunks", x)
	}
}

// longID is cheap with an answer that is long enough to be compressed.
var longID = edit(cheap, `"RULE"`, `"RULE `+strings.Repeat("long ", 1000)+`"`)

// wireRules are about HTTP itself.
var wireRules = slices.Concat([]rule{
	one("http/chunked", Should, "2", request{method: http.MethodPost, path: "/v1/responses", text: text{head: cheap}, chunked: true},
		status(http.StatusOK, http.StatusLengthRequired, http.StatusNotImplemented)),
	one("http/expect", Should, "2", post(cheap, "Expect: 100-continue"), ok),
	chain("http/letter-case", Should, "2", "names of headers and the Content-Type have any letter case",
		step{post(cheap, "content-type: application/json"), ok}, step{post(cheap, "Content-Type: Application/JSON"), ok}),
	chain("http/gzip", Should, "2", "an answer for Accept-Encoding: gzip can be read",
		step{get("/v1/info?gzip", "Accept-Encoding: gzip"), packed}, step{post(longID, "Accept-Encoding: gzip"), packed}),
	chain("http/identity", Should, "2", "an answer has no encoding that was not asked for",
		step{get("/v1/info?identity"), plainly}, step{post(longID), plainly}),
	one("http/gzip-body", Should, "2", post(zipped(cheap), "Content-Encoding: gzip"), status(http.StatusOK, http.StatusUnsupportedMediaType)),
	many("http/version-1.0", Should, "2", "HTTP/1.0 is answered, without chunks", func(p *probe) {
		older(p, get("/v1/info?old"))
		older(p, post(longID))
	}),
	many("http/slow-client", Should, "2", "a client that sends slowly does not hold up others", func(p *probe) {
		slow := p.half(post(cheap))
		defer func() { _ = slow.Close() }()
		ctx, cancel := context.WithTimeout(p.ctx, slowPatience)
		defer cancel()
		x, err := p.kit.exchange(ctx, post(cheap), p.rule.id)
		p.note(x)
		if err != nil || decided.judge(x) != Pass {
			p.fail("no answer while another client sends: %v", err)
		}
	}),
}, with(needResume,
	many("http/hundred", Must, "4", fmt.Sprint(hundred, " requests over new connections are all answered"), func(p *probe) {
		sent := post(cheap)
		sent.fresh = true
		for range hundred {
			p.take(sent, decided)
		}
	}),
), with(needCoaching,
	many("session/no-body", Must, "6", "a 204 has no body", func(p *probe) {
		for _, r := range []request{put(runName, session), del(runName)} {
			if x := p.raw(r); x.status != http.StatusNoContent || len(x.body) > 0 {
				p.fail("got %s; right is 204 without a body", x)
			}
		}
	}),
))
