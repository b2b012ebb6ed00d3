package openai

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"agentd/agent"
	"agentd/internal/base/tracing"
	"agentd/scheduler/generation"
)

// Stream sends the events of an answer.
type Stream struct {
	Send func(part []byte) error // sends a part of the body, which may be empty; before the first one, the status
	// Quiet has a value when a comment should be sent, so that client and proxies do not close the connection.
	Quiet <-chan time.Time
}

// feed sends the events of an answer while it is generated. After an error nothing more is sent.
type feed struct {
	to   Stream
	err  error
	sent []sent // by choice, which are the completions of all requests in order

	more   chan struct{} // has a value when chosen has new tokens
	mu     sync.Mutex
	chosen []part // by choice; guarded by mu
}

// sent is the part of a choice that was sent. A choice that continues another answer begins with that answer.
type sent struct {
	ids   []generation.Token
	bytes int // of the tokens' texts; completions count them
	text  string
	most  int // MaxTokens
}

// part is a part of a completion: tokens, and their scores if the request has them.
type part struct {
	ids    []generation.Token
	scores []generation.Score
}

// from returns the part after n tokens, up to token most.
func (p part) from(n, most int) part {
	end := max(n, min(len(p.ids), most))
	return part{p.ids[n:end], p.scores[min(n, len(p.scores)):min(end, len(p.scores))]}
}

// wholeOf returns all tokens of a completion, with the one that ended it.
func wholeOf(done *generation.Completion) part { return part{done.All(), done.Scores} }

// open prepares the feed of requests.
func (f *feed) open(to Stream, requests ...*generation.Request) {
	f.to, f.more = to, make(chan struct{}, 1)
	for _, r := range requests {
		first, n := len(f.sent), r.N
		f.sent = append(f.sent, slices.Repeat([]sent{{most: r.MaxTokens}}, n)...)
		f.chosen = append(f.chosen, make([]part, n)...)
		r.Stream, r.Watch = true, func(e generation.Event) { f.add(first, n, e) }
	}
}

// add handles an event of a request with n choices, of which first is the first. It does not block.
func (f *feed) add(first, n int, e generation.Event) {
	f.mu.Lock()
	if e.Kind == generation.Restarted { // another device computes the request again
		clear(f.chosen[first : first+n])
	} else {
		p := &f.chosen[first+e.Completion]
		p.ids, p.scores = append(p.ids, e.Tokens...), append(p.scores, e.Scores...)
	}
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// single generates one request.
func single(
	m Model, operation, name string, r *generation.Request,
) func(context.Context, func()) ([]*generation.Result, error) {
	return func(ctx context.Context, admitted func()) ([]*generation.Result, error) {
		return traced(ctx, m, operation, name, []generation.Request{*r}, admitted)
	}
}

// traced generates requests to the model of that name within a span.
func traced(
	ctx context.Context, m Model, operation, name string, list []generation.Request, admitted func(),
) (results []*generation.Result, err error) {
	ctx, span := tracing.Start(ctx, operation+" "+name)
	if !span.IsRecording() {
		return m.GenerateAll(ctx, list, admitted)
	}
	defer span.End()
	span.SetAttributes(semconv.GenAIOperationNameKey.String(operation), semconv.GenAIRequestModel(name),
		semconv.GenAIRequestChoiceCount(len(list)*list[0].N))
	if results, err = m.GenerateAll(ctx, list, admitted); err != nil {
		tracing.Fail(span, "ended", "")
		return nil, err
	}
	var used agent.Usage
	for _, r := range results {
		used.Add(r)
	}
	used.Set(span)
	return results, nil
}

// run calls generate. Meanwhile it calls progress with all tokens so far of each choice that has new ones. At the end
// it calls finish with the results, unless there was an error, and total with the usage if the request asks for it.
func (f *feed) run(
	ctx context.Context, w *whole, generate func(context.Context, func()) ([]*generation.Result, error),
	progress func(int, part), finish func([]*generation.Result), total func(*usage),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var results []*generation.Result
	var err error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		results, err = generate(ctx, func() { close(admitted) })
	}()
	for f.err == nil {
		select {
		case <-admitted:
			admitted = nil
			f.write(nil)
		case <-f.to.Quiet:
			f.write([]byte(": keep-alive\n\n"))
		case <-f.more:
			f.mu.Lock()
			chosen := slices.Clone(f.chosen)
			f.mu.Unlock()
			for i, p := range chosen {
				p = p.from(0, f.sent[i].most) // forced tokens may be beyond it
				if len(p.ids) > len(f.sent[i].ids) && f.agrees(i, p.ids) {
					progress(i, p)
				}
			}
		case <-ended:
			if err == nil {
				f.agree(results)
			}
			if err = cmp.Or(err, f.err); err == nil {
				finish(results)
				if o := w.StreamOptions; o != nil && o.IncludeUsage {
					total(usageOf(results...))
				}
				f.write([]byte("data: [DONE]\n\n"))
			}
			return cmp.Or(err, f.err)
		}
	}
	cancel()
	<-ended
	return f.err
}

// agrees reports whether ids, tokens of choice i, begin with the sent ones.
func (f *feed) agrees(i int, ids []generation.Token) bool {
	was := f.sent[i].ids
	if len(ids) >= len(was) && slices.Equal(ids[:len(was)], was) {
		return true
	}
	// Other kernels round differently.
	f.err = cmp.Or[error](f.err, &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true})
	return false
}

// agree sets an error if results do not begin with the sent tokens. A failed completion may have lost its tokens.
func (f *feed) agree(results []*generation.Result) {
	i := 0
	for _, r := range results {
		for k := range r.Completions {
			if done := &r.Completions[k]; done.Err == nil || done.Finish == generation.FinishPaused {
				f.agrees(i, done.All())
			}
			i++
		}
	}
}

// rest returns the part of a text that was not sent yet, and marks it as sent.
func (f *feed) rest(i int, text string) string {
	rest, ok := strings.CutPrefix(text, f.sent[i].text)
	if !ok {
		return ""
	}
	f.sent[i].text = text
	return rest
}

// soFar returns the usage of choice i, if each event shall have it. As in vLLM, that needs include_usage.
func (f *feed) soFar(w *whole, i, prompt int) *usage {
	if o := w.StreamOptions; o == nil || !o.IncludeUsage || !o.Continuous {
		return nil
	}
	n := len(f.sent[i].ids)
	return &usage{Prompt: prompt, Completion: n, Total: prompt + n}
}

func (f *feed) write(part []byte) {
	if f.err == nil {
		f.err = f.to.Send(part)
	}
}

// event sends a value.
func (f *feed) event(v any, options ...json.Options) {
	body, err := Marshal(v, options...)
	f.err = cmp.Or(f.err, err)
	f.write(fmt.Appendf(nil, "data: %s\n\n", body))
}
