package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"agentd/bench/result"
)

// Layout of the table, in columns of a terminal.
const (
	tableWidth = 100
	columnGap  = 2
)

// WriteTable writes results side by side, one column for each arm: the median of
// its repeats and, of several, the smallest and the largest.
func WriteTable(w io.Writer, files []*result.File) error {
	if len(files) == 0 {
		return errors.New("there is no result to show")
	}
	var b strings.Builder
	f := files[0]
	fmt.Fprintf(&b, "Trace %s (%s): %d agents, %d turns, %d candidates\n", short(f.Trace.Hash), f.Trace.Kind, f.Trace.Agents, f.Trace.Turns, f.Trace.Candidates)
	fmt.Fprintf(&b, "On %d × %s\n", f.Run.CPUs, f.Run.CPU)
	if f.Run.GPU != "" {
		fmt.Fprintf(&b, "GPU %s\n", f.Run.GPU)
	}
	if slo := f.SLO.String(); slo != "" {
		fmt.Fprintf(&b, "SLO %s\n", slo)
	}
	for _, s := range warnings(files) {
		writeWrapped(&b, s)
	}

	arms := result.Arms(files)
	list := rows(arms, detail)
	lines := [][]string{{"", ""}, {"", ""}}
	for i := range arms {
		lines[0] = append(lines[0], arms[i].Name)
		lines[1] = append(lines[1], arms[i].Load.String()+", "+repeats(&arms[i]))
	}
	group := ""
	for _, r := range list {
		if r.group != group {
			group = r.group
			lines = append(lines, []string{group})
		}
		cells := []string{"  " + r.title, r.unit}
		for _, s := range r.cells {
			cells = append(cells, spread(s))
		}
		lines = append(lines, cells)
	}
	writeColumns(&b, lines)

	b.WriteByte('\n')
	if len(arms) > 1 {
		for _, r := range ratios(arms) {
			fmt.Fprintf(&b, "%s decisions/s: %s\n", r.what, r.value)
		}
	}
	writeWrapped(&b, definitions)
	_, err := io.WriteString(w, b.String())
	return err
}

// detail tells a metric that a terminal has no room for.
func detail(m result.Metric) bool {
	return strings.HasSuffix(m.Name, "_mean") || strings.HasSuffix(m.Name, "_max")
}

func writeWrapped(b *strings.Builder, text string) {
	for _, line := range Wrap(text, tableWidth) {
		b.WriteString(line + "\n")
	}
}

// writeColumns writes lines of a title, a unit and any number of arms, as many
// arms beside each other as fit. A line of one cell is a heading.
func writeColumns(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		if len(line) > 1 {
			for i, cell := range line {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	left := width[0] + columnGap + width[1]
	for from := 2; from < len(width); {
		to, used := from, left
		for to < len(width) && (to == from || used+columnGap+width[to] <= tableWidth) {
			used += columnGap + width[to]
			to++
		}
		b.WriteByte('\n')
		for _, line := range lines {
			text := padded(line[0], width[0])
			if len(line) > 1 {
				text += strings.Repeat(" ", columnGap) + padded(line[1], width[1])
				for i := from; i < to; i++ {
					text += strings.Repeat(" ", columnGap) + padded(line[i], width[i])
				}
			}
			b.WriteString(strings.TrimRight(text, " ") + "\n")
		}
		from = to
	}
}

func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// WriteComparison writes both sides of a comparison with their ratios, and the
// rules that do not hold.
func WriteComparison(w io.Writer, c *result.Comparison) error {
	var b strings.Builder
	for _, d := range c.Different {
		writeWrapped(&b, "NOT THE SAME RUN: "+d)
	}
	lines := [][]string{
		{"", "", "ratio", c.A.Name, c.B.Name},
		{"", "", "", c.A.Load.String() + ", " + repeats(&c.A), c.B.Load.String() + ", " + repeats(&c.B)},
	}
	group := ""
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Rule == nil && (r.A.N == 0 && r.B.N == 0 || detail(r.Metric)) {
			continue // neither side says anything, or nothing new
		}
		if r.Metric.Group != group {
			group = r.Metric.Group
			lines = append(lines, []string{group})
		}
		ratio := ""
		if r.Metric.Better != result.Neutral {
			ratio = number(r.Ratio)
		}
		if r.Rule != nil {
			judged := "want"
			if r.Missed {
				judged = "MISSED"
			}
			ratio += fmt.Sprintf(", %s %g", judged, r.Rule.Least)
		}
		lines = append(lines, []string{"  " + r.Metric.Title, r.Metric.Unit, ratio, spread(r.A), spread(r.B)})
	}
	writeColumns(&b, lines)
	b.WriteByte('\n')
	writeWrapped(&b, fmt.Sprintf("A ratio above 1: %s is better than %s, whichever way the metric counts.", c.A.Name, c.B.Name))
	_, err := io.WriteString(w, b.String())
	return err
}

// headline is one number above all others.
type headline struct{ what, value string }

// ratios hold the first arm's decisions/s against those of the others under the
// same load.
func ratios(arms []result.Arm) []headline {
	m, _ := result.MetricNamed(result.Ratio)
	var list []headline
	for i := range arms {
		a := &arms[i]
		if a.Name != arms[0].Name {
			break
		}
		for j := i + 1; j < len(arms); j++ {
			b := &arms[j]
			if b.Name == a.Name || b.Load != a.Load {
				continue
			}
			r := a.Spread(m).Median.Over(b.Spread(m).Median)
			what := fmt.Sprintf("%s to %s at %s", a.Name, b.Name, a.Load)
			if r.Known {
				list = append(list, headline{what, fmt.Sprintf("%.2f×", r.X)})
			} else {
				list = append(list, headline{what, unknown})
			}
		}
	}
	return list
}
