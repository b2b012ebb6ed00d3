package suite

import (
	"cmp"
	"fmt"
)

// Names of the figures with a goal.
const (
	rowVLLM     = "decisions/s to vLLM's"
	rowServer   = "decisions/s to the best-tuned llama-server's"
	rowComputed = "prompt tokens computed to unique ones"
)

// row is a figure with a goal, which is a lower bound, or an upper bound with most.
type row struct {
	what string
	goal float64 // 0: the load's own
	most bool
}

// rows in the order of the table.
var rows = []row{{rowVLLM, 1.6, false}, {rowServer, 0, false}, {rowComputed, 1.02, true}}

// line is the row of a load in Markdown.
func (r *row) line(m *Measured) string {
	goal, word := cmp.Or(r.goal, m.Goal), "at least "
	if r.most {
		word = "at most "
	}
	bound := fmt.Sprintf("%s%.2f", word, goal)
	got, reached := m.Figures[r.what], "**no**"
	switch {
	case !got.Known:
		return fmt.Sprintf("| %s | %s | %s | not measured | - |", r.what, m.Title, bound)
	case r.most && got.X <= goal, !r.most && got.X >= goal:
		reached = "yes"
	}
	return fmt.Sprintf("| %s | %s | %s | %.2f | %s |", r.what, m.Title, bound, got.X, reached)
}
