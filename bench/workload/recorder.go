package workload

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"agentd/agent/memory"
	"agentd/protocol"
)

// RecorderOptions of a recorder.
type RecorderOptions struct {
	// Target is the agent server: http or https, a host, and a path if it has one.
	Target *url.URL
	// Transport to it; nil: http.DefaultTransport without compression of its own.
	Transport http.RoundTripper
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Failed is told once when the trace could not be written. Requests still reach
	// the server then. nil: nobody is told before Close.
	Failed func(error)
}

// Reasons why an input is not in a recording.
const (
	SkippedInvalid    = "invalid"    // no request of the protocol; a server refuses it too
	SkippedCorrection = "correction" // extra_keys.coaching, which needs no model
	SkippedIncomplete = "incomplete" // the body's end never came
	SkippedLarge      = "too large"  // more than a request may have, or than there was memory for at that moment
	SkippedFull       = "full"       // the recording has reached the size of a trace
	SkippedFailed     = "not written"
)

// Recording says what a recorder did.
type Recording struct {
	Turns, Agents int
	// Skipped are the requests or inputs that are not in the trace, by reason. They
	// reached the server like all others.
	Skipped map[string]int
}

// Recorder is an HTTP handler that stands in front of an agent server. It passes
// every request on as it came and writes each input of POST /v1/responses as a turn,
// one line at once, so that a recording that ends early can be read. Turns of one
// request have the same At; which agent asked is found out from the histories.
// Headers are not recorded, so no token is.
type Recorder struct {
	proxy  *httputil.ReverseProxy
	own    *http.Transport // nil when it was given
	now    func() time.Time
	failed func(error)
	most   int          // bytes of a body
	held   atomic.Int64 // bytes of bodies on their way

	unpacking sync.Mutex // held before mu by who unpacks a body

	mu     sync.Mutex // guards what follows
	w      io.Writer
	begin  time.Time // of the first turn
	agents conversations
	size   int
	counts Recording
	closed bool
	err    error
}

// responses is the path of inference.
const responses = "/v1/responses"

// NewRecorder writes the header of a trace and makes the handler. The caller
// closes w after Close.
func NewRecorder(w io.Writer, o RecorderOptions) (*Recorder, error) {
	if o.Target == nil || o.Target.Scheme != "http" && o.Target.Scheme != "https" || o.Target.Host == "" {
		return nil, fmt.Errorf("the server %q is no http or https URL with a host, such as http://127.0.0.1:8888", o.Target)
	}
	r := &Recorder{w: w, now: o.Now, failed: o.Failed, most: protocol.MaxBodyBytes, counts: Recording{Skipped: map[string]int{}}}
	if r.now == nil {
		r.now = time.Now
	}
	if o.Transport == nil {
		r.own = http.DefaultTransport.(*http.Transport).Clone()
		r.own.DisableCompression = true // else answers would be unpacked on the way
		r.own.Proxy = nil
		o.Transport = r.own
	}
	r.proxy = &httputil.ReverseProxy{
		Transport:    o.Transport,
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(o.Target) },
		ErrorLog:     log.New(io.Discard, "", 0), // the client sees what happened
		ErrorHandler: unreachable,
	}
	return r, writeLine(w, &Header{Version: Version, Kind: Recorded})
}

// unreachable answers for a server that gave no answer.
func unreachable(w http.ResponseWriter, _ *http.Request, err error) {
	body := protocol.AppendMember(nil, "detail", protocol.String("the recorded server gave no answer: "+err.Error()))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write(body) // a client that is gone is told nothing
}

// ServeHTTP passes a request on.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost || req.URL.Path != responses {
		r.proxy.ServeHTTP(w, req)
		return
	}
	t := &tap{ReadCloser: req.Body, recorder: r, length: req.ContentLength, encoding: req.Header.Get("Content-Encoding")}
	defer t.leave()
	recorded := *req
	recorded.Body = t
	r.proxy.ServeHTTP(w, &recorded)
}

// body records the inputs of a whole body.
func (r *Recorder) body(body []byte) {
	req, err := protocol.DecodeAgentRequest(body)
	if err != nil {
		r.skip(SkippedInvalid)
		return
	}
	list, _ := protocol.Get(body, "inputs")
	turns := make([]Turn, 0, len(req.Inputs))
	memories := make([]*memory.Memory, 0, len(req.Inputs))
	for raw := range protocol.Elements(list) {
		in := &req.Inputs[len(turns)]
		m, problems := memory.Parse(in.Memory, "")
		input := raw.Clone()
		if err := errors.Join(asError(problems), input.Compact()); err != nil {
			r.skip(SkippedInvalid) // as a whole: that is how a server refuses it
			return
		}
		memories = append(memories, m)
		turns = append(turns, Turn{Input: input, Candidates: in.NumOutputs})
	}
	r.mu.Lock()
	failed := r.err
	now := r.now()
	if r.begin.IsZero() {
		r.begin = now
	}
	for i := range turns {
		if c, ok := protocol.Get(req.Inputs[i].ExtraKeys, "coaching"); ok && c.Kind() != 'n' {
			r.skipLocked(SkippedCorrection)
			continue
		}
		turns[i].At = Millis(now.Sub(r.begin))
		r.write(&turns[i], memories[i], req.Inputs[i].Instruction)
	}
	told := failed == nil && r.err != nil
	r.mu.Unlock()
	if told && r.failed != nil {
		r.failed(r.err)
	}
}

func asError(problems protocol.Problems) error {
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// write writes one turn. The caller holds the lock.
func (r *Recorder) write(t *Turn, m *memory.Memory, instruction protocol.AgentInstruction) {
	switch {
	case r.closed:
		return
	case r.err != nil:
		r.skipLocked(SkippedFailed)
		return
	case r.counts.Turns >= maxLines || r.size+len(t.Input) > maxInputs:
		r.skipLocked(SkippedFull)
		return
	}
	t.Agent, t.Turn = r.agents.next(m, instruction)
	if err := writeLine(r.w, t); err != nil {
		r.err = fmt.Errorf("turn %d of the recording could not be written: %w", r.counts.Turns+1, err)
		r.skipLocked(SkippedFailed)
		return
	}
	r.size += len(t.Input)
	r.counts.Turns++
	r.counts.Agents = len(r.agents.turns)
}

func (r *Recorder) skip(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipLocked(reason)
}

func (r *Recorder) skipLocked(reason string) {
	if !r.closed {
		r.counts.Skipped[reason]++
	}
}

// Close ends the recording: what comes later is passed on and not recorded. It
// waits for the line that is being written. The error is that of the trace.
func (r *Recorder) Close() (Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.own != nil {
		r.own.CloseIdleConnections()
	}
	return r.counts, r.err
}
