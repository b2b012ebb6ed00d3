// Package check judges an agent server of protocol 2.0 from outside. Its rules are tables, one file
// for each part of the protocol. It asks the server over HTTP, and plays the coaches that the
// server asks. No rule needs a model that decides well.
package check

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// Levels of rules.
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
	needs   []need
	about   string         // what is sent and what is right
	steps   []step         // in order
	take    func(p *probe) // in place of steps; it ends early by p.end
}

// step is a request and what is right about its answer.
type step struct {
	sent  request
	right right
}

// right is what is right about an answer. judge returns a verdict.
type right struct {
	text    string
	judge   func(x *exchange) string
	coached bool // only if the kit's coach was asked
}

// one is a rule about the answer to one request.
func one(id, level, section string, sent request, r right) rule {
	return rule{id: id, level: level, section: section, about: sent.String() + " -> " + r.text, steps: []step{{sent, r}}}
}

// chain is a rule about several requests.
func chain(id, level, section, about string, steps ...step) rule {
	return rule{id: id, level: level, section: section, about: about, steps: steps}
}

// many is a rule whose requests depend on answers, or are sent at once.
func many(id, level, section, about string, take func(p *probe)) rule {
	return rule{id: id, level: level, section: section, about: about, take: take}
}

// need is what a server must declare for a rule to apply, as what a report says where it does not.
type need string

const (
	needCoaching   need = "it declares no coaching"
	needNoCoaching need = "it declares coaching"
	needSession1   need = "it declares no coaching_session_version 1"
	needSession0   need = "it declares a coaching_session_version" // as MAGMA's stable packages
	needResume     need = "it declares no coaching_resume"
	needHistory    need = "it is not a full-history-agent"
	needToken      need = "no token was given" //nolint:gosec // no secret
	needOpen       need = "a token was given"
	needLoad       need = "no load was asked for"
)

// with adds a need to rules.
func with(n need, rules ...rule) []rule {
	for i := range rules {
		rules[i].needs = append(rules[i].needs, n)
	}
	return rules
}

// rules are all of them, in the order in which they run.
func rules() []rule {
	return slices.Concat(infoRules, requestRules, boundRules, errorRules, answerRules, memoryRules(), toolRules,
		correctionRules(), sessionRules(), coachingRules(), wireRules, concurrentRules, lawRules())
}

// Config says what is judged.
type Config struct {
	List     bool              // only lists the rules, without verdicts
	URL      string            // of the server; rules append their paths
	Token    string            // bearer token; "": none
	Roots    *x509.CertPool    // that sign the server's certificate; nil: the system's
	RootFile string            // the file of Roots
	Level    string            // the last level that is judged
	Only     []string          // ids or areas of rules; empty: all
	Coaching string            // on, off, or auto: what /v1/info declares
	Load     int               // clients that ask while the rules run
	Expect   map[string]string // reasons of known failures, by id
}

// ErrUnknownRule is wrapped by the error about an id that no rule has.
var ErrUnknownRule = errors.New("there is no such rule")

// selected are the rules that c asks for.
func (c *Config) selected() (list []rule, err error) {
	known := map[string]bool{}
	for _, r := range rules() {
		area, _, _ := strings.Cut(r.id, "/")
		known[r.id], known[area] = true, true
		chosen := len(c.Only) == 0 || slices.Contains(c.Only, r.id) || slices.Contains(c.Only, area)
		if chosen && slices.Index(Levels, r.level) <= slices.Index(Levels, c.Level) {
			list = append(list, r)
		}
	}
	for _, id := range c.Only {
		if !known[id] {
			return nil, fmt.Errorf("%s: %w", id, ErrUnknownRule)
		}
	}
	for id := range c.Expect {
		if !known[id] || !strings.Contains(id, "/") {
			return nil, fmt.Errorf("known failures: %s: %w", id, ErrUnknownRule)
		}
	}
	return list, nil
}

func (r *rule) result() *Result {
	return &Result{ID: r.id, Level: r.level, Section: r.section, About: r.about}
}

// Run judges the server. The error is about the server as a whole, or ErrUnknownRule. Each result is
// also given to each.
func Run(ctx context.Context, c Config, each func(*Result)) (report *Report, err error) {
	list, err := c.selected()
	if err != nil {
		return nil, err
	}
	report = &Report{URL: c.URL, Revision: protocol.Version}
	if c.List {
		for _, r := range list {
			report.add(r.result(), each)
		}
		return report, nil
	}
	k, err := newKit(ctx, c)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	defer k.close()
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a fault of the kit: %v", fault)
		}
	}()
	for _, r := range list {
		result := k.judge(ctx, &r)
		if ctx.Err() != nil { // which is not the server's fault
			return report, context.Cause(ctx)
		}
		if reason, known := c.Expect[r.id]; known {
			result.Known = cmp.Or(reason, "no reason given")
		}
		result.Stale = result.Known != "" && (result.Verdict == Pass || result.Verdict == NotAsked)
		report.add(result, each)
		if result.Verdict == Fail {
			if _, err := k.exchange(ctx, get("/health?alive"), r.id); err != nil {
				return report, fmt.Errorf("the server does not answer after the rule %s: %w", r.id, err)
			}
		}
	}
	return report, nil
}

// judge applies a rule.
func (k *kit) judge(ctx context.Context, r *rule) *Result {
	result := r.result()
	for _, n := range r.needs {
		if !k.have[n] {
			result.Verdict, result.Seen = NotAsked, string(n)
			return result
		}
	}
	p := &probe{ctx: ctx, kit: k, rule: r}
	result.Verdict, result.Seen = p.run()
	if p.last != nil && result.Verdict == Fail {
		result.Curl = p.last.request.curl(&k.config)
	}
	for _, path := range p.sessions { // what is left of the rule
		_, _ = k.exchange(context.WithoutCancel(ctx), request{method: http.MethodDelete, path: path}, r.id)
	}
	return result
}

// ended is how a rule ends early, as a failed test ends.
type ended struct {
	verdict, seen string
	x             *exchange // nil: the last one
}

func (p *probe) end(verdict, format string, args ...any) {
	panic(ended{verdict: verdict, seen: fmt.Sprintf(format, args...)})
}

func (p *probe) fail(format string, args ...any) { p.end(Fail, format, args...) }

// run takes the steps of the rule.
func (p *probe) run() (verdict, seen string) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case ended:
			verdict, seen, p.last = e.verdict, e.seen, cmp.Or(e.x, p.last)
		default:
			panic(e)
		}
	}()
	for _, s := range p.rule.steps {
		p.take(s.sent, s.right)
	}
	if p.rule.take != nil {
		p.rule.take(p)
	}
	if p.last != nil {
		seen = p.last.String()
	}
	return Pass, seen
}

// newKit asks the server what it declares.
func newKit(ctx context.Context, c Config) (*kit, error) {
	k := &kit{config: c, base: strings.TrimRight(c.URL, "/"), cache: map[string]*exchange{}, broken: map[string]breach{}}
	k.transport = http.DefaultTransport.(*http.Transport).Clone()
	k.transport.DisableCompression = true // a rule asks for it itself
	k.transport.MaxIdleConnsPerHost = clients
	if c.Roots != nil {
		k.transport.TLSClientConfig = &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}
	}
	k.single = k.transport.Clone()
	k.single.DisableKeepAlives = true
	err := k.declared(ctx)
	if err == nil {
		k.coach, err = newCoach(ctx)
	}
	if err != nil {
		k.transport.CloseIdleConnections()
		return nil, err
	}
	k.startLoad()
	return k, nil
}

// declared reads what the server declares.
func (k *kit) declared(ctx context.Context) error {
	x, err := k.exchange(ctx, get("/health?first"), "")
	if err == nil && x.status != http.StatusOK {
		return fmt.Errorf("the server is not ready: %s", x)
	}
	if err == nil {
		x, err = k.exchange(ctx, get("/v1/info?first"), "")
	}
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w; name the file of its authority with --ca", err)
	case err != nil:
		return fmt.Errorf("no server answers: %w", err)
	case x.status == http.StatusUnauthorized:
		return fmt.Errorf("the server wants a token, or another one; see --token-file: %s", x)
	}
	var agent bool
	if k.info, agent = x.info(); !agent {
		return fmt.Errorf("no agent server: GET /v1/info: %s", x)
	}
	declares := k.info.Capabilities[protocol.CapabilityCoaching]
	coached := k.config.Coaching == "on" || k.config.Coaching == "auto" && declares
	k.have = map[need]bool{
		needCoaching: coached, needNoCoaching: !coached && !declares,
		needSession1: coached && k.info.SessionVersion == protocol.CoachingSessionVersion,
		needSession0: coached && k.info.SessionVersion == "",
		needResume:   k.info.Resume, needHistory: k.info.AgentID == fullHistory,
		needToken: k.config.Token != "", needOpen: k.config.Token == "", needLoad: k.config.Load > 0,
	}
	return nil
}

// fullHistory is the agent whose memory and corrections the protocol describes.
const fullHistory = "full-history-agent"
