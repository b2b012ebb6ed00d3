package evaluate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"agentd/household"
)

// Goals of the default model, in percent.
const (
	GoalKnown         = 95.0 // right decisions with known tool names
	GoalUnseen        = 85.0 // and with unseen ones
	GoalTasks         = 80.0 // tasks finished
	GoalValid         = 100.0
	GoalUnconstrained = 98.0 // valid outputs without constraints
)

// Constraints of a run.
const (
	ConstraintsOn      = "on"
	ConstraintsOff     = "off"
	ConstraintsUnknown = "" // only the server knows
)

// Run is a measurement and what was measured.
type Run struct {
	ToolNames   string `json:"tool_names"`  // Known, Unseen or Reports
	Constraints string `json:"constraints"` // ConstraintsOn, …
	Result
}

// Report is the result of several runs of one model.
type Report struct {
	Model       string   `json:"model"` // for people; "" when it never was there
	Episodes    int      `json:"episodes"`
	Seed        uint64   `json:"seed"`
	Interrupted bool     `json:"interrupted"` // the runs are not all, or not whole
	Runs        []Run    `json:"runs"`
	Missed      []string `json:"missed"` // sentences; see Finish
}

// Finish fills in the goals that were missed.
func (r *Report) Finish() {
	r.Missed = []string{}
	for i := range r.Runs {
		run := &r.Runs[i]
		with := run.with()
		if run.Constraints != ConstraintsUnknown {
			with += ", constraints " + run.Constraints
		}
		for _, g := range run.goals() {
			if g.share.Of > 0 && g.share.Percent() < g.percent {
				r.Missed = append(r.Missed,
					fmt.Sprintf("%s with %s: %s, the goal is %g %%", g.what, with, g.share, g.percent))
			}
		}
	}
}

// Empty reports whether nothing was measured.
func (r *Report) Empty() bool {
	return !slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Valid.Of > 0 })
}

// with names what the houses of a run have.
func (r *Run) with() string {
	if r.ToolNames == Reports {
		return "held-out reports"
	}
	return r.ToolNames + " tool names"
}

// goal is the target of a share.
type goal struct {
	what    string
	share   Share
	percent float64
}

// Rows of the table.
const (
	rowValid = "valid outputs"
	rowCalls = "right but for words"
	rowRight = "right decisions"
	rowTasks = "tasks finished"
)

// goals of a run. A run without tasks only shows how many outputs are valid.
func (r *Run) goals() []goal {
	valid := goal{rowValid, r.Valid, GoalValid}
	if r.Constraints != ConstraintsOn {
		valid.percent = GoalUnconstrained
	}
	if r.Tasks.Of == 0 {
		return []goal{valid}
	}
	right := goal{rowRight, r.Right, GoalKnown} // also with held-out reports
	if r.ToolNames == Unseen {
		right.percent = GoalUnseen
	}
	return []goal{valid, right, {rowTasks, r.Tasks, GoalTasks}}
}

// WriteTable writes a finished report for people.
func (r *Report) WriteTable(w io.Writer) error {
	if r.Empty() {
		_, err := io.WriteString(w, "INTERRUPTED before anything was measured\n")
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, in houses and wordings that no training has; seed %d\n", r.Model, r.Seed)
	fmt.Fprintf(&b, "valid: the output is a decision; right: it is exactly the planner's; right but for words: it has\n"+
		"the same calls, or none; finished: the task ended with the right reply, within %d times the planner's steps\n", household.Patience)
	if r.Interrupted {
		b.WriteString("INTERRUPTED: this is what was measured until then\n")
	}
	for _, constraints := range []string{ConstraintsOn, ConstraintsOff, ConstraintsUnknown} {
		var runs []*Run
		for i := range r.Runs {
			if r.Runs[i].Constraints == constraints {
				runs = append(runs, &r.Runs[i])
			}
		}
		if len(runs) > 0 {
			b.WriteByte('\n')
			writeBlock(&b, runs)
		}
	}
	b.WriteByte('\n')
	switch {
	case len(r.Missed) > 0:
		fmt.Fprintf(&b, "Missed goals:\n  %s\n", strings.Join(r.Missed, "\n  "))
	case r.Interrupted:
		b.WriteString("No goal is missed so far.\n")
	default:
		b.WriteString("All goals are reached.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeBlock writes the runs with the same constraints side by side.
func writeBlock(b *strings.Builder, runs []*Run) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, columnGap, ' ', 0)
	row := func(name string, cell func(*Run) string, last string) {
		cells := []string{name}
		for _, r := range runs {
			cells = append(cells, cell(r))
		}
		fmt.Fprintln(t, strings.Join(append(cells, last), "\t"))
	}
	title := "Constraints " + runs[0].Constraints
	if runs[0].Constraints == ConstraintsUnknown {
		title = "As the server is set"
	}
	row(title, func(r *Run) string { return r.with() }, "goal")
	row("conversations", func(r *Run) string { return fmt.Sprint(r.Episodes) }, "")
	row(rowValid, func(r *Run) string { return r.Valid.String() }, goalOf(runs, rowValid))
	row(rowCalls, func(r *Run) string { return r.Calls.String() }, "")
	row(rowRight, func(r *Run) string { return r.Right.String() }, goalOf(runs, rowRight))
	for kind := range household.Kind(household.Kinds) {
		row("  "+kind.String(), func(r *Run) string { return r.Kinds[kind].String() }, "")
	}
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Tasks.Of > 0 }) {
		row(rowTasks, func(r *Run) string { return r.Tasks.String() }, goalOf(runs, rowTasks))
	}
	_ = t.Flush() // a builder takes everything
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	for _, r := range runs {
		if len(r.Errors) > 0 {
			var list []string
			for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
				list = append(list, fmt.Sprintf("%s %d", code, r.Errors[code]))
			}
			fmt.Fprintf(b, "invalid outputs with %s: %s\n", r.with(), strings.Join(list, ", "))
		}
	}
}

// columnGap is the number of blanks between columns.
const columnGap = 3

// goalOf are the goals of a row, one for each column or one for all.
func goalOf(runs []*Run, what string) string {
	var list []string
	for _, r := range runs {
		for _, g := range r.goals() {
			if g.what == what {
				list = append(list, fmt.Sprintf("%g %%", g.percent))
			}
		}
	}
	return strings.Join(slices.Compact(list), ", ")
}
