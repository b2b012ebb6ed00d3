package server

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/tracing"
	"agentd/internal/http/connection"
)

const headerRequestID = "X-Request-Id"

// identify sets the request's id, the client's if that is valid, in context and answer. It also sets the trace context.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader(headerRequestID)
	if !validID(id) {
		id = s.newID()
	}
	c.Set(keyRequestID, id)
	c.Request = c.Request.WithContext(tracing.Extract(c.Request.Context(), c.Request.Header))
	c.Header(headerRequestID, id)
	c.Header("X-Content-Type-Options", "nosniff")
	c.Header("Cache-Control", "no-store")
}

// validID reports whether an id needs no escapes in a log line or a header.
var validID = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_.:/+=-]{1,%d}$`, maxRequestID)).MatchString

// observe writes the access log and the metrics of requests, without paths, headers and bodies.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	s.metrics.inFlight.Inc()
	defer func() {
		took := time.Since(start)
		s.metrics.inFlight.Dec()
		route := cmp.Or(c.FullPath(), routeUnmatched)
		status := statusOf(c)
		method := knownMethod(c.Request.Method)
		client := c.GetString(keyClient)
		s.metrics.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
		s.metrics.latency.WithLabelValues(method, route).Observe(took.Seconds())
		if client != "" {
			s.metrics.clientRequests.WithLabelValues(client, strconv.Itoa(status)).Inc()
		}

		level := zerolog.InfoLevel
		if polled(c) {
			level = zerolog.DebugLevel
		}
		event := s.opts.Log.WithLevel(level)
		if span := trace.SpanContextFromContext(c.Request.Context()); span.IsValid() {
			event.Stringer("trace_id", span.TraceID())
		}
		if client != "" {
			event.Str("client", client)
		}
		if reason := c.GetString(keyReason); reason != "" {
			event.Str("reason", reason)
		}
		event.
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

// authorize checks the token if tokens are configured, except for /health and the page, which asks for a token. Without
// tokens it refuses requests from a browser's page that is not ours: otherwise any web page could use this server, and
// through it private addresses. On a loopback address it also refuses Host names that are not this machine's: a site
// can let its own name resolve to 127.0.0.1, and could then read the answers (DNS rebinding).
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

// polled reports whether clients call a route every few seconds, so that it is logged at debug level.
func polled(c *gin.Context) bool {
	path := strings.TrimPrefix(c.FullPath(), pathMagma)
	return path == pathHealth || path == pathMetrics
}

// statusOf returns the status of an answer for log, metrics and traces.
func statusOf(c *gin.Context) int {
	if replaced, ok := c.Get(keyStatus); ok {
		return replaced.(int)
	}
	return c.Writer.Status()
}

// trace makes the span of a request, with the route and without text of a client.
func (s *Server) trace(c *gin.Context) {
	if s.opts.Tracer == nil || polled(c) || c.FullPath() == "" {
		return
	}
	method := knownMethod(c.Request.Method)
	ctx, span := s.opts.Tracer.Request(c.Request.Context(), method+" "+c.FullPath(),
		semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(c.FullPath()),
		attribute.String("agentd.request.id", c.GetString(keyRequestID)))
	if client := c.GetString(keyClient); client != "" {
		span.SetAttributes(attribute.String("agentd.client", client))
	}
	c.Request = c.Request.WithContext(ctx)
	panicked := true
	defer func() {
		if panicked {
			tracing.Fail(span, "panic", "")
		} else if status := statusOf(c); span.IsRecording() {
			span.SetAttributes(semconv.HTTPResponseStatusCode(status))
			if status >= http.StatusInternalServerError {
				tracing.Fail(span, strconv.Itoa(status), "")
			}
		}
		span.End()
	}()
	c.Next()
	panicked = false
}

// panicked answers 500 to a request whose handler panicked. gin does not call it for a panic with an error of the
// connection, so handlers must not panic with one.
func (s *Server) panicked(c *gin.Context, p any) {
	s.metrics.panics.Inc()
	s.opts.Log.Error().
		Str("panic", fmt.Sprint(p)).
		Bytes("stack", debug.Stack()).
		Str("request_id", c.GetString(keyRequestID)).
		Msg("a request panicked")
	if c.Writer.Written() {
		c.Abort()
		return
	}
	s.fail(c, &Error{Code: CodeInternal, Err: fmt.Errorf("panic: %v", p)})
}
