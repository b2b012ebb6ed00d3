package learn

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Round is the result of a round.
type Round struct {
	Round   int    `json:"round"`
	Work           // of the model before the round's training
	Verdict        // on the model that was trained
	Right   Shares `json:"right"` // held-out decisions of that model

	model string // its file
}

func (r *Round) fate() string {
	if r.Kept {
		return "kept"
	}
	return "not kept"
}

// Report is the result of all rounds.
type Report struct {
	Base   Shares  `json:"base"` // held-out decisions of the first model
	Rounds []Round `json:"rounds"`
	Last   Work    `json:"last"` // of the best model after the last round, in new houses
	Best   string  `json:"best"` // file of the best model
}

// publish writes the report in all forms and the best model.
func (l *loop) publish(r *Report, best string) error {
	r.Best = filepath.Join(l.Dir, bestFile)
	if err := copyFile(best, r.Best); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(l.Dir, reportFile), r); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(l.Dir, "README.md"), []byte(r.Table())); err != nil {
		return err
	}
	return writeFile(filepath.Join(l.Dir, "rounds.svg"), []byte(r.plot()))
}

// Table is the report for people, in Markdown.
func (r *Report) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Rounds\n\n`%s` holds the best weights.\n\n", bestFile)
	b.WriteString("| Round | Tasks | Coach calls for 100 tasks | Right after training | With `robot_statuses` | Calls of several robots | Better, worse | p | Weights |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	fmt.Fprintf(&b, "| before | | | %s | %s | %s | | | |\n", r.Base.Known, r.Base.Statuses, r.Base.Several)
	for i := range r.Rounds {
		x := &r.Rounds[i]
		fmt.Fprintf(&b, "| %d | %d | %.1f | %s | %s | %s | %d, %d | %.3f | %s |\n", x.Round, x.Tasks, x.CallsPer100(), x.Right.Known, x.Right.Statuses, x.Right.Several, x.Better, x.Worse, x.P, x.fate())
	}
	if r.Last.Tasks > 0 {
		fmt.Fprintf(&b, "| after | %d | %.1f | | | | | | |\n", r.Last.Tasks, r.Last.CallsPer100())
	}
	b.WriteString("\nRight decisions are those in held-out houses. Coach calls are those of the best model before the round. Weights are kept when they are better with p of at most 0.05.\n\n![Rounds](rounds.svg)\n")
	return b.String()
}
