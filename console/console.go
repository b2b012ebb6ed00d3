package console

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"embed"
	"errors"
	"io"
	"io/fs"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"agentd/internal/connection"
	"agentd/internal/transfer"
	"agentd/protocol/client"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

// Options is what a Console is made of.
type Options struct {
	// Path is the file that tasks are kept in; it is made when it is missing.
	Path string
	// Agent is asked for candidates; nil: people get none.
	Agent *client.Client
	// Tokens let people in; none: everybody is.
	Tokens []string
	// PublicHosts are the names under which the page is reached, beside
	// localhost and IP addresses.
	PublicHosts []string
	// AgentsFrom are where agents may post from; none: from everywhere.
	AgentsFrom []netip.Prefix
	// Claim is how long a claim holds unless renewed; 0: DefaultClaim.
	Claim time.Duration
	// Keep is how long done tasks are kept; 0: DefaultKeep.
	Keep time.Duration
	// Certificates make Serve speak TLS.
	Certificates []tls.Certificate
	// Log receives what happens; never an answer, a draft or a secret.
	Log zerolog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// NewSecret makes claims and ids; nil: random text.
	NewSecret func() string
	// Page is what is served to browsers; nil: the page that is built in.
	Page fs.FS
}

// Console is the server. Make it with Open and end it with Close.
type Console struct {
	opts   Options
	log    zerolog.Logger
	store  *store
	desk   *desk
	sheets *sheets
	auth   *authenticator
	page   *page
	bodies *transfer.Budget
	asking chan struct{} // a place for each request to the agent server
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
	if o.Claim == 0 {
		o.Claim = DefaultClaim
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewSecret == nil {
		o.NewSecret = rand.Text
	}
	if o.Page == nil {
		sub, err := fs.Sub(builtIn, "web")
		if err != nil {
			return nil, err
		}
		o.Page = sub
	}
	pages, err := newPage(o.Page)
	if err != nil {
		return nil, err
	}
	s, err := openStore(o.Path)
	if err != nil {
		return nil, err
	}
	d, err := newDesk(s, o)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	ended, end := context.WithCancelCause(context.Background())
	c := &Console{
		opts:   o,
		log:    o.Log,
		store:  s,
		desk:   d,
		sheets: newSheets(s),
		auth:   newAuthenticator(o.Tokens, o.Now),
		page:   pages,
		bodies: transfer.NewBudget(maxBodies),
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
		ErrorLog:          stdlog.New(connectionLog{o.Log}, "", 0),
	}
	connection.Prepare(c.http)
	c.loops.Go(c.housekeeping)
	return c, nil
}

// Handler is the whole console without its listener, for tests and embedding.
func (c *Console) Handler() http.Handler { return c.router }

// Serve accepts connections on l until Shutdown or Close. It always closes l
// and returns nil after those two.
func (c *Console) Serve(l net.Listener) error {
	return connection.Serve(c.http, l, c.opts.Certificates, func(status int, detail string) {
		c.log.Debug().Int("status", status).Str("detail", detail).Msg("what came is no request")
	})
}

// Shutdown stops taking requests, tells waiting agents to post again, ends
// event streams and waits for the rest until ctx ends.
func (c *Console) Shutdown(ctx context.Context) error {
	c.end(errStopping)
	return c.http.Shutdown(ctx)
}

// Close ends everything at once and closes the store. Requests served through
// Handler must have ended.
func (c *Console) Close() error {
	c.end(errStopping)
	err := c.http.Close()
	c.loops.Wait()
	return errors.Join(err, c.store.close())
}

// Waiting is the number of tasks that people have to answer.
func (c *Console) Waiting() int { return c.desk.openTasks() }

// housekeeping runs until the console ends.
func (c *Console) housekeeping() {
	lapses, prunes := time.NewTicker(lapseEvery), time.NewTicker(pruneEvery)
	defer lapses.Stop()
	defer prunes.Stop()
	for {
		select {
		case <-lapses.C:
			c.desk.announceLapses()
		case <-prunes.C:
			if err := c.desk.prune(); err != nil {
				c.log.Error().Err(err).Msg("old tasks could not be removed")
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
	r.Use(c.identify, c.observe, c.recover)
	r.NoRoute(func(g *gin.Context) { c.fail(g, fail(http.StatusNotFound, "no such path")) })
	r.NoMethod(func(g *gin.Context) {
		c.fail(g, fail(http.StatusMethodNotAllowed, "method not allowed; see the Allow header"))
	})

	get := func(to gin.IRoutes, path string, handler gin.HandlerFunc) {
		to.GET(path, handler)
		to.HEAD(path, handler) // net/http leaves the body out
	}
	get(r, pathHealth, c.getHealth)
	agents := r.Group(pathRequests, c.agentsOnly)
	agents.POST("", c.jsonBody, c.postRequest)
	agents.DELETE("/:id", c.deleteRequest)

	people := r.Group("/", c.knownHost)
	get(people, "/", c.page.index)
	get(people, "/assets/*path", c.page.asset)
	api := people.Group("/api", c.fromPage)
	api.GET("/me", c.getMe)
	api.POST("/login", c.jsonBody, c.postLogin)
	api.POST("/logout", c.postLogout)
	in := api.Group("", c.authenticate)
	in.GET("/events", c.getEvents)
	in.GET("/tasks", c.getTasks)
	in.GET("/tasks/:id", c.getTask)
	in.POST("/tasks/:id/claim", c.jsonBody, c.postClaim)
	in.POST("/tasks/:id/release", c.jsonBody, c.postRelease)
	in.POST("/tasks/:id/check", c.jsonBody, c.postCheck)
	in.PUT("/tasks/:id/draft", c.jsonBody, c.putDraft)
	in.POST("/tasks/:id/answer", c.jsonBody, c.postAnswer)
	in.POST("/tasks/:id/candidates", c.jsonBody, c.postCandidates)
	return r
}

const (
	pathHealth   = "/health"
	pathRequests = "/v1/coaching/requests"
)

// connectionLog passes net/http's own messages to the log at debug level:
// clients cause most of them.
type connectionLog struct{ log zerolog.Logger }

var _ io.Writer = connectionLog{}

func (l connectionLog) Write(p []byte) (int, error) {
	l.log.Debug().Bytes("message", p).Msg("http")
	return len(p), nil
}
