package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

const cookieName = "agentd_console"

// authenticator holds the digests of the accepted tokens. A login sets a cookie with its
// expiry and a signature by the token. So logins survive a restart, and end when their token
// is removed.
type authenticator struct {
	digests [][sha256.Size]byte
	now     func() time.Time
}

func newAuthenticator(tokens []string, now func() time.Time) *authenticator {
	a := &authenticator{now: now}
	for _, token := range tokens {
		a.digests = append(a.digests, sha256.Sum256([]byte(token)))
	}
	return a
}

func (a *authenticator) required() bool { return len(a.digests) > 0 }

// find returns the digest of an accepted token, in constant time.
func (a *authenticator) find(token string) (found [sha256.Size]byte, ok bool) {
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	match := 0
	for i := range a.digests {
		match |= subtle.ConstantTimeCompare(a.digests[i][:], digest[:])
	}
	return digest, match == 1
}

// session makes the cookie for a login with a token.
func (a *authenticator) session(digest [sha256.Size]byte) string {
	end := strconv.FormatInt(a.now().Add(sessionTime).Unix(), 10)
	return end + "." + sign(digest, end)
}

func sign(digest [sha256.Size]byte, end string) string {
	mac := hmac.New(sha256.New, digest[:])
	mac.Write([]byte("agentd console session " + end))
	return hex.EncodeToString(mac.Sum(nil))
}

// acceptsSession reports whether a cookie is a valid login.
func (a *authenticator) acceptsSession(text string) bool {
	end, signature, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(end, 10, 64)
	if err != nil || a.now().Unix() >= seconds {
		return false
	}
	match := 0
	for _, digest := range a.digests {
		match |= subtle.ConstantTimeCompare([]byte(sign(digest, end)), []byte(signature))
	}
	return match == 1
}

// accepts reports whether a request is authenticated.
func (a *authenticator) accepts(r *http.Request) bool {
	if !a.required() {
		return true
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		_, ok := a.find(token)
		return ok
	}
	valid := func(cookie *http.Cookie) bool { return a.acceptsSession(cookie.Value) }
	return slices.ContainsFunc(r.CookiesNamed(cookieName), valid)
}

// authenticate refuses requests without a login.
func (c *Console) authenticate(g *gin.Context) {
	if c.auth.accepts(g.Request) {
		return
	}
	g.Header("WWW-Authenticate", `Bearer realm="agentd console"`)
	c.fail(g, fail(http.StatusUnauthorized, "log in, or send Authorization: Bearer <token>"))
}

type me struct {
	AuthRequired  bool `json:"auth_required"`
	Authenticated bool `json:"authenticated"`
	Agent         bool `json:"agent"`
	ClaimSeconds  int  `json:"claim_seconds"`
}

func (c *Console) getMe(g *gin.Context) (any, error) {
	return me{
		AuthRequired:  c.auth.required(),
		Authenticated: c.auth.accepts(g.Request),
		Agent:         c.opts.Agent != nil,
		ClaimSeconds:  int(c.opts.Claim.Seconds()),
	}, nil
}

func (c *Console) postLogin(g *gin.Context) (any, error) {
	var body loginBody
	if err := c.read(g, &body); err != nil || !c.auth.required() {
		return nil, err
	}
	digest, ok := c.auth.find(body.Token)
	if !ok {
		c.opts.Log.Warn().Str("request_id", g.GetString(keyRequestID)).Msg("login with an unknown token")
		return nil, fail(http.StatusUnauthorized, "this token is not known")
	}
	http.SetCookie(g.Writer, c.cookie(g, c.auth.session(digest), int(sessionTime.Seconds())))
	return nil, nil
}

func (c *Console) postLogout(g *gin.Context) (any, error) {
	http.SetCookie(g.Writer, c.cookie(g, "", -1))
	return nil, nil
}

func (c *Console) cookie(g *gin.Context, value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // G124: without TLS a cookie with Secure would not come back
		Name:     cookieName,
		Value:    value,
		Path:     "/",
		MaxAge:   maxAge,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		// A browser that speaks TLS to a proxy must not send the cookie without TLS.
		Secure: g.Request.TLS != nil || strings.EqualFold(g.GetHeader("X-Forwarded-Proto"), "https"),
	}
}
