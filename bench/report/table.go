// Package report shows results as a table and as plots.
package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"agentd/bench/result"
)

// definitions explain the figures below a table.
const definitions = `Latency counts from the intended send of a request to the end of its last candidate.
TPOT is (E2EL - TTFT) / (output tokens of a candidate - 1).
`

// WriteTable writes one column for each arm: the median of its repeats, with the least
// and the most of several. Two arms of the same load get a column of ratios; above 1
// the first arm is better.
func WriteTable(w io.Writer, runs []*result.Run) error {
	r := runs[0]
	fmt.Fprintf(w, "Trace %.12s: %d agents, %d turns, %d candidates\nOn %s\n", r.Trace.Hash, r.Trace.Agents, r.Trace.Turns, r.Trace.Candidates, r.Host)
	for _, d := range result.Differences(runs) {
		fmt.Fprintf(w, "NOT THE SAME RUN: %s\n", d)
	}
	fmt.Fprintln(w)
	arms := result.Arms(runs)
	ratios := len(arms) == 2 && arms[0].Load == arms[1].Load
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	names, loads := []string{"", ""}, []string{"", ""}
	for i := range arms {
		names, loads = append(names, arms[i].Name), append(loads, fmt.Sprintf("%s, %d×", arms[i].Load, len(arms[i].Runs)))
	}
	if ratios {
		names = append(names, "ratio")
	}
	line(names...)
	line(append(loads, make([]string, len(names)-len(loads))...)...)
	group := ""
	for _, m := range rows(runs) {
		cells, known := []string{"  " + m.Title, m.Unit}, false
		for i := range arms {
			s := arms[i].Spread(m.Of)
			known = known || s.Median.Known
			cell := number(s.Median)
			if s.Median.Known && s.Min != s.Max {
				cell += fmt.Sprintf(" (%s-%s)", number(s.Min), number(s.Max))
			}
			cells = append(cells, cell)
		}
		if !known {
			continue
		}
		if ratios {
			cells = append(cells, number(ratio(m, arms[0].Median(m), arms[1].Median(m))))
		}
		if m.Group != group {
			group = m.Group
			line(append([]string{group}, make([]string, len(cells)-1)...)...)
		}
		line(cells...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for text := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(text, " \n"))
	}
	_, err := io.WriteString(w, "\n"+definitions)
	return err
}

// ratio is how much better a is than b.
func ratio(m result.Metric, a, b result.Value) result.Value {
	switch m.Better {
	case 1:
		return a.Over(b)
	case -1:
		return b.Over(a)
	}
	return result.Value{}
}

// rows are the metrics and the phases of the steps.
func rows(runs []*result.Run) []result.Metric {
	list := result.Metrics()
	names := map[string]bool{}
	for _, r := range runs {
		for name := range r.Summary.Phases {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, result.Metric{Title: "Steps: " + name, Unit: "s", Group: "Steps", Of: func(s *result.Summary) result.Value {
			seconds, ok := s.Phases[name]
			return result.Value{X: seconds, Known: ok}
		}})
	}
	return list
}

// number writes three significant digits, and whole numbers in full.
func number(v result.Value) string {
	x := v.X
	size := math.Abs(x)
	switch {
	case !v.Known:
		return "-"
	case x == math.Trunc(x) && size < 1e15, size >= 100 && size < 1e15:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case size >= 10 && size < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case size >= 1 && size < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
