package openai

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/scheduler/generation"
)

// Stream is where the events of an answer go.
type Stream struct {
	Send func(part []byte) error // sends a part of the body, and the status before the first one. It may be empty.
	// Quiet asks for a comment, so that a client and what is between see that the answer goes on.
	Quiet <-chan time.Time
}

// feed sends the events of an answer while it is generated. After an error nothing more is sent.
type feed struct {
	send func([]byte) error
	err  error

	more      chan struct{} // there are tokens; holds at most one
	mu        sync.Mutex
	chosen    []part // by completion; guarded by mu, as restarted is
	restarted bool
}

// part is a part of a completion: tokens, and their scores if the request has them.
type part struct {
	ids    []generation.Token
	scores []generation.Score
}

// from is the part after n tokens, up to most of them in all.
func (p part) from(n, most int) part {
	end := max(n, min(len(p.ids), most))
	return part{p.ids[n:end], p.scores[min(n, len(p.scores)):min(end, len(p.scores))]}
}

// wholeOf is all of a completion, with its end.
func wholeOf(done *generation.Completion) part { return part{done.All(), done.Scores} }

// watch makes f have what is chosen of a request. One that continues an answer begins with that.
func (f *feed) watch(r *generation.Request) {
	first := len(f.chosen)
	for k := range r.N {
		var begun part
		if r.Resume != nil {
			begun.ids = slices.Clone(r.Resume.Completions[k].Tokens)
			begun.scores = make([]generation.Score, len(begun.ids))
		}
		f.chosen = append(f.chosen, begun)
	}
	r.Stream, r.Watch = true, func(e generation.Event) {
		f.mu.Lock()
		if e.Kind == generation.Restarted { // another device computes the request again
			f.restarted = true
			clear(f.chosen[first : first+r.N])
		}
		p := &f.chosen[first+e.Completion]
		p.ids, p.scores = append(p.ids, e.Tokens...), append(p.scores, e.Scores...)
		f.mu.Unlock()
		select {
		case f.more <- struct{}{}:
		default:
		}
	}
}

// errRestarted is the error of a stream whose parts can't be taken back.
var errRestarted = &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true}

// one sends a request to m, and what there is of it meanwhile. begun reports whether something was sent that can't be
// taken back.
func (f *feed) one(ctx context.Context, m Model, r *generation.Request, to Stream, begun func() bool, progress func([]part), finish func(*generation.Result)) error {
	f.watch(r)
	return f.run(ctx, to, func(ctx context.Context, admitted func()) (func(), error) {
		result, err := m.Generate(ctx, r, admitted)
		return func() { finish(result) }, err
	}, func(chosen []part, restarted bool) {
		switch {
		case !restarted:
			progress(chosen)
		case begun():
			f.err = errRestarted
		}
	})
}

// run generates, and calls progress with what there is of each completion. Then it calls what generate returned.
func (f *feed) run(ctx context.Context, to Stream, generate func(ctx context.Context, admitted func()) (finish func(), err error), progress func(chosen []part, restarted bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.send, f.more = to.Send, make(chan struct{}, 1)
	var finish func()
	var err error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		finish, err = generate(ctx, func() { close(admitted) })
	}()
	for f.err == nil {
		select {
		case <-admitted:
			admitted = nil
			f.write(nil)
		case <-to.Quiet:
			f.write([]byte(": keep-alive\n\n"))
		case <-f.more:
			f.mu.Lock()
			chosen, restarted := slices.Clone(f.chosen), f.restarted
			f.mu.Unlock()
			progress(chosen, restarted)
		case <-ended:
			if err == nil {
				finish()
			}
			return cmp.Or(err, f.err)
		}
	}
	cancel()
	<-ended
	return f.err
}

func (f *feed) write(part []byte) {
	if f.err == nil {
		f.err = f.send(part)
	}
}

// event sends a value.
func (f *feed) event(v any, options ...json.Options) {
	body, err := marshal(v, options...)
	f.err = cmp.Or(f.err, err)
	f.write(fmt.Appendf(nil, "data: %s\n\n", body))
}

// done ends the events.
func (f *feed) done() { f.write([]byte("data: [DONE]\n\n")) }
