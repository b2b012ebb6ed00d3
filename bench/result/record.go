// Package result holds what a run measured: a record of each request, their summary,
// and the result file.
package result

import "agentd/bench/target"

// Record is one request. Times are milliseconds; -1 is unknown.
type Record struct {
	Agent int `json:"agent"`
	Turn  int `json:"turn"`
	// Intended is when the request should be sent, Sent when it was, Done when the answer
	// was read. They count from the run's start. Latency counts from Intended.
	Intended float64 `json:"intended_ms"`
	Sent     float64 `json:"sent_ms"`
	Done     float64 `json:"done_ms"`
	// TTFT is the time to the first token of any candidate, from Intended.
	TTFT float64 `json:"ttft_ms"`

	// Failure is "" or a kind of target.Failure; such a request has no candidate.
	Failure string `json:"failure,omitempty"`
	// Candidates requested, and failures of single candidates by code.
	Candidates int            `json:"candidates"`
	Failures   map[string]int `json:"failures,omitempty"`
	// Copies is true if the candidates are copies of one generation.
	Copies bool `json:"copies,omitempty"`
	// Tokens of all candidates, of the prompt, and computed ones of the prompt; -1 is
	// unknown.
	OutputTokens   int `json:"output_tokens"`
	PromptTokens   int `json:"prompt_tokens"`
	ComputedTokens int `json:"computed_tokens"`
}

// Cancelled is the failure of a request that was under way when the run ended.
const Cancelled = target.Cancelled

// Sample is a reading of the server's counters, At milliseconds after the run's start.
type Sample struct {
	At float64 `json:"at_ms"`
	target.Counters
}

// decisions is the number of candidates that ended well.
func (r *Record) decisions() int {
	if r.Failure != "" {
		return 0
	}
	n := r.Candidates
	for _, failed := range r.Failures {
		n -= failed
	}
	return max(n, 0)
}

// generated is the number of output tokens that the server computed; negative if
// unknown.
func (r *Record) generated() int {
	if r.Copies && r.OutputTokens > 0 {
		return r.OutputTokens / max(1, r.Candidates)
	}
	return r.OutputTokens
}

// E2EL is the end-to-end latency in milliseconds; unknown for a failed request.
func (r *Record) E2EL() Value {
	if r.Failure != "" {
		return Value{}
	}
	return Known(r.Done - r.Intended)
}

// tpot is the time per output token after the first, as vLLM's serving benchmark
// defines it: (E2EL - TTFT) / (output tokens of a candidate - 1). Several candidates
// count with their mean length.
func (r *Record) tpot() Value {
	ttft, e2el := Measured(r.TTFT), r.E2EL()
	n := Measured(float64(r.OutputTokens)).Over(Known(float64(r.Candidates)))
	if !ttft.Known || !e2el.Known || !n.Known || n.X <= 1 {
		return Value{}
	}
	return Measured((e2el.X - ttft.X) / (n.X - 1))
}
