package server

import (
	"embed"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"agentd/internal/http/connection"
	"agentd/internal/http/webpage"
)

//go:embed web
var pageFiles embed.FS

const (
	pathPage      = "/"
	pathAssets    = "/assets/"
	pathResponses = "/v1/responses"
)

// routePage adds the page for browsers. Its files need no token, but its requests do.
func (s *Server) routePage(r *gin.Engine) error {
	page, err := webpage.New(pageFiles, "web")
	if err != nil {
		return err
	}
	index := func(c *gin.Context) {
		c.Writer.Header().Add("Vary", "Accept")
		if !strings.Contains(c.GetHeader("Accept"), "text/html") {
			s.fail(c, &Error{Code: CodeNotFound}) // a program that got the path wrong
			return
		}
		c.Header("Content-Security-Policy", webpage.Policy)
		c.Header("Referrer-Policy", "no-referrer")
		page.Index(c)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r.Handle(method, pathPage, index)
		r.Handle(method, pathAssets+"*path", page.Asset)
	}
	return nil
}

// isPage reports whether a path is the page's or that of one of its files.
func isPage(path string) bool { return path == pathPage || strings.HasPrefix(path, pathAssets) }

// fromPage reports whether our page, opened on this machine, sent a request. It checks the names in Origin and Host,
// since a site can let its own name resolve to 127.0.0.1, and a proxy may have changed Host.
func fromPage(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && connection.IsLoopback(origin.Host) && connection.IsLoopback(r.Host) &&
		r.URL.Path == pathResponses && r.Header.Get("Sec-Fetch-Site") == "same-origin"
}
