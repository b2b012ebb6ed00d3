package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// authenticator has the accepted bearer tokens.
type authenticator []accepted

// accepted is a token by its digest, so all comparisons have equal lengths.
type accepted struct {
	digest  [sha256.Size]byte
	client  string // "": none
	weights bool   // has the right to change the weights
}

func newAuthenticator(tokens []string, clients map[string]string, mayChangeWeights map[string]bool) authenticator {
	a := make(authenticator, len(tokens))
	for i, t := range tokens {
		a[i] = accepted{sha256.Sum256([]byte(t)), clients[t], mayChangeWeights[t]}
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

func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}
