package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"agentd/internal/connection"

	"github.com/gin-gonic/gin"
)

// authenticator has the accepted bearer tokens.
type authenticator []accepted

// accepted is a token by its digest, so all comparisons have equal lengths.
type accepted struct {
	digest  [sha256.Size]byte
	client  string // "": none
	weights bool   // has the right to change the weights
}

func newAuthenticator(o Options) authenticator {
	a := make(authenticator, len(o.Tokens))
	for i, t := range o.Tokens {
		a[i] = accepted{sha256.Sum256([]byte(t)), o.Clients[t], o.MayChangeWeights[t]}
	}
	return a
}

// accepts returns the accepted token of a request, in constant time; nil: none. A program may also send it as the
// password of the scheme Basic: clients of HTTP do so with http://NAME:TOKEN@HOST, where their callers can set no
// header. From a page of a browser, which could send such a password unasked, it does not count.
func (a authenticator) accepts(r *http.Request) *accepted {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		var basic bool
		if _, token, basic = r.BasicAuth(); !basic || fromBrowser(r) {
			return nil
		}
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	at := -1
	for i := range a {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(a[i].digest[:], digest[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &a[at]
}

// authorize checks tokens if there are any. /health stays open, and the page, which asks for a token. Without
// tokens it refuses requests that a browser sends for a page other than ours: otherwise any web page could use
// this server and the private addresses that it reaches. On a loopback address it also refuses names that are not
// of this machine: a site can make its own name resolve to 127.0.0.1, and would read what GET answers.
func (s *Server) authorize(c *gin.Context) {
	path, method := c.Request.URL.Path, c.Request.Method
	switch {
	case len(s.auth) == 0 && s.loopback.Load() && path != pathHealth && !isPage(path) && !connection.IsAddress(c.Request.Host):
		s.fail(c, &Error{Code: CodeForeignHost})
	case len(s.auth) == 0:
		if fromBrowser(c.Request) && method != http.MethodGet && method != http.MethodHead && !fromPage(c.Request) {
			s.fail(c, &Error{Code: CodeForbidden})
		}
	case isPage(path), path == pathHealth, path == pathMagma+pathHealth:
	default:
		token := s.auth.accepts(c.Request)
		if token == nil {
			s.fail(c, &Error{Code: CodeUnauthorized})
			return
		}
		c.Set(keyClient, token.client)
		c.Set(keyWeights, token.weights)
	}
}

func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}
