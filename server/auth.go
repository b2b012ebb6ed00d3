package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// authenticator has the digests of the accepted bearer tokens, so all comparisons have equal
// lengths.
type authenticator [][sha256.Size]byte

func newAuthenticator(tokens []string) authenticator {
	a := make(authenticator, len(tokens))
	for i, t := range tokens {
		a[i] = sha256.Sum256([]byte(t))
	}
	return a
}

// accepts reports whether an Authorization header has an accepted token, in constant time.
func (a authenticator) accepts(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	match := 0
	for i := range a {
		match |= subtle.ConstantTimeCompare(a[i][:], digest[:])
	}
	return match == 1
}

// programsOnly refuses requests that a browser sends for a page, unless tokens are configured.
// Otherwise any web page could use this server and the private addresses that it reaches.
func (s *Server) programsOnly(c *gin.Context) {
	if len(s.auth) > 0 || c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		return
	}
	if c.GetHeader("Origin") != "" || c.GetHeader("Sec-Fetch-Site") != "" {
		s.fail(c, &Error{Code: CodeForbidden})
	}
}

// authenticate refuses requests without an accepted token if tokens are configured. /health stays
// open for load balancers.
func (s *Server) authenticate(c *gin.Context) {
	if path := c.Request.URL.Path; len(s.auth) == 0 || path == pathHealth || path == pathMagma+pathHealth {
		return
	}
	if !s.auth.accepts(c.GetHeader("Authorization")) {
		s.fail(c, &Error{Code: CodeUnauthorized})
	}
}
