package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"agentd/internal/base/budget"
	"agentd/internal/base/lru"
	"agentd/internal/http/connection"
	"agentd/internal/http/webpage"
)

// Console is the server. Make it with Open and end it with Close.
type Console struct {
	opts   Options
	store  *store
	tasks  *taskService
	views  *lru.Cache[*taskView] // of the tasks that were used last, by taskID
	auth   *authenticator
	page   *webpage.Page
	asking chan struct{} // bounds concurrent requests to the agent server
	http   *http.Server
	end    context.CancelCauseFunc
	ended  context.Context
	loops  sync.WaitGroup
}

//go:embed web
var builtIn embed.FS

// Open opens the store and makes a Console on it.
func Open(o Options) (*Console, error) {
	o.Claim, o.Keep, o.Memory = cmp.Or(o.Claim, DefaultClaim), cmp.Or(o.Keep, DefaultKeep), cmp.Or(o.Memory, budget.New(budget.Default))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewSecret == nil {
		o.NewSecret = rand.Text
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
		store:  s,
		tasks:  tasks,
		views:  lru.New[*taskView](maxViews, maxViewBytes),
		auth:   newAuthenticator(o.Tokens, o.Now),
		page:   pages,
		asking: make(chan struct{}, maxAsking),
		end:    end,
		ended:  ended,
	}
	c.http = connection.NewServer(c.routes(), o.Log)
	c.loops.Go(c.housekeeping)
	return c, nil
}

// Serve accepts connections on l until Shutdown or Close. It always closes l
// and returns nil after those two.
func (c *Console) Serve(l net.Listener) error {
	return connection.Serve(c.http, l, c.opts.Certificates, func(status int, detail string) {
		c.opts.Log.Debug().Int("status", status).Str("detail", detail).Msg("invalid HTTP request")
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
				c.opts.Log.Error().Err(err).Msg("removal of old tasks failed")
			}
		case <-c.ended.Done():
			return
		}
	}
}
