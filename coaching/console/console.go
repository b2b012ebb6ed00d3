package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"agentd/internal/budget"
	"agentd/internal/connection"
	"agentd/internal/webpage"
	"agentd/protocol/client"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

// Options configure a Console.
type Options struct {
	// Path is the file of the task store. Open creates a missing one.
	Path string
	// Agent answers requests for candidates; nil: no candidates.
	Agent *client.Client
	// Tokens are what people log in with; none: no login.
	Tokens []string
	// PublicHosts are the host names of the page, beside localhost and IP addresses.
	PublicHosts []string
	// AgentsFrom are the addresses of agents; none: all addresses.
	AgentsFrom []netip.Prefix
	// Claim is the lifetime of a claim that is not renewed; 0: DefaultClaim.
	Claim time.Duration
	// Keep is the retention time of done tasks; 0: DefaultKeep.
	Keep time.Duration
	// Certificates make Serve speak TLS.
	Certificates []tls.Certificate
	// Log receives events, never an answer, a draft or a secret.
	Log zerolog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// NewSecret makes claims and ids; nil: random text.
	NewSecret func() string
	// Memory bounds what all requests hold; nil: budget.Default.
	Memory *budget.Budget
	// Page has the files of the web page; nil: the embedded ones.
	Page fs.FS
}

// Console is the server. Make it with Open and end it with Close.
type Console struct {
	opts   Options
	log    zerolog.Logger
	store  *store
	tasks  *taskService
	views  *viewCache
	auth   *authenticator
	page   *webpage.Page
	asking chan struct{} // bounds concurrent requests to the agent server
	router *gin.Engine
	http   *http.Server
	end    context.CancelCauseFunc
	ended  context.Context
	loops  sync.WaitGroup
}

//go:embed web
var builtIn embed.FS

// Open opens the store and makes a Console on it.
func Open(o Options) (*Console, error) {
	o.Claim, o.Keep = cmp.Or(o.Claim, DefaultClaim), cmp.Or(o.Keep, DefaultKeep)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewSecret == nil {
		o.NewSecret = rand.Text
	}
	if o.Memory == nil {
		o.Memory = budget.New(budget.Default)
	}
	pages, err := webpage.New(builtIn, "web")
	if o.Page != nil {
		pages, err = webpage.New(o.Page, ".")
	}
	if err != nil {
		return nil, err
	}
	s, err := openStore(o.Path, false)
	if err != nil {
		return nil, err
	}
	tasks, err := newTaskService(s, o)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	ended, end := context.WithCancelCause(context.Background())
	c := &Console{
		opts:   o,
		log:    o.Log,
		store:  s,
		tasks:  tasks,
		views:  newViewCache(s),
		auth:   newAuthenticator(o.Tokens, o.Now),
		page:   pages,
		asking: make(chan struct{}, maxAsking),
		end:    end,
		ended:  ended,
	}
	c.router = c.routes()
	c.http = &http.Server{
		Handler:           c.router,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          connection.ErrorLog(o.Log),
	}
	connection.Prepare(c.http)
	c.loops.Go(c.housekeeping)
	return c, nil
}

// clock is the time as tasks have it.
func (o *Options) clock() time.Time { return o.Now().UTC().Truncate(time.Millisecond) }

// Serve accepts connections on l until Shutdown or Close. It always closes l
// and returns nil after those two.
func (c *Console) Serve(l net.Listener) error {
	return connection.Serve(c.http, l, c.opts.Certificates, func(status int, detail string) {
		c.log.Debug().Int("status", status).Str("detail", detail).Msg("invalid HTTP request")
	})
}

// Shutdown stops taking requests, answers waiting agents that they should post again, ends
// event streams and waits for the rest until ctx ends.
func (c *Console) Shutdown(ctx context.Context) error {
	c.end(errStopping)
	return c.http.Shutdown(ctx)
}

// Close ends all work at once and closes the store. Requests through Handler must have
// ended.
func (c *Console) Close() error {
	c.end(errStopping)
	err := c.http.Close()
	c.loops.Wait()
	return errors.Join(err, c.store.close())
}

// Waiting returns the number of open tasks.
func (c *Console) Waiting() int { return c.tasks.openTasks() }

// housekeeping removes old tasks until the console ends.
func (c *Console) housekeeping() {
	prunes := time.NewTicker(pruneEvery)
	defer prunes.Stop()
	for {
		select {
		case <-prunes.C:
			if err := c.tasks.prune(); err != nil {
				c.log.Error().Err(err).Msg("removal of old tasks failed")
			}
		case <-c.ended.Done():
			return
		}
	}
}

// routes builds the router: middleware in the order it runs, then the paths.
func (c *Console) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.UseRawPath = true // a request_id may hold %2F
	if err := r.SetTrustedProxies(nil); err != nil {
		panic(err) // nil proxies cannot fail to parse
	}
	r.Use(c.identify, c.observe, gin.CustomRecoveryWithWriter(nil, c.panicked))
	r.NoRoute(func(g *gin.Context) { c.fail(g, fail(http.StatusNotFound, "no such path")) })
	r.NoMethod(func(g *gin.Context) {
		c.fail(g, fail(http.StatusMethodNotAllowed, "method not allowed; see the Allow header"))
	})

	get := func(to gin.IRoutes, path string, handler gin.HandlerFunc) {
		to.GET(path, handler)
		to.HEAD(path, handler) // net/http leaves the body out
	}
	get(r, pathHealth, c.handle(c.getHealth))
	agents := r.Group(pathRequests, c.agentsOnly)
	agents.POST("", c.handle(c.postRequest))
	agents.DELETE("/:id", c.handle(c.deleteRequest))

	people := r.Group("/", c.knownHost)
	get(people, "/", c.page.Index)
	get(people, "/assets/*path", c.page.Asset)
	api := people.Group("/api", c.fromPage)
	api.GET("/me", c.handle(c.getMe))
	api.POST("/login", c.handle(c.postLogin))
	api.POST("/logout", c.handle(c.postLogout))
	in := api.Group("", c.authenticate)
	in.GET("/events", c.getEvents)
	in.GET("/tasks", c.handle(c.getTasks))
	in.GET("/tasks/:id", c.handle(c.getTask))
	in.POST("/tasks/:id/claim", change(c, c.postClaim))
	in.POST("/tasks/:id/release", change(c, c.postRelease))
	in.PUT("/tasks/:id/draft", change(c, c.putDraft))
	in.POST("/tasks/:id/check", about(c, c.postCheck))
	in.POST("/tasks/:id/answer", about(c, c.postAnswer))
	in.POST("/tasks/:id/candidates", about(c, c.postCandidates))
	return r
}

const (
	pathHealth   = "/health"
	pathRequests = "/v1/coaching/requests"
)
