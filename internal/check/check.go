// Package check judges an agent server of protocol 2.0 from outside. Its rules are tables, one file
// for each part of the protocol. It asks the server over HTTP, and plays the coaches that the
// server asks. No rule needs a model that decides well.
package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// Revision is the version of the protocol that the rules judge.
const Revision = protocol.Version

// Levels of rules, the strictest first.
const (
	Must   = "must"   // the contract says so
	Should = "should" // docs/protocol.md says so where the contract is silent; clients rely on it
	May    = "may"    // bounds and additions of agentd
)

// Levels are all levels, the strictest first.
var Levels = []string{Must, Should, May}

// Verdicts.
const (
	Pass        = "pass"
	Fail        = "fail"
	NotAsked    = "not applicable"  // the server does not declare what the rule is about
	Unexercised = "never exercised" // the situation did not come up
)

// rule is a row of the tables.
type rule struct {
	id      string // area/name
	level   string
	section string // of docs/protocol.md
	needs   need
	sent    request        // what is sent
	right   right          // what is right about the answer
	about   string         // in place of both: what is right when steps are taken
	steps   func(p *probe) // which end early by p.fail
}

// need is what a server must declare for a rule to apply. Needs are added.
type need uint

const (
	needCoaching   need = 1 << iota // capabilities.coaching
	needNoCoaching                  // no capabilities.coaching
	needSession1                    // coaching_session_version 1
	needResume                      // coaching_resume
	needHistory                     // agent_id full-history-agent
	needToken                       // a token of this server
	needOpen                        // no token
	needLoad                        // clients beside the rules
)

var needNames = []string{
	"it declares no coaching", "it declares coaching", "it declares no coaching_session_version 1",
	"it declares no coaching_resume", "it is no full-history-agent", "no token was given", "a token was given",
	"no load was asked for",
}

// missing names the first of n that is not in have.
func (n need) missing(have need) string {
	for i, name := range needNames {
		if one := need(1) << i; n&one != 0 && have&one == 0 {
			return name
		}
	}
	return ""
}

// right is what is right about one answer.
type right struct {
	text  string
	judge func(x *exchange) bool
}

// one is a rule about the answer to one request.
func one(id, level, section string, sent request, r right) rule {
	return rule{id: id, level: level, section: section, sent: sent, right: r}
}

// many is a rule that takes several steps.
func many(id, level, section, about string, steps func(p *probe)) rule {
	return rule{id: id, level: level, section: section, about: about, steps: steps}
}

// with adds needs to rules.
func with(n need, rules ...rule) []rule {
	for i := range rules {
		rules[i].needs |= n
	}
	return rules
}

// rules are all of them, in the order in which they run.
func rules() []rule {
	return slices.Concat(infoRules, requestRules(), boundRules, errorRules, answerRules, memoryRules(), correctionRules(),
		sessionRules(), coachingRules(), concurrentRules)
}

// Config says what is judged.
type Config struct {
	URL      string            // of the server; rules append their paths
	Token    string            // bearer token; "": none
	Level    string            // the last level that is judged
	Only     []string          // ids or areas of rules; empty: all
	Coaching string            // on, off, or auto: what /v1/info declares
	Load     int               // clients that ask while the rules run
	Expect   map[string]string // reasons of known failures, by id
}

// Values of Config.Coaching.
const (
	CoachingAuto = "auto"
	CoachingOn   = "on"
	CoachingOff  = "off"
)

// ErrUnknownRule is wrapped by the error about an id that no rule has.
var ErrUnknownRule = errors.New("there is no such rule")

// selected are the rules that c asks for.
func (c *Config) selected() (list []rule, err error) {
	all := rules()
	known := map[string]bool{}
	for _, r := range all {
		area, _, _ := strings.Cut(r.id, "/")
		known[r.id], known[area] = true, true
		chosen := len(c.Only) == 0 || slices.Contains(c.Only, r.id) || slices.Contains(c.Only, area)
		if chosen && slices.Index(Levels, r.level) <= slices.Index(Levels, c.Level) {
			list = append(list, r)
		}
	}
	for _, id := range c.Only {
		if !known[id] {
			return nil, fmt.Errorf("%w: %s", ErrUnknownRule, id)
		}
	}
	for id := range c.Expect {
		if !known[id] || !strings.Contains(id, "/") {
			return nil, fmt.Errorf("known failures: %w: %s", ErrUnknownRule, id)
		}
	}
	return list, nil
}

// List describes the rules that c asks for. Their verdicts are empty.
func List(c Config) ([]Result, error) {
	list, err := c.selected()
	results := make([]Result, len(list))
	for i, r := range list {
		results[i] = r.result()
	}
	return results, err
}

func (r *rule) result() Result {
	about := r.about
	if r.steps == nil {
		about = r.sent.String() + " -> " + r.right.text
	}
	return Result{ID: r.id, Level: r.level, Section: r.section, About: about}
}

// Run judges the server. The error is about the server as a whole, or ErrUnknownRule. Each result is
// also given to each.
func Run(ctx context.Context, c Config, each func(Result)) (*Report, error) {
	list, err := c.selected()
	if err != nil {
		return nil, err
	}
	k, err := newKit(ctx, c)
	if err != nil {
		return nil, err
	}
	defer k.close()
	report := &Report{URL: c.URL, Revision: Revision}
	k.startLoad()
	for _, r := range list {
		result := k.judge(ctx, &r)
		result.Known = c.Expect[r.id]
		result.Stale = result.Known != "" && (result.Verdict == Pass || result.Verdict == NotAsked)
		report.Results = append(report.Results, result)
		if each != nil {
			each(result)
		}
		if err := ctx.Err(); err != nil {
			return report, err
		}
		if k.silent {
			if _, err := k.health(ctx); err != nil {
				return report, fmt.Errorf("the server does not answer after the rule %s: %w", r.id, err)
			}
			k.silent = false
		}
	}
	return report, nil
}

// judge applies a rule.
func (k *kit) judge(ctx context.Context, r *rule) Result {
	result := r.result()
	if reason := r.needs.missing(k.have); reason != "" {
		result.Verdict, result.Seen = NotAsked, reason
		return result
	}
	p := &probe{ctx: ctx, kit: k, rule: r}
	result.Verdict, result.Seen = p.run()
	for _, path := range p.sessions {
		_, _ = k.exchange(ctx, request{method: http.MethodDelete, path: path}, r.id) // what is left of the rule
	}
	if p.last != nil && result.Verdict == Fail {
		result.Curl = p.last.request.curl(k.base, k.config.Token != "")
	}
	return result
}

// run takes the steps of the rule.
func (p *probe) run() (verdict, seen string) {
	defer func() {
		switch stopped := recover().(type) {
		case nil:
		case stop:
			verdict, seen = stopped.verdict, stopped.seen
		default:
			panic(stopped)
		}
	}()
	if p.rule.steps != nil {
		p.rule.steps(p)
	} else {
		p.expect(p.send(p.rule.sent), p.rule.right)
	}
	return Pass, p.seen()
}

// stop ends a rule, as a failed test ends.
type stop struct{ verdict, seen string }

// fail ends the rule as failed.
func (p *probe) fail(format string, args ...any) { panic(stop{Fail, fmt.Sprintf(format, args...)}) }

// unexercised ends the rule without a verdict.
func (p *probe) unexercised(format string, args ...any) {
	panic(stop{Unexercised, fmt.Sprintf(format, args...)})
}

// expect judges an answer.
func (p *probe) expect(x *exchange, r right) {
	p.last = x
	if !r.judge(x) {
		p.fail("got %s; right is %s", x, r.text)
	}
}

// none ends the rule as failed if there is an error.
func (p *probe) none(err error) {
	if err != nil {
		p.fail("%v", err)
	}
}

// health asks whether the server takes work.
func (k *kit) health(ctx context.Context) (*exchange, error) {
	return k.exchange(ctx, get("/health?first"), "")
}

// newKit asks the server what it declares.
func newKit(ctx context.Context, c Config) (*kit, error) {
	k := &kit{config: c, base: strings.TrimRight(c.URL, "/"), cache: map[string]*exchange{}}
	k.transport = http.DefaultTransport.(*http.Transport).Clone()
	k.transport.DisableCompression = true // rules ask for it themselves
	k.transport.MaxIdleConnsPerHost = clients
	if err := k.declared(ctx); err != nil {
		k.transport.CloseIdleConnections()
		return nil, err
	}
	var err error
	k.coach, err = newCoach()
	return k, err
}

// declared reads what the server declares.
func (k *kit) declared(ctx context.Context) error {
	x, err := k.health(ctx)
	if err != nil {
		return fmt.Errorf("no server answers: %w", err)
	}
	if x.status != http.StatusOK {
		return fmt.Errorf("the server is not ready: %s", x)
	}
	if x, err = k.exchange(ctx, get("/v1/info?first"), ""); err != nil {
		return fmt.Errorf("no server answers: %w", err)
	}
	if x.status != http.StatusOK || x.decode(&k.info) != nil {
		return fmt.Errorf("no agent server: GET /v1/info: %s", x)
	}
	switch coached := k.info.Capabilities[protocol.CapabilityCoaching]; {
	case k.config.Coaching == CoachingOff:
	case coached || k.config.Coaching == CoachingOn:
		k.have |= needCoaching
	default:
		k.have |= needNoCoaching
	}
	k.have |= needOpen
	if k.config.Token != "" {
		k.have ^= needOpen | needToken
	}
	for n, yes := range map[need]bool{
		needSession1: k.have&needCoaching != 0 && k.info.SessionVersion == protocol.CoachingSessionVersion,
		needResume:   k.info.Resume, needHistory: k.info.AgentID == fullHistory, needLoad: k.config.Load > 0,
	} {
		if yes {
			k.have |= n
		}
	}
	return nil
}

// fullHistory is the agent whose memory and corrections the protocol describes.
const fullHistory = "full-history-agent"
