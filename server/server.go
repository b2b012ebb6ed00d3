package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/budget"
	"agentd/internal/connection"
	"agentd/internal/tracing"
	"agentd/protocol"
	"agentd/server/openai"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a Server.
type Options struct {
	Info  protocol.AgentInfo // the answer of /v1/info
	Build Build              // the program's version for /metrics
	// Coach answers the coaching routes, as Info advertises; without one they answer 503.
	Coach            Coach
	Log              zerolog.Logger    // receives the access log and failures, never bodies or secrets
	Tokens           []string          // the accepted bearer tokens; none: no authentication
	Clients          map[string]string // names of tokens, by token: for the log, metrics and traces
	MayChangeWeights map[string]bool   // the tokens with the right to change the weights
	Certificates     []tls.Certificate // make Serve speak TLS
	LoadingWait      time.Duration     // bounds the wait of a request while the model loads; 0: it does not wait
	RequestTimeout   time.Duration     // bounds the generation of one request; 0: unbounded
	// Completions adds the paths of OpenAI's API, for an Inference that is an openai.Provider.
	Completions bool
	Registry    *prometheus.Registry // has the metrics of /metrics, and gets the server's own; nil: a new one
	Tracer      *tracing.Tracer      // makes the spans of requests; nil: none
	Memory      *budget.Budget       // bounds what all requests hold; nil: budget.Default
}

// Build is the version of a program.
type Build struct {
	Version string // the release
	Commit  string // "unknown" if it was not recorded
}

// Server is the HTTP server. Make it with New.
type Server struct {
	opts     Options
	log      zerolog.Logger
	auth     authenticator
	metrics  *metrics
	router   *gin.Engine
	http     *http.Server
	info     map[string][]byte // body of /v1/info, by base path
	memory   *budget.Budget    // of requests
	cancel   context.CancelCauseFunc
	newID    func() string
	running  openai.Running // requests of OpenAI's API and of trainers
	waiting  atomic.Int64   // requests that wait for the model to load
	loopback atomic.Bool    // it listens on a loopback address

	mu        sync.Mutex // guards the fields below; locked for a few instructions only
	state     State
	failed    bool          // the model cannot be loaded
	hangs     error         // a step of its load; nil: it does not hang
	loaded    chan struct{} // closed when waiting for the model ends
	inference Inference     // set by Ready
	inFlight  int           // requests between admit and end
	idle      chan struct{} // closed when draining and inFlight is 0
}

// New makes a Server in state Loading.
func New(opts Options) (*Server, error) {
	if opts.Memory == nil {
		opts.Memory = budget.New(budget.Default)
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
		auth:   newAuthenticator(opts),
		info:   map[string][]byte{"": opts.Info.AppendJSON(nil), pathMagma: magmaInfo(opts.Info).AppendJSON(nil)},
		memory: opts.Memory,
		cancel: cancel,
		newID:  uuid.NewString,
		loaded: make(chan struct{}),
		idle:   make(chan struct{}),
	}
	s.metrics = newMetrics(opts.Registry, opts.Build, opts.Memory, s.State)
	var err error
	if s.router, err = s.routes(); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           s.router,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          connection.ErrorLog(opts.Log),
	}
	connection.Prepare(s.http)
	return s, nil
}

// Handler returns the server without its listener. CancelWork does not reach its requests.
func (s *Server) Handler() http.Handler { return s.router }

// routes builds the router: middleware in the order it runs, then the paths.
func (s *Server) routes() (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false // a redirect is not JSON
	r.UseRawPath = true             // a run_id may hold %2F
	if err := r.SetTrustedProxies(nil); err != nil {
		panic(err) // nil proxies cannot fail to parse
	}
	r.Use(s.identify, s.observe, gin.CustomRecoveryWithWriter(nil, s.panicked), s.authorize, s.trace)
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
		g.POST(pathResponses, s.postResponses)
		g.POST(pathCoaching, s.postCoaching)
		g.PUT(pathSessions+":run_id", s.putSession)
		g.DELETE(pathSessions+":run_id", s.deleteSession)
		get("/openapi.json", s.getOpenAPI)
		get(pathMetrics, s.getMetrics)
		get(pathWeights, s.getWeights)
		g.PUT(pathWeights, s.mayChangeWeights, s.putWeights)
		g.POST(pathPause, s.mayChangeWeights, s.postPause)
		g.POST(pathResume, s.mayChangeWeights, s.postResume)
		g.DELETE(pathAdapters+":name", s.mayChangeWeights, s.deleteAdapter)
	}
	if s.opts.Completions {
		s.routeCompletions(r)
		s.routeRollout(r)
	}
	return r, s.routePage(r)
}

// Paths that middleware handles differently, and the prefix of a run_id.
const (
	pathHealth   = "/health"
	queryLive    = "live"
	pathMetrics  = "/metrics"
	pathCoaching = "/v1/coaching"
	pathSessions = "/v1/coaching/sessions/"
)
