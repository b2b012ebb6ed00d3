package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// authenticator has the accepted bearer tokens.
type authenticator []accepted

// accepted is a token by its digest, so all comparisons have equal lengths.
type accepted struct {
	digest [sha256.Size]byte
	client string // "": none
}

func newAuthenticator(tokens []string, clients map[string]string) authenticator {
	a := make(authenticator, len(tokens))
	for i, t := range tokens {
		a[i] = accepted{sha256.Sum256([]byte(t)), clients[t]}
	}
	return a
}

// accepts reports whether an Authorization header has an accepted token, in constant time, and
// the name of its client.
func (a authenticator) accepts(header string) (client string, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	at := -1
	for i := range a {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(a[i].digest[:], digest[:]), i, at)
	}
	if at < 0 {
		return "", false
	}
	return a[at].client, true
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
	client, ok := s.auth.accepts(c.GetHeader("Authorization"))
	if !ok {
		s.fail(c, &Error{Code: CodeUnauthorized})
		return
	}
	c.Set(keyClient, client)
}
