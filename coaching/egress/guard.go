package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// guard is the http.RoundTripper of a client. It checks requests and answers.
type guard struct {
	policy      *Policy
	next        *http.Transport
	maxResponse int64
	closed      context.Context // ends with the client
}

// RoundTrip does one exchange.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	out := req.Clone(req.Context()) // a RoundTripper does not change its request
	out.Header.Set("Accept-Encoding", "identity")
	res, err := g.next.RoundTrip(out)
	if err != nil {
		return nil, g.explain(err)
	}
	if err := g.checkAnswer(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	res.Body = &guardedBody{http.MaxBytesReader(nil, res.Body, g.maxResponse), g}
	return res, nil
}

// CloseIdleConnections is for http.Client's method of that name.
func (g *guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

// check checks the URL again, since a request need not come from a checked endpoint.
func (g *guard) check(req *http.Request) error {
	if g.closed.Err() != nil {
		return ErrClosed
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return &ForbiddenError{SafeURL(req.URL.String()), "is asked for in the name of another host"}
	}
	for name := range req.Header {
		if isHopByHop(name) {
			return &ForbiddenError{"header " + name, "is for the connection and not for a request to set"}
		}
	}
	return g.policy.CheckURL(req.URL.String())
}

// checkAnswer checks an answer before its body is read.
func (g *guard) checkAnswer(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return ErrRedirect
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the endpoint switched to another protocol")
	}
	for _, coding := range res.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return ErrEncoded
		}
	}
	if res.ContentLength > g.maxResponse {
		return fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, res.ContentLength, g.maxResponse)
	}
	return nil
}

// explain turns errors of the transport into errors of this package.
func (g *guard) explain(err error) error {
	if g.closed.Err() != nil {
		return ErrClosed
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return fmt.Errorf("%w: its body has more than %d bytes", ErrTooLarge, g.maxResponse)
	}
	// net/http has no error values for these. HTTP/1 first, then HTTP/2.
	for _, text := range []string{"server response headers exceeded", "response header list larger"} {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: its headers are larger than %d bytes", ErrTooLarge, MaxResponseHeader)
		}
	}
	return err
}

// guardedBody is a body with errors of this package. It fails when it exceeds its limit.
type guardedBody struct {
	io.ReadCloser
	guard *guard
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.guard.explain(err)
	}
	return n, err
}
