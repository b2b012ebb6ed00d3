package egress

import (
	"errors"
	"net/url"
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

// Cause takes the URL off an error of net/http, since its query may hold a key.
// Any other error is returned as it is.
func Cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
