package egress

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// ForbiddenError says that the policy does not let something out. It is never
// worth trying again.
type ForbiddenError struct {
	What string // the URL without its secrets, the host, the header or the address
	Why  string // the rule, and what to do
}

// Error names both.
func (e *ForbiddenError) Error() string { return e.What + " " + e.Why }

var (
	// ErrRedirect is an answer that sends the client elsewhere. Redirects are
	// not followed: the endpoint that the policy has checked is to answer.
	ErrRedirect = errors.New("the endpoint answered with a redirect, which is not followed; name the final URL")

	// ErrTooLarge is an answer whose headers or body are larger than allowed.
	ErrTooLarge = errors.New("the endpoint's answer is too large")

	// ErrEncoded is a compressed answer, which was not asked for.
	ErrEncoded = errors.New("the endpoint's answer is compressed although it was asked not to be")

	// ErrClosed is the use of a client after its Close.
	ErrClosed = errors.New("the session's connections are closed")
)

// Cause takes off an error of net/http what is not for clients: the URL, since
// its query may hold a key, and the address that this server connects from. Any
// other error is returned as it is.
func Cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		return &unsourcedError{err, strings.ReplaceAll(err.Error(), op.Source.String()+"->", "")}
	}
	return err
}

// unsourcedError is an error of a connection that does not tell its source.
type unsourcedError struct {
	err  error
	text string
}

func (e *unsourcedError) Error() string { return e.text }

func (e *unsourcedError) Unwrap() error { return e.err }
