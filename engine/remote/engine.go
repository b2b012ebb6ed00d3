package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// Engine asks the engines at the URLs of its Config. It is safe for concurrent use.
type Engine struct {
	cfg      Config
	key      string
	model    Model
	log      zerolog.Logger
	client   *http.Client
	replicas []*replica
	api      dialect
	name     string // of the API
	served   string // the model's name in requests
	agentd   bool   // the engines are agentd: they know the marks of grammars
	width    int    // completions that one call may have; 0: no limit
	context  int    // tokens of a prompt with its answer; 0: not known
	adapters adapters
	relist   time.Duration // relistAfter

	mu       sync.Mutex
	admitted int // completions
	// Counts for Totals.
	refused, finished, cancelled, broken, again uint64

	// base ends when the engine is closed.
	base  context.Context
	close context.CancelFunc
	group sync.WaitGroup
}

// New makes an engine; [Engine.Start] must follow.
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
	e := &Engine{cfg: cfg, key: key, model: model, log: log, client: newClient(cfg.Connections), relist: relistAfter}
	e.base, e.close = context.WithCancel(context.Background())
	for i, url := range cfg.URLs {
		e.replicas = append(e.replicas, &replica{index: i, url: url})
	}
	return e, nil
}

// Close ends the calls in flight and releases the connections.
func (e *Engine) Close() {
	e.close()
	e.group.Wait()
	e.client.CloseIdleConnections()
}

// API returns the API that the engines speak, after Start.
func (e *Engine) API() string { return e.name }

// Served returns the engines' name of the model, after Start.
func (e *Engine) Served() string { return e.served }

// NoLogprobs returns the reason why extra_keys.return can't have logprobs, nor candidates a
// probability, after Start. "": they can.
func (e *Engine) NoLogprobs() string {
	if e.name == APISGLang {
		return "the engine's API (" + APISGLang + ") tells logprobs after the temperature and the grammar, not the model's"
	}
	return ""
}

// Context returns the most tokens of a prompt with its answer, 0 if the engine does not tell.
func (e *Engine) Context() int { return e.context }

// Healthy reports whether at least one engine can be reached.
func (e *Engine) Healthy() bool {
	for _, r := range e.replicas {
		if r.available() {
			return true
		}
	}
	return false
}

// Generate completes one prompt. Errors are [generation.ErrClosed],
// [*generation.BusyError], that of ctx, or of the engine.
func (e *Engine) Generate(ctx context.Context, req *generation.Request) (generation.Result, error) {
	ctx, cancel := e.within(ctx)
	defer cancel()
	start := time.Now()
	if len(req.Seeds) != req.N {
		return generation.Result{}, fmt.Errorf("%d seeds for %d completions", len(req.Seeds), req.N)
	}
	if req.Distinct != nil {
		return e.generateDistinct(ctx, req)
	}
	out := generation.Result{Completions: make([]generation.Completion, req.N)}
	plain := *req
	if !e.agentd {
		plain.Grammar = e.model.PlainGrammar(req.Grammar)
	}
	wanted := make([]int, req.N)
	for i := range wanted {
		wanted[i] = i
	}
	for try := 0; len(wanted) > 0; try++ {
		a, err := e.ask(ctx, &plain, len(wanted), retrySeed(req.Seeds[wanted[0]], try))
		if err != nil {
			return generation.Result{}, err
		}
		if try == 0 {
			out.PromptTokens, out.CachedTokens = len(req.Prompt), max(a.cached, 0)
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
		e.again += uint64(len(again))
		e.mu.Unlock()
		wanted = again
	}
	out.Times = generation.Times{Submitted: start, End: time.Since(start)}
	return out, nil
}

// retrySeed is the seed of a try; the first one has the candidate's own.
func retrySeed(seed uint32, try int) uint32 { return seed + uint32(try)*0x9e3779b9 }

// completion makes a completion of a choice. ok is false when it breaks a rule of the
// request that the engine could not enforce.
func (e *Engine) completion(req *generation.Request, c *choice) (done generation.Completion, ok bool) {
	ids := c.ids
	if n := len(ids); n > 0 && e.model.IsEnd(ids[n-1]) && !req.IgnoreEnd {
		done.Stop, done.StopToken = e.model.Detokenize(ids[n-1:]), ids[n-1]
		ids = ids[:n-1]
	}
	if req.Scores {
		done.Scores, done.OnlyLogprobs = scores(c.logprobs), true
	}
	done.Tokens, done.Text, done.Finish = ids, e.model.Detokenize(ids), generation.FinishStop
	switch {
	case c.refused != "":
		done.Finish, done.Err = generation.FinishError, fmt.Errorf("the engine ended the completion: %s", c.refused)
		return done, true
	case c.length:
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
	if at < len(ids) {
		e.log.Debug().Int("token", at).Str("text", done.Text).Msg("engine broke the grammar; asking again")
		return done, false
	}
	return done, true
}

// scores makes scores of logprobs.
func scores(logprobs []*float32) []generation.Score {
	list := make([]generation.Score, len(logprobs))
	unknown := float32(math.NaN())
	for i, p := range logprobs {
		list[i] = generation.Score{Logprob: unknown, Masked: unknown}
		if p != nil {
			list[i].Logprob = *p
		}
	}
	return list
}

// within is ctx, which also ends when the engine is closed.
func (e *Engine) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.base, func() { cancel(generation.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// ask makes as many calls as n completions need, and joins their answers.
func (e *Engine) ask(ctx context.Context, req *generation.Request, n int, seed uint32) (answer, error) {
	width := n
	if e.width > 0 {
		width = min(n, e.width)
	}
	if req.Temperature <= 0 {
		width = 1 // vLLM refuses to draw several where all are equal
	}
	var all answer
	for done := 0; done < n; {
		c := call{Request: req, model: e.served, n: min(width, n-done), seed: seed + uint32(done), ends: e.model.Ends()}
		if req.SuppressControl {
			c.excluded = append(c.excluded, e.model.Control()...)
		}
		c.excluded = append(c.excluded, req.Suppress...)
		a, err := e.send(ctx, &c)
		if err != nil {
			return answer{}, err
		}
		if done == 0 {
			all.prompt, all.cached = a.prompt, a.cached
		}
		all.choices = append(all.choices, a.choices...)
		done += c.n
	}
	return all, nil
}

// inOrder puts the choices of a call into the order of their indexes.
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

// scored checks that each token has a logprob if the call asked for scores.
func (a *answer) scored(c *call) error {
	for i := range a.choices {
		if one := &a.choices[i]; c.Scores && len(one.logprobs) != len(one.ids) {
			return fmt.Errorf("completion %d has %d logprobs for %d tokens; leave logprobs out of extra_keys.return and candidates out of extra_keys, or use an engine that returns them", i, len(one.logprobs), len(one.ids))
		}
	}
	return nil
}

// errUnreachable is a failure before the first byte of an answer: another engine may be
// asked.
type errUnreachable struct{ err error }

func (e *errUnreachable) Error() string { return e.err.Error() }
func (e *errUnreachable) Unwrap() error { return e.err }

// send makes one call, by the first engine in the session's order that takes it.
func (e *Engine) send(ctx context.Context, c *call) (answer, error) {
	c.adapter = e.adapters.name(c.Adapter)
	if c.Adapter != 0 && c.adapter == "" {
		return answer{}, fmt.Errorf("no engine has listed an adapter with the id %d", c.Adapter)
	}
	var failed error
	tried := false
	for _, r := range e.order(c.Request) {
		list := e.adapters.of(r)
		if _, ok := list[c.adapter]; c.adapter != "" && !ok {
			continue
		}
		tried = true
		c.loras = loras(list, c.adapter)
		body, err := e.api.body(c)
		if err != nil {
			return answer{}, err
		}
		var text []byte
		text, err = e.post(ctx, r, e.api.path(), body, answerLimit(c), c.Session)
		if err := ctx.Err(); err != nil {
			if e.base.Err() != nil {
				err = generation.ErrClosed
			}
			return answer{}, err
		}
		if err == nil {
			a, err := e.api.read(text, c.n)
			if err == nil {
				err = a.inOrder(c.n)
			}
			if err == nil {
				err = a.scored(c)
			}
			if err != nil {
				r.failed("answer")
				return answer{}, fmt.Errorf("engine %s: %w", r.url, err)
			}
			r.answered(&a)
			return a, nil
		}
		var busy *generation.BusyError
		var lost *errUnreachable
		switch {
		case errors.As(err, &lost):
			e.lost(r, err)
		case errors.As(err, &busy): // the next one may have room
		default:
			if c.adapter != "" {
				e.listAgain() // it may have been removed
			}
			return answer{}, fmt.Errorf("engine %s: %w", r.url, err)
		}
		if failed == nil || busy != nil {
			failed = err // busy tells more than unreachable
		}
	}
	var busy *generation.BusyError
	if errors.As(failed, &busy) {
		return answer{}, failed
	}
	if !tried {
		return answer{}, fmt.Errorf("no engine serves the adapter %q any more", c.adapter)
	}
	if failed == nil {
		failed = errors.New("all were lost before")
	}
	e.log.Error().Err(failed).Msg("no engine can be reached")
	return answer{}, &generation.BusyError{Reason: generation.ErrUnreachable.Error(), RetryAfter: defaultRetryAfter}
}

func answerLimit(c *call) int64 {
	return bytesOfAnswer + int64(c.n)*int64(c.MaxTokens)*bytesPerToken
}
