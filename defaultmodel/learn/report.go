package learn

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
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

// best are the held-out decisions of the best model after each round, in percent, from
// the first model on.
func (r *Report) best() []float64 {
	list := []float64{r.Base.Known.Percent()}
	for i := range r.Rounds {
		y := list[i]
		if x := &r.Rounds[i]; x.Kept {
			y = x.Right.Known.Percent()
		}
		list = append(list, y)
	}
	return list
}

// calls are the coach calls for 100 tasks with the best model after each round.
func (r *Report) calls() (list []float64) {
	for i := range r.Rounds {
		list = append(list, r.Rounds[i].CallsPer100())
	}
	if r.Last.Tasks > 0 {
		list = append(list, r.Last.CallsPer100())
	}
	return list
}

// Size of a chart in the units of the SVG, and of its margins.
const chartWidth, chartHeight, margin = 360, 260, 44

// plot is an SVG of two charts.
func (r *Report) plot() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", 2*chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", 2*chartWidth, chartHeight)
	best := r.best()
	chart(&b, 0, "Held-out decisions of the best model, % right", best, math.Floor(slices.Min(best))-1, math.Ceil(slices.Max(best))+1)
	if calls := r.calls(); len(calls) > 0 {
		chart(&b, chartWidth, "Coach calls for 100 tasks", calls, 0, math.Ceil(slices.Max(calls))+1)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// chart draws values by the number of rounds that are done, on an axis from low to high.
func chart(b *strings.Builder, left int, title string, values []float64, low, high float64) {
	const lines = 4
	x := func(i int) float64 {
		return float64(left+margin) + float64(i)*float64(chartWidth-2*margin)/float64(max(1, len(values)-1))
	}
	y := func(v float64) float64 {
		return chartHeight - margin - (v-low)/(high-low)*(chartHeight-2*margin)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left+margin, margin-16, title)
	for i := range lines + 1 {
		v := low + (high-low)*float64(i)/lines
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n",
			left+margin, y(v), chartWidth-2*margin, left+margin-6, y(v)+4, v)
	}
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3"/><text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n",
			x(i), y(v), x(i), chartHeight-margin+18, i)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="black"/>`+"\n", strings.Join(points, " "))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">rounds done</text>`+"\n", left+chartWidth/2, chartHeight-8)
}
