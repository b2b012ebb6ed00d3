// Package target sends turns to the servers that agentbench measures: agentd,
// llama-server and vLLM.
package target

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentd/bench/workload"
)

// Target is one server. It is safe for concurrent use.
type Target interface {
	// Ask sends one turn and waits for all candidates. It returns a *Failure or the
	// context's error. Any other error means that the options can't be used for this
	// turn, and ends the run.
	Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error)
	// Counters reads the server's counters, or returns ErrNoCounters.
	Counters(ctx context.Context) (Counters, error)
	// Describe returns facts of the server such as version and model.
	Describe(ctx context.Context) (map[string]string, error)
	Close() error
}

// Kinds of servers.
const (
	KindAgentd      = "agentd"
	KindLlamaServer = "llama-server"
	KindVLLM        = "vllm"
)

// Open makes the target of a server at a URL such as http://127.0.0.1:8888. key is its
// bearer token; it may be "".
func Open(kind, baseURL, key string) (Target, error) {
	u, err := url.Parse(baseURL)
	// The error does not repeat the URL, which may hold a password.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || strings.Contains(baseURL, "@") {
		return nil, errors.New("target URL: must be an http or https URL with a host, without user, query and fragment")
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns = idleConnections, 0
	t.DisableCompression = true // both sides' time is for the model
	r := &remote{base: strings.TrimRight(u.String(), "/"), token: key, http: &http.Client{Transport: t}}
	switch kind {
	case KindLlamaServer:
		return &LlamaServer{r}, nil
	case KindVLLM:
		return &VLLM{r}, nil
	}
	return &Agentd{remote: r}, nil
}

// Options apply to all turns of a run.
type Options struct {
	// FixedTokens is the exact length of every candidate, without a grammar. 0:
	// candidates end by themselves, constrained by the turn's grammar.
	FixedTokens int
	// MaxTokens bounds candidates that end by themselves.
	MaxTokens int
	// Greedy decodes deterministically. Otherwise temperature is 1 without top-k, top-p
	// and min-p, and candidate i has the seed Seed+i.
	Greedy bool
	Seed   uint64
	// Return asks agentd for token ids and logprobs too.
	Return bool
}

// check refuses what no server can be asked.
func (o *Options) check(t *workload.Turn) error {
	switch {
	case t.Candidates < 1:
		return turnError(t, "has %d candidates; at least 1 is needed", t.Candidates)
	case o.FixedTokens <= 0 && o.MaxTokens <= 0:
		return errors.New("neither fixed tokens nor max tokens are set")
	}
	return nil
}

// Answer is the answer to one turn. A negative number is unknown.
type Answer struct {
	Candidates []Candidate
	// PromptTokens counts the prompt once, however many requests the turn took.
	// ComputedTokens are the prompt tokens not found in a cache, of all these requests.
	PromptTokens, ComputedTokens int
	// OutputTokens of all candidates.
	OutputTokens int
	// First is the time from sending to the first token.
	First time.Duration
	// Copies is true if the candidates are copies of one generation.
	Copies bool
	// Prompt is the server's prompt text; "" if unknown.
	Prompt string
}

// Candidate is one candidate of an answer.
type Candidate struct {
	Tokens  int    // -1 if unknown
	Failure string // code; "" if it ended well
}

// Codes of candidates without a decision, as agentd has them.
const (
	codeInvalidOutput = "invalid_output"
	codeTruncated     = "truncated"
)

// checkLength compares a candidate's length with the options.
func (c *Candidate) checkLength(i int, o Options, hint string) error {
	parsed := c.Failure == codeInvalidOutput || c.Failure == codeTruncated
	switch {
	case o.FixedTokens > 0 && parsed:
		return contract("candidate %d is %s, but all candidates should have %d tokens; %s", i, c.Failure, o.FixedTokens, hint)
	case c.Failure != "" && !parsed || c.Tokens < 0:
	case o.FixedTokens > 0 && c.Tokens != o.FixedTokens:
		return contract("candidate %d has %d tokens instead of %d; %s", i, c.Tokens, o.FixedTokens, hint)
	case o.FixedTokens == 0 && o.MaxTokens > 0 && c.Tokens > o.MaxTokens:
		return contract("candidate %d has %d tokens, and the limit is %d; %s", i, c.Tokens, o.MaxTokens, hint)
	}
	return nil
}

// ErrNoCounters is returned for a server without counters.
var ErrNoCounters = errors.New("the server has no counters")

// Counters are a server's counters since its start and its current state. A negative
// number is unknown.
type Counters struct {
	Prefilled float64 `json:"prefilled"` // prompt tokens
	Steps     float64 `json:"steps"`     // of the model
	Rows      float64 `json:"rows"`      // of the steps
	CellsUsed float64 `json:"cells_used"`
	// Phases are seconds by phase of a step: plan, decode, sample, commit.
	Phases map[string]float64 `json:"phases,omitempty"`
	// CPU is the processor time of the server's processes in seconds, Memory what they
	// hold in bytes. 0: unknown, as for every server that the suite did not start.
	CPU    float64 `json:"cpu_s,omitempty"`
	Memory float64 `json:"memory_bytes,omitempty"`
}

// Kinds of failures.
const (
	Refused   = "refused"   // 429 or 503
	Cancelled = "cancelled" // the run ended
	Transport = "transport" // no HTTP answer
	Status    = "status"    // another status
	Contract  = "contract"  // an answer that breaks the protocol
)

// Failure is a turn without an answer.
type Failure struct {
	Kind   string
	Status int // of HTTP; 0 without
	Err    error
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }
