package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"agentd/internal/tracing"
	"agentd/scheduler/generation"
)

// replica is one engine.
type replica struct {
	index int
	url   string
	// verified is set once its vocabulary was compared. Only Start and its one probe use it.
	verified bool

	mu       sync.Mutex
	inFlight int
	lost     bool // left out until a probe reaches it
	stats    Stats
}

// Stats are what was counted for one engine.
type Stats struct {
	URL       string
	Available bool
	InFlight  int
	Requests  uint64
	// Errors by kind: unreachable, busy, status, answer.
	Errors                     map[string]uint64
	PromptTokens, CachedTokens uint64
	CompletionTokens           uint64
}

// Stats returns the counts of each engine, in the order of Config.URLs.
func (e *Engine) Stats() []Stats {
	list := make([]Stats, len(e.replicas))
	for i, r := range e.replicas {
		r.mu.Lock()
		list[i] = r.stats
		list[i].URL, list[i].Available, list[i].InFlight = r.url, !r.lost, r.inFlight
		list[i].Errors = make(map[string]uint64, len(r.stats.Errors))
		for kind, n := range r.stats.Errors {
			list[i].Errors[kind] = n
		}
		r.mu.Unlock()
	}
	return list
}

func (r *replica) available() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost
}

func (r *replica) load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight
}

func (r *replica) failed(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Errors == nil {
		r.stats.Errors = map[string]uint64{}
	}
	r.stats.Errors[kind]++
}

func (r *replica) answered(a *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.PromptTokens += uint64(max(a.prompt, 0))
	r.stats.CachedTokens += uint64(max(a.cached, 0))
	for i := range a.choices {
		r.stats.CompletionTokens += uint64(len(a.choices[i].ids))
	}
}

// begin counts a call; the returned function ends it.
func (r *replica) begin() func() {
	r.mu.Lock()
	r.inFlight++
	r.stats.Requests++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.inFlight--
		r.mu.Unlock()
	}
}

// order returns the engines in the order in which a request tries them: by rendezvous
// hashing of its session, with the first two exchanged when the first is behind. Lost
// ones come last, since a request that finds all lost must still try.
func (e *Engine) order(req *generation.Request) []*replica {
	if len(e.replicas) == 1 {
		return e.replicas
	}
	key := affinity(req)
	if name := e.adapters.name(req.Adapter); name != "" { // another adapter shares no prefix
		key += "\x00" + name
	}
	list := slices.Clone(e.replicas)
	weights := make([]uint64, len(list))
	for i, r := range list {
		weights[i] = weigh(key, r.url)
	}
	lost := make([]bool, len(list))
	for i, r := range list {
		lost[i] = !r.available()
	}
	slices.SortFunc(list, func(a, b *replica) int {
		if lost[a.index] != lost[b.index] {
			return boolRank(lost[a.index]) - boolRank(lost[b.index])
		}
		return cmp.Compare(weights[b.index], weights[a.index])
	})
	if !lost[list[1].index] && list[0].load() > behindFactor*list[1].load()+behindSlack {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// affinity identifies what a request shares with others: its session, else the
// beginning of its prompt.
func affinity(req *generation.Request) string {
	if req.Session != "" {
		return req.Session
	}
	ids := req.Prompt[:min(len(req.Prompt), affinityTokens)]
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}

// weigh is the weight of an engine for a key. It is the same in every process, so that
// several agentd agree.
func weigh(key, url string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a, 64 bits
	h := uint64(offset)
	for _, s := range []string{key, "\x00", url} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	// FNV's high bits depend little on the last bytes: mix them (the finalizer of MurmurHash3).
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// lost leaves a replica out until a probe reaches it.
func (e *Engine) lost(r *replica, err error) {
	r.mu.Lock()
	first := !r.lost
	r.lost = true
	r.mu.Unlock()
	if !first || e.base.Err() != nil {
		return
	}
	e.log.Warn().Str("engine", r.url).Err(err).Msg("engine unreachable; left out until it answers")
	e.group.Go(func() {
		wait := minBackoff
		for {
			select {
			case <-e.base.Done():
				return
			case <-time.After(wait):
			}
			if e.probe(r) == nil {
				break
			}
			wait = min(2*wait, maxBackoff)
		}
		ctx, cancel := context.WithTimeout(e.base, probeTimeout)
		if err := e.listAdaptersOf(ctx, r); err != nil { // they may be others now
			e.log.Warn().Str("engine", r.url).Err(err).Msg("engine does not list its adapters")
		}
		cancel()
		r.mu.Lock()
		r.lost = false
		r.mu.Unlock()
		e.log.Info().Str("engine", r.url).Msg("engine reachable again")
	})
}

// probe asks whether an engine is there and serves the same vocabulary.
func (e *Engine) probe(r *replica) error {
	ctx, cancel := context.WithTimeout(e.base, probeTimeout)
	defer cancel()
	if _, err := e.get(ctx, r, "/health"); err != nil {
		return err
	}
	if r.verified {
		return nil
	}
	ctx, cancel = context.WithTimeout(e.base, verifyTimeout)
	defer cancel()
	err := e.verify(ctx, r)
	if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
		e.log.Error().Str("engine", r.url).Err(err).Msg("engine has another vocabulary; left out")
	}
	return err
}

func newClient(connections int) *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               nil,
			DialContext:         dialer.DialContext,
			MaxConnsPerHost:     connections,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// get reads a small answer.
func (e *Engine) get(ctx context.Context, r *replica, path string) ([]byte, error) {
	return e.exchange(ctx, r, http.MethodGet, path, nil, bytesOfAnswer, "")
}

// post makes a call of a request.
func (e *Engine) post(ctx context.Context, r *replica, path string, body []byte, limit int64, session string) ([]byte, error) {
	defer r.begin()()
	text, err := e.exchange(ctx, r, http.MethodPost, path, body, limit, session)
	if err != nil && ctx.Err() == nil {
		r.failed(kindOf(err))
	}
	return text, err
}

func kindOf(err error) string {
	var unreachable *errUnreachable
	var busy *generation.BusyError
	switch {
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &busy):
		return "busy"
	}
	return "status"
}

// StatusError is an error answer of an engine.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Text) }

func (e *Engine) exchange(ctx context.Context, r *replica, method, path string, body []byte, limit int64, session string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	tracing.Inject(ctx, req.Header)
	res, err := e.client.Do(req)
	if err != nil {
		return nil, &errUnreachable{err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", limit)
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		return nil, &generation.BusyError{Reason: "the engine at " + r.url + " is busy", RetryAfter: retryAfter(res.Header)}
	case res.StatusCode != http.StatusOK:
		return nil, &StatusError{res.StatusCode, errorOf(text)}
	}
	return text, nil
}

// retryAfter reads the header's seconds.
func retryAfter(h http.Header) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return min(time.Duration(s)*time.Second, time.Minute)
	}
	return defaultRetryAfter
}
