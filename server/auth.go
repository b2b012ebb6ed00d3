package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// authenticator knows the accepted bearer tokens by their digests, which makes
// every comparison one of equal lengths.
type authenticator [][sha256.Size]byte

func newAuthenticator(tokens []string) authenticator {
	a := make(authenticator, len(tokens))
	for i, t := range tokens {
		a[i] = sha256.Sum256([]byte(t))
	}
	return a
}

// accepts reports whether an Authorization header holds an accepted token. Its
// time depends on neither which token matches nor on where one differs.
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

// programsOnly refuses work that a browser asks for on behalf of some page, where no token
// tells friend from foe: any page that a person looks at could have this server decide,
// and ask addresses that only this machine reaches.
func (s *Server) programsOnly(c *gin.Context) {
	if len(s.auth) > 0 || c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		return
	}
	if c.GetHeader("Origin") != "" || c.GetHeader("Sec-Fetch-Site") != "" {
		s.fail(c, &Error{Code: CodeForbidden})
	}
}

// authenticate refuses requests without an accepted token, when tokens are
// configured. /health stays open for load balancers.
func (s *Server) authenticate(c *gin.Context) {
	if path := c.Request.URL.Path; len(s.auth) == 0 || path == pathHealth || path == pathMagma+pathHealth {
		return
	}
	if !s.auth.accepts(c.GetHeader("Authorization")) {
		s.fail(c, &Error{Code: CodeUnauthorized})
	}
}
