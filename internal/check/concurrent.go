package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// mine is a request that only one client sends.
func mine(body, client string) string {
	body = edit(edit(body, `"RULE"`, `"RULE `+client+`"`), `"hi"`, `"secret of `+client+`."`)
	return edit(body, `"id":1`, `"id":1,"memory":{"owner":"`+client+`"}`)
}

// foreign is what of an answer belongs to another client.
func foreign(outs []output, body, client string) error {
	for _, o := range outs {
		if !strings.Contains(body, o.RequestID) || !strings.HasSuffix(o.RequestID, " "+client) {
			return fmt.Errorf("client %s got request_id %q", client, o.RequestID)
		}
		if !strings.Contains(string(o.Memory), `"`+client+`"`) {
			return fmt.Errorf("client %s got memory %s", client, shown(string(o.Memory)))
		}
		all := encode(o.Steps) + string(o.Memory)
		if strings.Count(all, "secret of ") != strings.Count(all, "secret of "+client+".") {
			return fmt.Errorf("client %s got the secret of another", client)
		}
	}
	return nil
}

// concurrentRules are about requests at the same time, and clients that leave. The last one ends the load.
var concurrentRules = slices.Concat([]rule{
	many("concurrent/own-answers", Must, "4", "each client gets its own ids and memory", func(p *probe) {
		p.together(clients, func(i int) {
			client := fmt.Sprint("c", i)
			body := mine(plain, client)
			if err := foreign(p.outputs(p.send(post(body))), strings.Replace(body, ruleName, p.rule.id, 1), client); err != nil {
				p.fail("%v", err)
			}
		})
	}),
	many("concurrent/same-ids", Must, "4", "clients with the same request_id and ids do not hinder each other", func(p *probe) {
		p.together(clients, func(int) { p.outputs(p.send(post(plain))) })
	}),
	many("concurrent/order", Must, "4", "batches at the same time are each in order", func(p *probe) {
		body := edit(edit(edit(batch, "check-batch", ruleName), `"num_outputs":3`, `"num_outputs":2`), `7,`, `-9,`)
		p.together(3, func(int) {
			outs := p.outputs(p.send(post(body)))
			if err := want(runs(outs, func(o output, n int) int { return int(o.Source) * n }), "[60 -1 -18]"); err != nil {
				p.fail("%v", err)
			}
		})
	}),
	many("concurrent/refusals", Should, "4", "an invalid request does not hurt one beside it", func(p *probe) {
		p.together(clients, func(i int) {
			if i%2 == 0 {
				p.send(post(edit(plain, `"id":1`, `"id":"x"`)))
				return
			}
			p.outputs(p.send(post(cheap)))
		})
	}),
	many("concurrent/health", Should, "2", "health and info are answered while the server works", func(p *probe) {
		p.together(clients, func(i int) {
			if i%2 == 0 {
				p.outputs(p.send(post(plain)))
				return
			}
			p.expect(p.send(get("/health?busy")), ok)
			p.expect(p.send(get("/v1/info?busy")), ok)
		})
	}),
	many("cancel/next", Must, "2", "after clients have left, the next is answered", func(p *probe) {
		p.together(clients, func(int) {
			ctx, leave := context.WithTimeout(p.ctx, pause)
			defer leave()
			_, _ = p.kit.exchange(ctx, post(edit(plain, `"id":1`, `"id":1,"num_outputs":4`)), p.rule.id) // it leaves
		})
		p.outputs(p.send(post(cheap)))
	}),
}, with(needHistory,
	many("concurrent/deterministic", Must, "5", "inference_mode true decides alone as beside others", func(p *probe) {
		greedy := edit(plain, `"id":1`, `"id":1,"extra_keys":{"inference_mode":true}`)
		alone := p.first(greedy)
		p.together(clients, func(i int) {
			if i%2 == 0 {
				p.outputs(p.send(post(mine(plain, fmt.Sprint("d", i)))))
			} else if o := p.first(greedy); o.said() != alone.said() {
				p.fail("alone it decides %s, beside others %s", alone.said(), o.said())
			}
		})
	}),
), with(needCoaching,
	many("concurrent/sessions", Must, "6", "sessions side by side answer their own requests", func(p *probe) {
		p.together(4, func(i int) {
			run := fmt.Sprint(ruleName, "/", i)
			x := p.send(put(run, session))
			p.closeLater(x)
			if x.status == http.StatusServiceUnavailable {
				p.unexercised("got %s", x)
			}
			x = p.send(postCoaching(strings.ReplaceAll(coachingBody, `"RULE"`, `"`+run+`"`)))
			if !strings.Contains(string(x.body), fmt.Sprintf(`"%s/%d"`, p.rule.id, i)) || x.status != http.StatusOK {
				p.fail("run %d got %s", i, x)
			}
		})
	}),
	many("closing/answer", Must, "6", "DELETE waits for a request, which is answered", func(p *probe) {
		c := p.closing()
		close(c.release)
		if posted := <-c.posted; posted.status != http.StatusOK {
			p.fail("the request got %s", posted)
		}
		if deleted := <-c.deleted; deleted.status != http.StatusNoContent {
			p.fail("DELETE got %s", deleted)
		}
	}),
	many("closing/post", Must, "6", "a request of a session that closes is a 404", func(p *probe) {
		c := p.closing()
		x := p.send(postCoaching(edit(coachingBody, `"request_id":"RULE"`, `"request_id":"late RULE"`)))
		c.end()
		p.expect(x, status(http.StatusNotFound))
	}),
	many("closing/put", Should, "6", "PUT of a session that closes is a 409", func(p *probe) {
		p.closing().end() // which saw it
	}),
), with(needLoad,
	many("load/answers", Must, "4", "what clients got beside the rules was valid and theirs", func(p *probe) {
		p.kit.load.end()
		if p.kit.load.wrong != nil {
			p.fail("%v", p.kit.load.wrong)
		}
		if p.kit.load.answered == 0 {
			p.unexercised("no client got an answer")
		}
	}),
))

func (p *probe) closeLater(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = append(p.sessions, x.request.path)
}

// closing is a session that closes while its coach has a request.
type closing struct {
	release         chan struct{}
	posted, deleted chan *exchange
}

// end lets the session close.
func (c *closing) end() {
	close(c.release)
	<-c.posted
	<-c.deleted
}

// closing opens a session, whose coach waits, and closes it. It returns when PUT is a 409.
func (p *probe) closing() *closing {
	p.open(ruleName, coached(coachWaits))
	asked := len(p.kit.coach.questions(p.rule.id)) // a PUT may have tested it
	c := &closing{p.kit.coach.arm(p.rule.id), make(chan *exchange, 1), make(chan *exchange, 1)}
	start := func(r request, answer chan<- *exchange) {
		go func() {
			x, err := p.kit.exchange(p.ctx, r, p.rule.id)
			if err != nil {
				x = &exchange{request: r, body: []byte(err.Error())}
			}
			answer <- x
		}()
	}
	stopped := func(format string, args ...any) {
		close(c.release)
		p.fail(format, args...)
	}
	start(postCoaching(coachingBody), c.posted)
	for len(p.kit.coach.questions(p.rule.id)) == asked {
		select {
		case x := <-c.posted:
			p.unexercised("the kit's coach was not asked: %s", x)
		case <-time.After(pause):
		}
	}
	start(del(ruleName), c.deleted)
	for try := 0; ; try++ {
		x := p.send(put(ruleName, coached(coachWaits)))
		switch {
		case x.status == http.StatusConflict:
			return c
		case x.status != http.StatusNoContent || try == closingTries:
			stopped("PUT got %s; right is 409", x)
		}
		select {
		case deleted := <-c.deleted:
			stopped("DELETE got %s while a request was with its coach", deleted)
		case <-time.After(pause):
		}
	}
}

// load are clients that ask while the rules run.
type load struct {
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	answered int
	wrong    error // the first wrong answer
}

func (k *kit) startLoad() {
	if k.config.Load == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	k.load = &load{stop: stop}
	for i := range k.config.Load {
		k.load.all.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				k.load.note(k.loadOnce(ctx, fmt.Sprintf("l%d-%d", i, round)))
			}
		})
	}
}

// loadOnce sends one request and judges its answer. busy is true for one that was refused for now.
func (k *kit) loadOnce(ctx context.Context, client string) (busy bool, err error) {
	body := mine(plain, client)
	x, err := k.exchange(ctx, post(body), "load")
	if ctx.Err() != nil {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("client %s got no answer: %w", client, err)
	}
	if x.busy() {
		time.Sleep(pause)
		return true, nil
	}
	var outs []output
	if err := x.decode(&outs); err != nil || x.status != http.StatusOK || len(outs) != 1 {
		return false, fmt.Errorf("client %s got %s", client, x)
	}
	return false, foreign(outs, strings.Replace(body, ruleName, "load", 1), client)
}

func (l *load) note(busy bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !busy && err == nil {
		l.answered++
	}
	if l.wrong == nil {
		l.wrong = err
	}
}

// end waits until no client asks.
func (l *load) end() {
	if l != nil {
		l.stop()
		l.all.Wait()
	}
}
