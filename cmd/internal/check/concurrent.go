package check

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
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

// secrets are what clients of mine say.
var secrets = regexp.MustCompile(`secret of ([a-z][-0-9]+)\.`)

// own is an answer of which nothing belongs to another client. A model may say anything.
func own(client string) right {
	return every("the ids, memory and steps of "+client, func(o output) bool {
		all := encode(o.Steps) + string(o.Memory)
		if o.Output != nil && o.Output.Say != "" {
			all = strings.ReplaceAll(all, o.Output.Say, "")
		}
		foreign := func(found []string) bool { return found[1] != client }
		return strings.HasSuffix(o.RequestID, " "+client) && strings.Contains(string(o.Memory), `"`+client+`"`) &&
			!slices.ContainsFunc(secrets.FindAllStringSubmatch(all, -1), foreign)
	})
}

// crowd is a rule whose clients send requests at once. Each has a number.
func crowd(id, level, section, about string, take func(p *probe, i int)) rule {
	return many(id, level, section, about, func(p *probe) { p.together(clients, func(i int) { take(p, i) }) })
}

// concurrentRules are about requests at the same time, and clients that leave. The last one ends the load.
var concurrentRules = slices.Concat([]rule{
	crowd("concurrent/own-answers", Must, "4", "each client gets its own ids and memory", func(p *probe, i int) {
		client := fmt.Sprint("c", i)
		p.take(post(mine(plain, client)), own(client))
	}),
	crowd("concurrent/order", Must, "4", "batches at the same time are each in order", func(p *probe, _ int) {
		body := edit(edit(batch, "check-batch", ruleName), `"num_outputs":3`, `"num_outputs":2`)
		p.take(post(body), list("the order of the inputs", func(outs []output) bool {
			return runs(outs, func(o output, n int) int { return int(o.Source) * n }) == "[60 -1 14]"
		}))
	}),
	many("cancel/next", Must, "2", "after clients have left, the next is answered", func(p *probe) {
		p.together(clients, func(int) {
			ctx, leave := context.WithTimeout(p.ctx, pause)
			defer leave()
			_, _ = p.kit.exchange(ctx, post(input(`"id":1,"num_outputs":4`)), p.rule.id) // it leaves
		})
		for range clients {
			_ = p.half(post(cheap)).Close()
		}
		p.take(post(cheap), decided)
	}),
}, with(needHistory,
	many("concurrent/deterministic", Should, "5", "inference_mode true decides alone as beside others", func(p *probe) {
		alone := p.take(post(greedy), decided).outputs()[0]
		p.together(clients, func(i int) {
			if i%2 == 0 {
				p.take(post(mine(plain, fmt.Sprint("d", i))), decided)
			} else {
				p.take(post(greedy), every(alone.said(), func(o output) bool { return o.said() == alone.said() }))
			}
		})
	}),
), with(needCoaching,
	crowd("concurrent/sessions", Must, "6", "sessions side by side answer their own requests", func(p *probe, i int) {
		run := fmt.Sprint(runName, "-", i)
		p.take(put(run, session), noContent)
		p.take(postCoaching(strings.NewReplacer(runName, run, ruleName, run).Replace(coachingBody)), valid)
	}),
	many("closing/answer", Must, "6", "DELETE waits for a request, which is answered", func(p *probe) {
		posted, deleted := p.closing(func() {})
		if posted.status != http.StatusOK || deleted.status != http.StatusNoContent {
			p.fail("the request got %s, DELETE %s", posted, deleted)
		}
	}),
	many("closing/post", Must, "6", "a request of a session that closes is a 404", func(p *probe) {
		p.closing(func() {
			p.take(postCoaching(edit(coachingBody, `"request_id":"RULE"`, `"request_id":"late RULE"`)), notFound)
		})
	}),
	many("closing/put", Should, "6", "PUT of a session that closes is a 409", func(p *probe) {
		p.closing(func() {}) // which sees it
	}),
), with(needLoad,
	many("load/answers", Must, "4", "what clients got beside the rules was valid and theirs", func(p *probe) {
		p.kit.load.end()
		if p.kit.load.wrong != nil {
			p.fail("%v", p.kit.load.wrong)
		}
		if p.kit.load.answered == 0 {
			p.end(Unexercised, "no client got an answer")
		}
	}),
))

// closing opens a session, whose coach waits, and closes it. When PUT is a 409 it calls during, and then
// lets the session close.
func (p *probe) closing(during func()) (posted, deleted *exchange) {
	config := put(runName, coachedBy(coachWaits))
	p.take(config, noContent)
	asked := len(p.kit.coach.questions(p.rule.id)) // a PUT may have tested it
	release := p.kit.coach.arm(p.rule.id)
	start := func(r request) <-chan *exchange {
		answer := make(chan *exchange, 1)
		go func() {
			x, err := p.kit.exchange(p.ctx, r, p.rule.id)
			if err != nil {
				x.body = []byte(err.Error())
			}
			answer <- x
		}()
		return answer
	}
	post := start(postCoaching(coachingBody))
	var deletion <-chan *exchange
	func() {
		defer close(release)
		for len(p.kit.coach.questions(p.rule.id)) == asked {
			select {
			case x := <-post:
				p.end(Unexercised, "the kit's coach was not asked: %s", x)
			case <-time.After(pause):
			}
		}
		deletion = start(del(runName))
		for try := 0; ; try++ {
			x := p.send(config)
			if x.status == http.StatusConflict {
				break
			}
			if x.status != http.StatusNoContent || try == closingTries {
				p.fail("PUT got %s; right is 409", x)
			}
			select {
			case x := <-deletion:
				p.fail("DELETE got %s while a request was with its coach", x)
			case <-time.After(pause):
			}
		}
		during()
		select {
		case x := <-deletion:
			p.fail("DELETE got %s while a request was with its coach", x)
		case <-time.After(5 * pause):
		}
	}()
	return <-post, <-deletion
}

// load are clients that ask while the rules run.
type load struct {
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	answered int
	wrong    error // the last wrong answer
}

func (k *kit) startLoad() {
	if k.config.Load == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	k.load = &load{stop: stop}
	for i := range k.config.Load {
		k.load.all.Go(func() {
			asking := context.WithoutCancel(ctx) // the first request ends, however short the load is
			for round := 0; round == 0 || ctx.Err() == nil; round++ {
				busy := k.load.ask(asking, k, fmt.Sprintf("l%d-%d", i, round), i+round)
				if asking = ctx; busy {
					time.Sleep(pause)
				}
			}
		})
	}
}

// loads are what clients ask.
var loads = []string{plain, greedy, cheap, input(`"id":1,"num_outputs":3`)}

// ask sends one request and judges its answer. busy is true when the server refuses it for now.
func (l *load) ask(ctx context.Context, k *kit, client string, round int) (busy bool) {
	x, err := k.exchange(ctx, post(mine(loads[round%len(loads)], client)), "load")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r := own(client); {
	case ctx.Err() != nil:
	case err == nil && x.busy():
		return true
	case err != nil:
		l.wrong = fmt.Errorf("client %s got no answer: %w", client, err)
	case r.judge(x) != Pass:
		l.wrong = fmt.Errorf("client %s got %s; right is %s", client, x, r.text)
	default:
		l.answered++
	}
	return false
}

// end waits until no client asks.
func (l *load) end() {
	if l != nil {
		l.stop()
		l.all.Wait()
	}
}
