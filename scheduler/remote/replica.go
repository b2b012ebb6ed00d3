package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentd/scheduler/generation"
)

// replica is one engine at a URL.
type replica struct {
	index int
	url   string
	// probes has one connection, for probes. As long as it stays open, the same process answers.
	probes *http.Client
	wake   chan struct{} // has a value if watch should probe now

	compared bool        // its vocabulary was compared as a whole before; only watch uses it
	closes   atomic.Bool // the engine closes each connection after its answer

	mu       sync.Mutex
	state    state
	why      error    // the reason of a state without work
	id       identity // its last description of itself
	inFlight int
	received uint64 // number of received parts of answers
	late     int    // requests in a row that timed out while no part came, see Engine.late
	lateAt   time.Time
	stats    Stats
	// life is the context of its calls; end cancels it.
	life context.Context
	end  context.CancelCauseFunc
}

// identity is an engine's description of itself.
type identity struct {
	api    string // one of APIs
	served string // the model's name in requests
	lora   bool   // the model is an adapter
	// context is the limit of tokens of a prompt with its answer; 0: not known.
	context int
	slots   int  // limit of completions of one call; 0: no limit
	agentd  bool // it is an agentd, which accepts marks in grammars
	seeded  bool // see sglang
}

// Stats are the gauges and counters of one engine.
type Stats struct {
	URL       string
	Available bool   `metric:"up" help:"1 if the engine gets work; 0 until it answers again."`
	InFlight  int    `metric:"requests_running" help:"Calls in flight."`
	Requests  uint64 `metric:"requests_total" help:"Calls, one for each input."`
	// Errors counts failed calls by kind: unreachable, timeout, busy, status, answer.
	Errors           map[string]uint64
	PromptTokens     uint64 `metric:"prompt_tokens_total" help:"Prompt tokens that the engine counted."`
	CachedTokens     uint64 `metric:"prefix_cache_hits_total" help:"Prompt tokens that the engine found in its prefix cache."`
	CompletionTokens uint64 `metric:"generation_tokens_total" help:"Tokens that the engine generated."`
}

// Stats returns the gauges and counters of each engine, in the order of Config.URLs.
func (e *Engine) Stats() []Stats {
	list := make([]Stats, len(e.replicas))
	for i, r := range e.replicas {
		r.mu.Lock()
		list[i] = r.stats
		list[i].URL, list[i].Available, list[i].InFlight = r.url, r.state.works(), r.inFlight
		list[i].Errors = maps.Clone(r.stats.Errors)
		r.mu.Unlock()
	}
	return list
}

func (r *replica) available() bool { return r.now().works() }

func (r *replica) identity() identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

func (r *replica) load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inFlight
}

func (r *replica) failed(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Errors == nil {
		r.stats.Errors = map[string]uint64{}
	}
	r.stats.Errors[kind]++
}

func (r *replica) answered(a *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.PromptTokens += uint64(max(a.prompt, 0))
	r.stats.CachedTokens += uint64(max(a.cached, 0))
	for i := range a.choices {
		r.stats.CompletionTokens += uint64(len(a.choices[i].ids))
	}
}

// begin counts a call, which must end when life ends. received is the number of parts before it. end counts its end.
func (r *replica) begin() (life context.Context, received uint64, end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
	r.stats.Requests++
	return r.life, r.received, func() {
		r.mu.Lock()
		r.inFlight--
		r.mu.Unlock()
	}
}

// receivePart counts a part of an answer.
func (r *replica) receivePart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received++
	r.late = 0
	_, _ = r.on(progressed, nil)
}

// progress returns the number of received parts of answers.
func (r *replica) progress() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received
}

// order returns the engines that get work, in the order in which a request tries them: by rendezvous hashing
// of its session. If the first one is overloaded, the first two are exchanged.
func (e *Engine) order(req *generation.Request) []*replica {
	list := make([]*replica, 0, len(e.replicas))
	for _, r := range e.replicas {
		if r.available() {
			list = append(list, r)
		}
	}
	if len(list) < 2 {
		return list
	}
	key := affinity(req)
	if name := e.adapters.name(req.Adapter); name != "" { // another adapter shares no prefix
		key += "\x00" + name
	}
	slices.SortFunc(list, func(a, b *replica) int { return cmp.Compare(weigh(key, b.url), weigh(key, a.url)) })
	if list[0].load() > overloadFactor*list[1].load()+overloadSlack {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// affinity returns the key that requests with a common prefix share: the session, without one the first
// affinityTokens of the prompt.
func affinity(req *generation.Request) string {
	if req.Session != "" {
		return req.Session
	}
	ids := req.Prompt[:min(len(req.Prompt), affinityTokens)]
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}

// weigh returns the weight of an engine for a key. It is the same in every process, so that
// several agentd choose the same engine.
func weigh(key, url string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(key + "\x00" + url))
	h := f.Sum64()
	// FNV's high bits depend little on the last bytes: mix them (the finalizer of MurmurHash3).
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
