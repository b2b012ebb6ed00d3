package console

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"agentd/internal/http/webpage"
)

const (
	headerRequestID = "X-Request-Id"
	// headerConsole must be sent with every change. A page of another site cannot send it
	// without a CORS preflight, which is not answered.
	headerConsole = "X-Agentd-Console"
)

// identify gives the request an id and the answer its security headers.
func (c *Console) identify(g *gin.Context) {
	id := uuid.NewString()
	g.Set(keyRequestID, id)
	h := g.Writer.Header()
	h.Set(headerRequestID, id)
	h.Set("Content-Security-Policy", webpage.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// observe writes the access log. It logs the route, never the path, a body or a header.
func (c *Console) observe(g *gin.Context) {
	start := time.Now()
	defer func() {
		route := cmp.Or(g.FullPath(), "unmatched")
		level := zerolog.InfoLevel
		if g.Request.Method == http.MethodGet || strings.HasSuffix(route, "/check") || strings.HasSuffix(route, "/draft") {
			level = zerolog.DebugLevel // pages send these all the time
		}
		c.opts.Log.WithLevel(level).
			Str("method", g.Request.Method).
			Str("route", route).
			Int("status", g.Writer.Status()).
			Int("bytes", max(g.Writer.Size(), 0)).
			Dur("duration_ms", time.Since(start).Round(time.Microsecond)).
			Str("request_id", g.GetString(keyRequestID)).
			Msg("request")
	}()
	g.Next()
}

// panicked answers 500 to a request whose handler panicked.
func (c *Console) panicked(g *gin.Context, p any) {
	c.opts.Log.Error().
		Str("panic", fmt.Sprint(p)).
		Bytes("stack", debug.Stack()).
		Str("request_id", g.GetString(keyRequestID)).
		Msg("a request panicked")
	if g.Writer.Written() {
		g.Abort()
		return
	}
	c.fail(g, fmt.Errorf("panic: %v", p))
}

// knownHost refuses requests for other host names than the console's own. This prevents DNS
// rebinding: a name of another site that resolves to this address.
func (c *Console) knownHost(g *gin.Context) {
	host := g.Request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	public := func(name string) bool { return strings.EqualFold(name, host) }
	if host == "localhost" || err == nil || slices.ContainsFunc(c.opts.PublicHosts, public) {
		return
	}
	c.fail(g, fail(http.StatusMisdirectedRequest, "this console does not answer to that host name; its operator can configure it as a public host"))
}

// fromPage refuses changes that the page itself did not send.
func (c *Console) fromPage(g *gin.Context) {
	switch g.Request.Method {
	case http.MethodGet, http.MethodHead:
		return
	}
	if g.GetHeader(headerConsole) != "1" {
		c.fail(g, fail(http.StatusForbidden, "send the header %s: 1 with every change", headerConsole))
	}
}

// agentsOnly refuses requests that a browser sent for a page, and those from other addresses
// than agents have.
func (c *Console) agentsOnly(g *gin.Context) {
	if g.GetHeader("Origin") != "" || g.GetHeader("Sec-Fetch-Site") != "" {
		c.fail(g, fail(http.StatusForbidden, "this path is for agents, not for pages in a browser"))
		return
	}
	if len(c.opts.AgentsFrom) == 0 {
		return
	}
	from, err := netip.ParseAddrPort(g.Request.RemoteAddr)
	if err == nil && slices.ContainsFunc(c.opts.AgentsFrom, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
		return
	}
	c.fail(g, fail(http.StatusForbidden, "agents may not post from this address; the console's operator configures the addresses of agents"))
}
