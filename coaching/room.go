package coaching

import (
	"context"

	"agentd/coaching/backend"
	"agentd/coaching/coach"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"
)

// room is a session with its coaches and connections on this server.
type room struct {
	*session.Session
	keys    *quote.Redactor
	models  *coach.Models // nil if only people coach
	coaches []coach.Coach // in the order in which they are asked
}

// rooms makes the rooms of a service, and has what they share.
type rooms struct {
	opts    Options // with the defaults
	metrics *metrics
	people  *egress.Policy // of the operator's people; nil without any
	breaker *coach.Breaker // of the operator's people

	requestBytes *session.Budget // for the requests of all sessions
	answerBytes  *session.Budget // for their kept responses

	// alive ends when the service is closed, base when the close aborts requests in progress.
	base, alive context.Context
}

// open makes a session's room. released is called after the session is released.
func (s *rooms) open(rec store.Record, released func()) (*room, error) {
	cfg := rec.Config
	o := s.opts.Egress
	o.ConnectTimeout = protocol.Seconds(cfg.ConnectTimeout)
	keys := []protocol.Headers{quote.QueryKeys(cfg.Endpoint), quote.QueryKeys(s.opts.People.Endpoint)}
	for _, def := range cfg.Backends {
		keys = append(keys, def.Headers, quote.QueryKeys(def.Endpoint))
	}
	clients := []*egress.Client{s.opts.Policy.NewClient(o)}
	r := &room{keys: quote.NewRedactor(keys...)}
	env := &coach.Env{
		Keys: r.keys, Log: s.opts.Log.With().Str("run_id", quote.ID(rec.RunID)).Logger(), Tried: s.metrics.attempt,
		Sleep: s.opts.Sleep, Rand: s.opts.Rand, Now: s.opts.Now,
	}
	retryAfter := store.RetryAfter
	if cfg.Provider == protocol.ProviderHuman {
		r.coaches = []coach.Coach{coach.NewPeople(env, cfg.Endpoint, clients[0], nil, false)}
	} else {
		var err error
		r.models, err = coach.NewModels(env, cfg.Backends, backend.Options{Client: clients[0], Local: s.opts.Local, Redactor: r.keys})
		if err != nil {
			clients[0].Close()
			return nil, err
		}
		r.coaches = []coach.Coach{r.models}
		retryAfter = modelsRetryAfter
	}
	if r.models != nil && s.people != nil {
		clients = append(clients, s.people.NewClient(o))
		last := s.opts.People.When == PeopleFailed
		people := coach.NewPeople(env, s.opts.People.Endpoint, clients[1], s.breaker, last)
		if r.coaches = []coach.Coach{people, r.models}; last {
			r.coaches = []coach.Coach{r.models, people}
		}
		retryAfter = store.RetryAfter
	}
	r.Session = session.New(rec, session.Options{
		Workers: s.opts.Workers, Queue: s.opts.Queue, RetryAfter: retryAfter,
		Bytes: s.requestBytes, Share: s.opts.MaxBytes / sessionShare, AnswerBytes: s.answerBytes, Abort: s.base,
		Released: func() {
			for _, c := range clients {
				c.Close()
			}
			released()
		},
	})
	env.Session = r.Session
	return r, nil
}
