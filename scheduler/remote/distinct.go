package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"agentd/scheduler/generation"
)

// drawn are the different completions of a request so far. They are drawn with replacement:
// an API can't continue several tokens of one position.
type drawn struct {
	found  []generation.Completion
	keys   []string
	paths  map[string]bool         // the tokens of all completions with a key
	failed []generation.Completion // without a key
}

// generateDistinct draws completions until N of them differ, at most drawsEach for each. They
// are ranked by the model's probability. If the time is up first, those that were drawn stay.
func (e *Engine) generateDistinct(ctx context.Context, req *generation.Request) (generation.Result, error) {
	start := time.Now()
	if req.Temperature <= 0 {
		return generation.Result{}, errors.New("remote: Distinct needs a temperature above 0, since completions are drawn")
	}
	plain := *req
	plain.Scores = true
	var out generation.Result
	d := drawn{paths: map[string]bool{}}
	draws, missing := 0, error(nil)
	for most := req.N * drawsEach; draws < most && len(d.found) < req.N; {
		n := min(req.N, most-draws)
		a, err := e.ask(ctx, &plain, n, req.Seeds[0]+uint32(draws))
		if err != nil {
			if len(d.found) > 0 && errors.Is(err, context.DeadlineExceeded) {
				missing = err
				break
			}
			return out, err
		}
		if draws == 0 {
			out.PromptTokens, out.CachedTokens, out.Version = len(req.Prompt), max(a.cached, 0), a.served
		}
		for i := range a.choices {
			d.add(e, req, &a.choices[i])
		}
		draws += n
	}
	if missing == nil {
		missing = fmt.Errorf("%w: %d samples of the engine had %d", generation.ErrFewer, draws, len(d.found))
	}
	out.Completions = d.ranked(req.N, missing)
	out.Times = generation.Times{Submitted: start, End: time.Since(start)}
	return out, nil
}

// add adds a choice. Its probability is the product of those that the engine reports.
func (d *drawn) add(e *Engine, req *generation.Request, c *choice) {
	done, ok := e.completion(req, c)
	if !ok {
		return // it broke the grammar
	}
	key, ok := "", false
	if done.Finish == generation.FinishStop {
		key, ok = req.Distinct.Key(done.Text)
	}
	if !ok {
		d.failed = append(d.failed, done)
		return
	}
	path := fmt.Sprint(key, done.Tokens)
	if d.paths[path] {
		return
	}
	d.paths[path] = true
	logprob := 0.0
	for _, p := range c.logprobs {
		if p != nil {
			logprob += float64(*p)
		}
	}
	i := slices.Index(d.keys, key)
	if i < 0 {
		done.Branch = &generation.Branch{Logprob: logprob, Paths: 1}
		d.found, d.keys = append(d.found, done), append(d.keys, key)
		return
	}
	b := d.found[i].Branch
	high, low := max(b.Logprob, logprob), min(b.Logprob, logprob)
	b.Logprob = high + math.Log1p(math.Exp(low-high))
	b.Paths++
}

// ranked returns n completions: the first n that were drawn, most probable first, then those
// without a key, then ones with the error missing.
func (d *drawn) ranked(n int, missing error) []generation.Completion {
	list := slices.Clone(d.found[:min(n, len(d.found))])
	slices.SortStableFunc(list, func(a, b generation.Completion) int {
		switch {
		case a.Branch.Logprob > b.Branch.Logprob:
			return -1
		case a.Branch.Logprob < b.Branch.Logprob:
			return 1
		}
		return 0
	})
	list = append(list, d.failed[:min(len(d.failed), n-len(list))]...)
	for len(list) < n {
		list = append(list, generation.Completion{Finish: generation.FinishError, Err: missing})
	}
	return list
}
