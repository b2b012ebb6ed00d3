package suite

import (
	"fmt"

	"agentd/bench/result"
)

// Names of the figures with a goal.
const (
	rowVLLM        = "decisions/s to vLLM's"
	rowServer      = "decisions/s to the best-tuned llama-server's"
	rowEstimate    = "decisions/s to the reference estimate"
	rowLockstep    = "decode tok/s to llama-batched-bench's, in lockstep"
	rowStaggered   = "decode tok/s to llama-batched-bench's, staggered"
	rowComputed    = "prompt tokens computed to unique ones"
	rowTTFT        = "TTFT of 8 candidates to that of 1"
	rowCells       = "KV cells of N candidates to P + N·T"
	rowConstrained = "unconstrained to constrained step time"
	rowHost        = "host cost of a step (plan and commit)"
)

// row is a figure with a goal, which is a lower bound, or an upper bound with most.
type row struct {
	what    string
	goal    float64 // 0: the load's own
	most    bool
	format  string
	applies func(*Measured) bool
}

// rows in the order of the table.
func rows() []row {
	every := func(*Measured) bool { return true }
	return []row{
		{rowVLLM, 1.6, false, "%.2f", func(m *Measured) bool { return m.VLLM.Repeats > 0 }},
		{rowServer, 0, false, "%.2f", every},
		{rowEstimate, 0.9, false, "%.2f", every},
		{rowLockstep, 0.95, false, "%.2f", (*Measured).fixed},
		{rowStaggered, 0.85, false, "%.2f", (*Measured).fixed},
		{rowComputed, 1.02, true, "%.2f", every},
		{rowTTFT, 1.10, true, "%.2f", (*Measured).fixed},
		{rowCells, 1.05, true, "%.2f", (*Measured).fixed},
		{rowConstrained, 0.9, false, "%.2f", (*Measured).constrained},
		{rowHost, 100, true, "%.0f µs", (*Measured).fixed},
	}
}

// fixed reports whether answers have a fixed length. Single steps are measured on these
// loads.
func (w *Load) fixed() bool { return w.FixedTokens > 0 }

// constrained reports whether constrained steps are measured: with trained weights, and
// with random weights of the tiny shape.
func (w *Load) constrained() bool { return !w.fixed() || w.Shape == "tiny" }

// line is the row of a load in Markdown.
func (r *row) line(m *Measured) string {
	goal, word := r.goal, "at least "
	if goal == 0 {
		goal = m.Goal
	}
	if r.most {
		word = "at most "
	}
	got, reached := m.Figures[r.what], "**no**"
	switch {
	case !got.Known:
		return fmt.Sprintf("| %s | %s | %s | not measured | - |", r.what, m.Title, word+text(result.Known(goal), r.format))
	case r.most && got.X <= goal, !r.most && got.X >= goal:
		reached = "yes"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", r.what, m.Title, word+text(result.Known(goal), r.format), text(got, r.format), reached)
}
