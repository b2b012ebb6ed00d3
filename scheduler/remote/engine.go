package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// Engine sends requests to the engines at the URLs of its Config. It is safe for concurrent use.
type Engine struct {
	cfg      Config
	key      string
	model    Model
	log      zerolog.Logger
	client   *http.Client
	replicas []*replica
	adapters adapters
	relist   time.Duration // relistAfter
	limits   limits
	joined   chan joined   // for Start
	started  chan struct{} // closed when Start no longer reads joined

	mu     sync.Mutex
	name   string // the API
	totals Totals // without the counters that are sums over replicas

	// base ends when the engine is closed.
	base  context.Context
	close context.CancelFunc
	group sync.WaitGroup
}

// New makes an engine. [Engine.Start] must be called next.
func New(cfg Config, model Model, log zerolog.Logger) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Connections == 0 {
		cfg.Connections = DefaultConnections
	}
	key, err := cfg.key()
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, key: key, model: model, log: log, client: newClient(cfg.Connections, nil), relist: relistAfter,
		limits: defaultLimits, joined: make(chan joined), started: make(chan struct{})}
	e.base, e.close = context.WithCancel(context.Background())
	for i, url := range cfg.URLs {
		r := &replica{index: i, url: base(url), why: errNotAsked, wake: make(chan struct{}, 1)}
		r.life, r.end = context.WithCancelCause(e.base)
		r.probes = newClient(1, func() {
			if r.available() { // does it still live?
				r.wakeUp()
			}
		})
		e.replicas = append(e.replicas, r)
	}
	return e, nil
}

// Close ends the calls in flight and releases the connections.
func (e *Engine) Close() {
	e.close()
	e.group.Wait()
	e.client.CloseIdleConnections()
	for _, r := range e.replicas {
		r.probes.CloseIdleConnections()
	}
}

// API returns the API of the engines. It is known after Start.
func (e *Engine) API() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.name
}

// Served returns the engines' name of the model, known after Start. If the names differ, it is that of
// the first engine that gets work.
func (e *Engine) Served() string { return e.known()[0].served }

// known returns the identities of the engines that get work; without any, of all that ever joined;
// without any, the zero identity.
func (e *Engine) known() (list []identity) {
	for _, only := range []bool{true, false} {
		for _, r := range e.replicas {
			if id := r.identity(); id.api != "" && (!only || r.available()) {
				list = append(list, id)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return []identity{{}}
}

// NoLogprobs returns the reason why the engines can't report logprobs, "" if they can. It is known after Start.
func (e *Engine) NoLogprobs() string {
	if e.API() == APISGLang {
		return "the engine's API (" + APISGLang + ") reports logprobs after temperature and grammar, not the model's"
	}
	return ""
}

// Context returns the most tokens of a prompt with its answer, 0 if an engine does not report it.
func (e *Engine) Context() int {
	most := 0
	for _, id := range e.known() {
		if id.context == 0 {
			return 0
		}
		most = max(most, id.context)
	}
	return most
}

// Healthy reports whether at least one engine gets work.
func (e *Engine) Healthy() bool { return slices.ContainsFunc(e.replicas, (*replica).available) }

// Generate completes one prompt. The error is [generation.ErrClosed], a
// [*generation.BusyError], ctx's, or the engine's.
func (e *Engine) Generate(ctx context.Context, req *generation.Request) (generation.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	defer context.AfterFunc(e.base, func() { cancel(generation.ErrClosed) })()
	start := time.Now()
	if len(req.Seeds) != req.N {
		return generation.Result{}, fmt.Errorf("%d seeds for %d completions", len(req.Seeds), req.N)
	}
	if req.Distinct != nil || req.Choice != nil {
		return generation.Result{}, errors.New("remote: an engine at a URL can't search for Distinct or Choice")
	}
	if req.ScoreFrom > 0 || req.Masks || req.Resume != nil {
		return generation.Result{}, fmt.Errorf("%w: scores of a prompt, sampling masks and answers that go on need the embedded engine", generation.ErrRemote)
	}
	if req.Top > 0 || req.Salt != "" || req.Stop != nil && len(req.Stop.Tokens) > 0 {
		return generation.Result{}, fmt.Errorf("%w: top logprobs, a salt of the cache and tokens that stop an answer need the embedded engine", generation.ErrRemote)
	}
	if req.Least > 0 && !req.IgnoreEnd && e.API() == APILlamaServer {
		return generation.Result{}, fmt.Errorf("%w: llama-server has no min_tokens; set it to max_tokens, or remove it", generation.ErrRemote)
	}
	out := generation.Result{Completions: make([]generation.Completion, req.N)}
	wanted := make([]int, req.N)
	for i := range wanted {
		wanted[i] = i
	}
	for try := 0; len(wanted) > 0; try++ {
		a, err := e.ask(ctx, req, len(wanted), retrySeed(req.Seeds[wanted[0]], try))
		if err != nil {
			return generation.Result{}, err
		}
		if try == 0 {
			out.PromptTokens, out.CachedTokens, out.Version = len(req.Prompt), max(a.cached, 0), a.served
		}
		var again []int
		for k, i := range wanted {
			var ok bool
			if out.Completions[i], ok = e.completion(req, &a.choices[k]); !ok {
				again = append(again, i)
			}
		}
		if try == e.cfg.Retries {
			break
		}
		e.mu.Lock()
		e.totals.AskedAgain += uint64(len(again))
		e.mu.Unlock()
		wanted = again
	}
	out.Times = generation.Times{Submitted: start, End: time.Since(start)}
	return out, nil
}

// retrySeed returns the seed of a try; try 0 has the candidate's own.
func retrySeed(seed uint32, try int) uint32 { return seed + uint32(try)*0x9e3779b9 }

// completion makes a completion of a choice. ok is false if it violates the request's grammar or
// another setting that the engine could not enforce.
func (e *Engine) completion(req *generation.Request, c *choice) (done generation.Completion, ok bool) {
	ids := c.ids
	if n := len(ids); n > 0 && e.model.IsEnd(ids[n-1]) && !req.IgnoreEnd {
		done.Stop, done.StopToken = e.model.Detokenize(ids[n-1:]), ids[n-1]
		ids = ids[:n-1]
	}
	if req.Scores {
		done.Scores, done.OnlyLogprobs = scores(c.logprobs), true
	}
	stopped := e.stop(req, &ids, &done)
	done.Tokens, done.Text, done.Finish = ids, e.model.Detokenize(ids), generation.FinishStop
	switch {
	case c.refused != "":
		done.Finish, done.Err = generation.FinishError, errors.New(c.refused)
		return done, true
	case c.length && !stopped:
		done.Finish = generation.FinishLength
		return done, true // the agent says that it was cut
	case req.Grammar == "":
		return done, true
	}
	at, err := e.model.Check(req.Grammar, ids)
	if err != nil {
		done.Finish, done.Err = generation.FinishError, err
		return done, true
	}
	if at < len(ids) && (at >= 0 || !stopped) {
		e.log.Debug().Int("token", at).Str("text", done.Text).Msg("engine broke the grammar; asking again")
		return done, false
	}
	return done, true
}

// stop cuts ids after the token that completes a text of Params.Stop, which engines search in plain text only.
func (e *Engine) stop(req *generation.Request, ids *[]generation.Token, done *generation.Completion) (stopped bool) {
	if req.Stop == nil {
		return false
	}
	all, n := *ids, 0
	ends := func(n int) bool { return req.Stop.Ends(e.model.Detokenize(all[:n])) }
	if req.Stop.Visible == nil {
		n = sort.Search(len(all)+1, ends)
	} else { // more text may hide what was visible
		for n <= len(all) && !ends(n) {
			n++
		}
	}
	if n > len(all) {
		return false
	}
	*ids, done.Stop, done.StopToken = all[:n], "", 0
	done.Scores = done.Scores[:min(n, len(done.Scores))]
	return true
}

// scores converts logprobs to scores.
func scores(logprobs []*float32) []generation.Score {
	list := make([]generation.Score, len(logprobs))
	unknown := float32(math.NaN())
	for i, p := range logprobs {
		list[i] = generation.Score{Logprob: unknown, Masked: math.NaN()}
		if p != nil {
			list[i].Logprob = *p
		}
	}
	return list
}

// ask makes as many calls as are needed for n completions, and joins their answers.
func (e *Engine) ask(ctx context.Context, req *generation.Request, n int, seed uint32) (answer, error) {
	width := n
	for _, id := range e.known() {
		if id.slots > 0 {
			width = min(width, id.slots)
		}
	}
	if req.Temperature <= 0 {
		width = 1 // vLLM refuses to draw several where all are equal
	}
	var all answer
	for done := 0; done < n; {
		c := call{Request: req, n: min(width, n-done), seed: seed + uint32(done)}
		if !req.IgnoreEnd {
			c.ends = e.model.Ends()
		}
		if req.Stop != nil && req.Stop.Visible == nil {
			c.stops = req.Stop.Texts
		}
		if req.SuppressControl {
			c.excluded = append(c.excluded, e.model.Control()...)
		}
		c.excluded = append(c.excluded, req.Suppress...)
		a, err := e.send(ctx, &c)
		if err != nil {
			return answer{}, err
		}
		if done == 0 {
			all = answer{served: a.served, prompt: a.prompt, cached: a.cached}
		}
		all.choices = append(all.choices, a.choices...)
		done += c.n
	}
	return all, nil
}

// inOrder sorts the choices of a call by their indexes, which must be 0 to n-1.
func (a *answer) inOrder(n int) error {
	list := make([]choice, n)
	seen := make([]bool, n)
	for _, c := range a.choices {
		if c.index < 0 || c.index >= n || seen[c.index] {
			return fmt.Errorf("the engine returned completion %d of %d", c.index, n)
		}
		list[c.index], seen[c.index] = c, true
	}
	if len(a.choices) != n {
		return fmt.Errorf("the engine returned %d completions where %d were asked for", len(a.choices), n)
	}
	a.choices = list
	return nil
}

// errOtherModel is the error of an answer by another model than the call's adapter.
var errOtherModel = errors.New("another model answered")

// check checks an answer against its call, and limits its counts of tokens to plausible ones.
func (a *answer) check(c *call, m Model) error {
	if err := a.inOrder(c.n); err != nil {
		return err
	}
	if c.lora != "" && a.model != "" && a.model != c.lora { // some engines take any name for their model
		return fmt.Errorf("the adapter %q is not served here any more: %w, %q", c.lora, errOtherModel, cut(a.model))
	}
	a.prompt, a.cached = min(max(a.prompt, 0), len(c.Prompt)), min(a.cached, len(c.Prompt))
	for i := range a.choices {
		one := &a.choices[i]
		n := len(one.ids)
		if n > 0 && m.IsEnd(one.ids[n-1]) {
			n-- // some count the end, and some do not
		}
		if n > c.MaxTokens {
			return fmt.Errorf("completion %d has %d tokens where at most %d were asked for", i, n, c.MaxTokens)
		}
		for _, id := range one.ids {
			if id < 0 || int(id) >= m.Size() {
				return fmt.Errorf("completion %d has the token %d, which is not one of the %d in the vocabulary", i, id, m.Size())
			}
		}
		if c.Scores && len(one.logprobs) != len(one.ids) {
			return fmt.Errorf("completion %d has %d logprobs for %d tokens; leave logprobs out of extra_keys.return and candidates out of extra_keys, or use an engine that returns them", i, len(one.logprobs), len(one.ids))
		}
	}
	return nil
}

// errUnreachable is the error of a call without an answer, or whose answer stalled: it may be sent to another engine.
type errUnreachable struct{ err error }

func (e *errUnreachable) Error() string { return e.err.Error() }
func (e *errUnreachable) Unwrap() error { return e.err }

// send sends a call to the first engine, in the session's order, that takes it.
func (e *Engine) send(ctx context.Context, c *call) (answer, error) {
	c.adapter = e.adapters.name(c.Adapter)
	if c.Adapter != 0 && c.adapter == "" {
		return answer{}, fmt.Errorf("no engine has listed an adapter with the id %d", c.Adapter)
	}
	var busy, cannot error
	for _, r := range e.order(c.Request) {
		id := r.identity()
		if err := e.address(c, r, id); err != nil {
			cannot = err
			continue
		}
		a, err := e.attempt(ctx, r, id, c)
		var lost *errUnreachable
		switch {
		case err == nil:
			return a, nil
		case errors.As(err, &lost):
			ev := gone
			if errors.Is(err, errStalled) {
				ev = stalled
			}
			e.lost(r, ev, err)
		case errors.As(err, new(*generation.BusyError)):
			busy = err // the next one may be free; this says more than unreachable
		default:
			return answer{}, err
		}
	}
	switch {
	case e.base.Err() != nil:
		return answer{}, generation.ErrClosed // its replicas were lost to that
	case busy != nil:
		return answer{}, busy
	case cannot != nil && !slices.ContainsFunc(e.replicas, func(r *replica) bool { return !r.available() }):
		return answer{}, cannot // none that is out may be able to
	}
	err := e.unreachable()
	e.log.Error().Err(err).Msg("a request found no engine")
	return answer{}, &generation.BusyError{Reason: err.Error(), RetryAfter: defaultRetryAfter}
}

// address sets the fields of a call that depend on the engine. The error is the reason why the engine can't take it.
func (e *Engine) address(c *call, r *replica, id identity) error {
	list := e.adapters.of(r)
	if _, ok := list[c.adapter]; c.adapter != "" && !ok {
		return fmt.Errorf("no engine serves the adapter %q any more", c.adapter)
	}
	if need := len(c.Prompt) + c.MaxTokens; id.context > 0 && need > id.context {
		return &generation.OverflowError{Prompt: len(c.Prompt), MaxNew: c.MaxTokens, Limit: id.context}
	}
	c.model, c.lora, c.loras, c.grammar = id.served, c.adapter, loras(list, c.adapter), c.Grammar
	if c.lora == "" && id.lora {
		c.lora = id.served
	}
	if !id.agentd {
		c.grammar = e.model.PlainGrammar(c.Grammar)
	}
	return nil
}

// attempt sends a call to one engine. After an *errUnreachable or a *generation.BusyError it may be
// sent to another one.
func (e *Engine) attempt(ctx context.Context, r *replica, id identity, c *call) (a answer, err error) {
	api := dialectOf(id)
	body, err := api.body(c)
	if err != nil {
		return a, err
	}
	text, err := e.post(ctx, r, api.path(), body, bytesOfAnswer+int64(c.n)*int64(c.MaxTokens)*bytesPerToken, c.Session)
	switch ended := ctx.Err(); {
	case ended == nil:
	case e.base.Err() != nil:
		return a, generation.ErrClosed
	case errors.As(err, new(*generation.LateError)):
		return a, err
	default:
		return a, ended
	}
	if err != nil {
		if errors.As(err, new(*errUnreachable)) || errors.As(err, new(*generation.BusyError)) {
			return a, err
		}
		if c.adapter != "" {
			e.listAgain() // it may have been removed
		}
		return a, fmt.Errorf("engine %s: %w", r.url, err)
	}
	if a, err = api.read(text, c.n); err == nil {
		err = a.check(c, e.model)
	}
	if errors.Is(err, errOtherModel) {
		e.listAgain()
	}
	if err != nil {
		r.failed("answer")
		if text := said(text, "error"); text != "" { // of a gateway that answers with status 200
			err = errors.New(cut(text))
		}
		return answer{}, fmt.Errorf("engine %s: %w", r.url, err)
	}
	a.served = id.served
	for i := range a.choices {
		if one := &a.choices[i]; one.refused != "" {
			one.refused = fmt.Sprintf("engine %s ended the completion: %s", r.url, cut(one.refused))
		}
	}
	r.answered(&a)
	return a, nil
}

// unreachable returns the reasons why no engine gets work, and makes all watchers try again.
func (e *Engine) unreachable() error {
	err := generation.ErrUnreachable
	for _, r := range e.replicas {
		r.mu.Lock()
		why := r.why
		r.mu.Unlock()
		if why != nil {
			err = fmt.Errorf("%w; engine %s: %s", err, r.url, cut(why.Error()))
			r.wakeUp()
		}
	}
	return err
}
