package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// ForbiddenError means that the policy forbids a connection or a header. A retry does not help.
type ForbiddenError struct {
	What string // the URL without its secrets, the host, the header or the address
	Why  string // the rule, and what to do
}

func (e *ForbiddenError) Error() string { return e.What + " " + e.Why }

var (
	// ErrRedirect is a redirect. Redirects are not followed, since the policy has
	// checked only the configured endpoint.
	ErrRedirect = errors.New("the endpoint answered with a redirect, which is not followed; name the final URL")

	// ErrTooLarge is an answer whose headers or body exceed their limit.
	ErrTooLarge = errors.New("the endpoint's answer is too large")

	// ErrEncoded is a compressed answer, which was not requested.
	ErrEncoded = errors.New("the endpoint's answer is compressed although it was asked not to be")

	// ErrClosed is the use of a client after its Close.
	ErrClosed = errors.New("the session's connections are closed")
)

// Untrusted reports whether the server has an invalid certificate or no TLS, which a retry does not change.
func Untrusted(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

// Cause removes from an error of net/http what clients must not see: the URL, whose query may
// contain a key, and this server's address. Other errors are returned unchanged.
func Cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		return &unsourcedError{err, strings.ReplaceAll(err.Error(), op.Source.String()+"->", "")}
	}
	return err
}

// unsourcedError is a connection error without this server's address.
type unsourcedError struct {
	err  error
	text string
}

func (e *unsourcedError) Error() string { return e.text }

func (e *unsourcedError) Unwrap() error { return e.err }
