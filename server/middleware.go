package server

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

// Keys of values that middleware keeps in the request's context.
const (
	keyRequestID = "agentd.request_id"
	keyStatus    = "agentd.status" // logged instead of the status sent
)

const headerRequestID = "X-Request-Id"

// routeUnmatched is the route, in logs and metrics, of what has none.
const routeUnmatched = "unmatched"

// identify gives the request an id, the client's own when it is sane, and
// repeats it in the answer.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader(headerRequestID)
	if !saneID(id) {
		id = s.opts.NewID()
	}
	c.Set(keyRequestID, id)
	c.Header(headerRequestID, id)
	c.Header("X-Content-Type-Options", "nosniff")
	c.Header("Cache-Control", "no-store")
}

// saneID accepts what can stand in a log line and a header as it is.
func saneID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '-', r == '_', r == '.', r == ':', r == '/', r == '+', r == '=':
		default:
			return false
		}
	}
	return true
}

// observe writes the access log and the request metrics. It logs the route, not
// the path, and no header, query or body: any of them may hold a secret.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	s.metrics.inFlight.Inc()
	defer func() {
		took := time.Since(start)
		s.metrics.inFlight.Dec()
		route := c.FullPath()
		if route == "" {
			route = routeUnmatched
		}
		status := c.Writer.Status()
		if replaced, ok := c.Get(keyStatus); ok {
			status = replaced.(int)
		}
		method := knownMethod(c.Request.Method)
		s.metrics.request(method, route, status, took)

		level := zerolog.InfoLevel
		if path := strings.TrimPrefix(route, pathMagma); path == pathHealth || path == pathMetrics {
			level = zerolog.DebugLevel // asked for every few seconds
		}
		s.log.WithLevel(level).
			Str("method", method).
			Str("route", route).
			Int("status", status).
			Int("bytes", max(c.Writer.Size(), 0)).
			Dur("duration_ms", took.Round(time.Microsecond)).
			Str("request_id", c.GetString(keyRequestID)).
			Msg("request")
	}()
	c.Next()
}

// knownMethod keeps clients from inventing metric labels.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "OTHER"
}

// recover turns a panic into this request's 500; the others never notice.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) { // net/http's own way to drop a connection
			panic(p)
		}
		s.metrics.panics.Inc()
		s.log.Error().
			Str("panic", fmt.Sprint(p)).
			Bytes("stack", debug.Stack()).
			Str("request_id", c.GetString(keyRequestID)).
			Msg("a request panicked")
		if c.Writer.Written() {
			c.Abort()
			return
		}
		s.fail(c, &Error{Code: CodeInternal, Err: fmt.Errorf("panic: %v", p)})
	}()
	c.Next()
}
