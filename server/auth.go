package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authenticator has the accepted bearer tokens.
type authenticator []accepted

// accepted is a token's digest, so that all comparisons have equal lengths, with what the token allows.
type accepted struct {
	digest  [sha256.Size]byte
	client  string // name of the client, "" without one
	weights bool   // has the right to change the weights
}

func newAuthenticator(tokens []string, clients map[string]string, mayChangeWeights map[string]bool) authenticator {
	a := make(authenticator, len(tokens))
	for i, t := range tokens {
		a[i] = accepted{sha256.Sum256([]byte(t)), clients[t], mayChangeWeights[t]}
	}
	return a
}

// accepts returns the accepted token of a request, nil without one, in constant time. A program may also send the token
// as the password of the scheme Basic, which HTTP clients do for http://NAME:TOKEN@HOST. That does not count for a
// request from a page in a browser, which may send stored passwords without the user's knowledge.
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

func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}
