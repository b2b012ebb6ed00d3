package openai

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// from is the part after n tokens, up to max of them in all.
func (p part) from(n, most int) part {
	end := max(n, min(len(p.ids), most))
	return part{p.ids[n:end], p.scores[min(n, len(p.scores)):min(end, len(p.scores))]}
}

// wholeOf is all of a completion, with its end.
func wholeOf(done *generation.Completion) part { return part{done.All(), done.Scores} }

// add watches the request.
func (f *feed) add(e generation.Event) {
	f.mu.Lock()
	f.restarted = f.restarted || e.Kind == generation.Restarted
	p := &f.chosen[e.Completion]
	p.ids, p.scores = append(p.ids, e.Tokens...), append(p.scores, e.Scores...)
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// run generates, and calls progress with what there is of each completion and finish with the result, if there is one.
// begun reports whether something was sent that can't be taken back.
func (f *feed) run(ctx context.Context, m Model, r *generation.Request, to Stream, begun func() bool, progress func([]part), finish func(*generation.Result)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.send, f.chosen, f.more = to.Send, make([]part, r.N), make(chan struct{}, 1)
	r.Stream, r.Watch = true, f.add
	var result *generation.Result
	var err error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		result, err = m.Generate(ctx, r, func() { close(admitted) })
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
			switch {
			case !restarted:
				progress(chosen)
			case begun():
				f.err = &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true}
			}
		case <-ended:
			if err == nil {
				finish(result)
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
func (f *feed) event(v any) {
	body, err := marshal(v)
	f.err = cmp.Or(f.err, err)
	f.write(fmt.Appendf(nil, "data: %s\n\n", body))
}

// done ends the events.
func (f *feed) done() { f.write([]byte("data: [DONE]\n\n")) }
