package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/connection"
	"agentd/internal/transfer"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options is what a Server is made of.
type Options struct {
	// Info is what /v1/info says.
	Info protocol.AgentInfo
	// Build is what runs, for /metrics.
	Build Build
	// Coach answers the coaching routes, as Info must advertise. Without one they
	// answer 503 with Info's coaching_unavailable_reason.
	Coach Coach
	// Log receives the access log and failures; never bodies or secrets.
	Log zerolog.Logger
	// Tokens are the accepted bearer tokens; none: no authentication.
	Tokens []string
	// Certificates make Serve speak TLS.
	Certificates []tls.Certificate
	// LoadingWait is how long work waits for the model to load before it is
	// refused; 0: it is refused at once.
	LoadingWait time.Duration
	// RequestTimeout ends the candidates of one request; 0: none.
	RequestTimeout time.Duration
	// Registry receives the server's metrics and is what /metrics shows; nil:
	// one of its own.
	Registry *prometheus.Registry
	// NewID makes request ids; nil: random UUIDs.
	NewID func() string
}

// Build is what a program was built from.
type Build struct {
	Version string // the release
	Commit  string // "unknown" when nobody recorded it
}

// Server is the HTTP server. Make it with New.
type Server struct {
	opts    Options
	log     zerolog.Logger
	auth    authenticator
	metrics *metrics
	router  *gin.Engine
	http    *http.Server
	info    map[string][]byte // body of /v1/info, by base path
	bodies  *transfer.Budget
	cancel  context.CancelCauseFunc
	waiting atomic.Int64 // requests that wait for the model to load

	mu       sync.Mutex // guards what follows; held for a few instructions only
	state    State
	failed   bool          // the model cannot be loaded
	loaded   chan struct{} // closed when nobody need wait for the model any more
	decider  Decider       // set from Ready on
	inFlight int           // requests between begin and end
	idle     chan struct{} // closed when draining and inFlight is 0
}

// New makes a Server in state Loading.
func New(opts Options) (*Server, error) {
	if opts.NewID == nil {
		opts.NewID = uuid.NewString
	}
	if opts.Registry == nil {
		opts.Registry = prometheus.NewRegistry()
	}
	if err := opts.Info.Validate(); err != nil {
		return nil, fmt.Errorf("agent info: %w", err)
	}
	if advertised := opts.Info.Capabilities[protocol.CapabilityCoaching]; advertised != (opts.Coach != nil) {
		return nil, fmt.Errorf("agent info: the capability coaching is %t, and a coach is there: %t", advertised, opts.Coach != nil)
	}
	base, cancel := context.WithCancelCause(context.Background())
	s := &Server{
		opts:   opts,
		log:    opts.Log,
		auth:   newAuthenticator(opts.Tokens),
		info:   map[string][]byte{"": opts.Info.AppendJSON(nil), pathMagma: magmaInfo(opts.Info).AppendJSON(nil)},
		bodies: transfer.NewBudget(maxBodies),
		cancel: cancel,
		loaded: make(chan struct{}),
		idle:   make(chan struct{}),
	}
	s.metrics = newMetrics(opts.Registry, opts.Build, s.State)
	s.router = s.routes()
	s.http = &http.Server{
		Handler:           s.router,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          stdlog.New(connectionLog{opts.Log}, "", 0),
	}
	connection.Prepare(s.http)
	return s, nil
}

// Handler is the whole server without its listener, for tests and embedding.
// CancelWork does not reach requests served this way.
func (s *Server) Handler() http.Handler { return s.router }

// routes builds the router: middleware in the order it runs, then the paths.
func (s *Server) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false // a redirect is no JSON answer
	r.UseRawPath = true             // a run_id may hold %2F
	if err := r.SetTrustedProxies(nil); err != nil {
		panic(err) // nil proxies cannot fail to parse
	}
	r.Use(s.identify, s.observe, s.recover, s.authenticate, s.programsOnly)
	r.NoRoute(func(c *gin.Context) { s.fail(c, &Error{Code: CodeNotFound}) })
	r.NoMethod(func(c *gin.Context) { s.fail(c, &Error{Code: CodeMethodNotAllowed}) })

	for base := range s.info {
		g := r.Group(base)
		get := func(path string, handler gin.HandlerFunc) {
			g.GET(path, handler)
			g.HEAD(path, handler) // net/http leaves the body out
		}
		get(pathHealth, s.getHealth)
		get("/v1/info", s.getInfo)
		g.POST("/v1/responses", s.jsonBody, s.postResponses)
		g.POST("/v1/coaching", s.jsonBody, s.postCoaching)
		g.PUT(pathSessions+":run_id", s.jsonBody, s.putSession)
		g.DELETE(pathSessions+":run_id", s.deleteSession)
		get("/openapi.json", s.getOpenAPI)
		get(pathMetrics, s.getMetrics)
	}
	return r
}

// Paths that middleware treats differently, and the one before a run_id.
const (
	pathHealth   = "/health"
	pathMetrics  = "/metrics"
	pathSessions = "/v1/coaching/sessions/"
)

// connectionLog passes net/http's own messages (TLS handshakes, accept
// failures) to the log at debug level: clients cause most of them.
type connectionLog struct{ log zerolog.Logger }

var _ io.Writer = connectionLog{}

func (l connectionLog) Write(p []byte) (int, error) {
	l.log.Debug().Bytes("message", p).Msg("http")
	return len(p), nil
}
