package suite

import (
	"fmt"

	"agentd/bench/result"
)

// Row is a figure with a goal.
type Row struct {
	What     string       `json:"what"`
	Workload string       `json:"workload"` // its title
	Goal     float64      `json:"goal"`
	Most     bool         `json:"most"` // the goal is a most, not a least
	Unit     string       `json:"unit"` // "": a ratio
	Got      result.Value `json:"got"`  // unknown: not measured
	Reached  bool         `json:"reached"`
}

// Goals of the figures, beside those of the workloads.
const (
	goalIdeal         = 0.9
	goalLockstep      = 0.95
	goalStaggered     = 0.85
	goalComputed      = 1.02
	goalTTFT          = 1.10
	goalCells         = 1.05
	goalConstrained32 = 0.9
	goalHost          = 100 // microseconds
)

// Names of the figures.
const (
	rowServer      = "decisions/s to the best-tuned llama-server's"
	rowIdeal       = "decisions/s to the ideal"
	rowLockstep    = "decode tok/s to llama-batched-bench's, in lockstep"
	rowStaggered   = "decode tok/s to llama-batched-bench's, staggered"
	rowComputed    = "prompt tokens computed to the ideal"
	rowTTFT        = "TTFT of 8 candidates to that of 1"
	rowCells       = "KV cells of N candidates to P + N·T"
	rowConstrained = "unconstrained to constrained step time"
	rowHost        = "host cost of a step (plan and commit)"
)

// rows are all figures, by kind and in the order of the workloads.
func rows(r *Result) []Row {
	kinds := []struct {
		what string
		goal float64
		most bool
		unit string
		of   func(*Measured) (got result.Value, applies bool)
	}{
		{rowServer, 0, false, "", func(m *Measured) (result.Value, bool) {
			return m.Agentd.Decisions.Median.Over(m.Server.Decisions.Median), true
		}},
		{rowIdeal, goalIdeal, false, "", func(m *Measured) (result.Value, bool) { return m.Agentd.Decisions.Median.Over(m.Ideal), true }},
		{rowLockstep, goalLockstep, false, "", func(m *Measured) (result.Value, bool) { return m.Lockstep, m.fixed() }},
		{rowStaggered, goalStaggered, false, "", func(m *Measured) (result.Value, bool) { return m.Staggered, m.fixed() }},
		{rowComputed, goalComputed, true, "", func(m *Measured) (result.Value, bool) { return m.Agentd.Computed.Median, true }},
		{rowTTFT, goalTTFT, true, "", func(m *Measured) (result.Value, bool) { return m.ManyTTFT, m.fixed() }},
		{rowCells, goalCells, true, "", func(m *Measured) (result.Value, bool) { return m.Cells, m.fixed() }},
		{rowConstrained, goalConstrained32, false, "", func(m *Measured) (result.Value, bool) { return m.Constrained, !m.fixed() || m.Shape == "tiny" }},
		{rowHost, goalHost, true, "µs", func(m *Measured) (result.Value, bool) { return m.Host, m.fixed() }},
	}
	var list []Row
	for _, k := range kinds {
		for _, m := range r.Workloads {
			got, applies := k.of(m)
			if !applies {
				continue
			}
			goal := k.goal
			if k.what == rowServer {
				goal = m.Goal
			}
			row := Row{What: k.what, Workload: m.Title, Goal: goal, Most: k.most, Unit: k.unit, Got: got}
			row.Reached = got.Known && (k.most && got.X <= goal || !k.most && got.X >= goal)
			list = append(list, row)
		}
	}
	return list
}

// fixed tells whether answers have a fixed length: the single steps are measured on
// these workloads.
func (m *Measured) fixed() bool { return m.FixedTokens > 0 }

// goal is the goal for people.
func (r *Row) goal() string {
	word := "at least "
	if r.Most {
		word = "at most "
	}
	return word + number(r.Goal, r.Unit)
}

func (r *Row) got() string {
	if !r.Got.Known {
		return "not measured"
	}
	return number(r.Got.X, r.Unit)
}

func (r *Row) reached() string {
	switch {
	case r.Reached:
		return "yes"
	case r.Got.Known:
		return "**no**"
	}
	return "-"
}

// number of a ratio, or with its unit.
func number(x float64, unit string) string {
	if unit != "" {
		return fmt.Sprintf("%.0f %s", x, unit)
	}
	return fmt.Sprintf("%.2f", x)
}
