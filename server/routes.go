package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/budget"
	"agentd/internal/http/connection"
	"agentd/protocol"
)

// New makes a Server in state Loading.
func New(opts Options) (*Server, error) {
	opts.Memory, opts.Registry = cmp.Or(opts.Memory, budget.New(budget.Default)), cmp.Or(opts.Registry, prometheus.NewRegistry())
	if err := opts.Info.Validate(); err != nil {
		return nil, fmt.Errorf("agent info: %w", err)
	}
	if advertised := opts.Info.Capabilities[protocol.CapabilityCoaching]; advertised != (opts.Coach != nil) {
		return nil, fmt.Errorf("agent info: the capability coaching is %t, and a coach is there: %t", advertised, opts.Coach != nil)
	}
	base, cancel := context.WithCancelCause(context.Background())
	s := &Server{
		opts:   opts,
		auth:   newAuthenticator(opts.Tokens, opts.Clients, opts.MayChangeWeights),
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
	s.http = connection.NewServer(s.router, opts.Log)
	s.http.BaseContext = func(net.Listener) context.Context { return base }
	return s, nil
}

// Handler returns the handler of all routes, for tests. CancelWork does not end its requests.
func (s *Server) Handler() http.Handler { return s.router }

// routes builds the router: the middleware in the order in which it runs, then the paths.
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
	r.NoRoute(func(c *gin.Context) {
		e := &Error{Code: CodeNotFound}
		if m := openAIPaths.FindStringSubmatch(c.Request.URL.Path); m != nil && strings.Count(m[0], "/v1") != 1 {
			e.Detail = "no such path; the base URL of OpenAI's clients ends with one /v1"
		}
		s.fail(c, e)
	})
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
