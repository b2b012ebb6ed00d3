// Package result holds what agentbench measured: a record for each request, their
// summary, and the comparison of two summaries.
package result

// Record is one request; a line of the requests file. Times are milliseconds, -1
// where they are not known.
type Record struct {
	Agent int `json:"agent"`
	Turn  int `json:"turn"`
	// Intended is when the request was to be sent, Sent when it was, Done when the
	// answer had been read, from the run's beginning. Latency counts from Intended.
	Intended float64 `json:"intended_ms"`
	Sent     float64 `json:"sent_ms"`
	Done     float64 `json:"done_ms"`
	// Queue and TTFT (time to first token, of the first candidate) count from
	// Intended.
	Queue float64 `json:"queue_ms"`
	TTFT  float64 `json:"ttft_ms"`
	// Gaps between tokens (inter-token latency), where the answer was streamed.
	Gaps []float64 `json:"itl_ms,omitempty"`

	// Failure is "" or a kind of target.Failure; then there is no candidate. [Left] is
	// none of the server's.
	Failure string `json:"failure,omitempty"`
	Status  int    `json:"status,omitempty"` // of HTTP, where it failed
	// Candidates asked for; Failures of single ones by code; Distinct texts.
	Candidates int            `json:"candidates"`
	Failures   map[string]int `json:"failures,omitempty"`
	Distinct   int            `json:"distinct,omitempty"`
	// Copies tells that the candidates are one generation, which a server that decodes
	// deterministically repeats.
	Copies bool `json:"copies,omitempty"`
	// OutputTokens of all candidates, PromptTokens and the computed ones of them;
	// -1 where the server does not say.
	OutputTokens   int `json:"output_tokens"`
	PromptTokens   int `json:"prompt_tokens"`
	ComputedTokens int `json:"computed_tokens"`
	// Warmup requests are not part of any figure.
	Warmup bool `json:"warmup,omitempty"`
}

// Left is the failure of a request that the harness left, as it was told to or
// because the run ended; package target calls it cancelled.
const Left = "cancelled"

// Sample is the server's state at a time, in milliseconds from the run's
// beginning: a line of the samples file.
type Sample struct {
	At        float64 `json:"at_ms"`
	Running   float64 `json:"running"`
	Waiting   float64 `json:"waiting"`
	CellsUsed float64 `json:"cells_used"`
	// Width is the mean of the batch since the last sample, rows for each step.
	Width float64 `json:"width"`
	// CacheHits is the share of prompt tokens since the last sample that were cached.
	CacheHits float64 `json:"cache_hits"`
}
