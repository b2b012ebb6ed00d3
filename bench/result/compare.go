package result

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Rule demands a ratio of one metric.
type Rule struct {
	Metric Metric
	Least  float64
}

// ParseRules reads rules as ratio=1.7,output_tok_s=0.95,ttft_p50=0.9. The ratio
// always says how much better the first side is: first/second where higher is
// better, second/first where lower is. So every rule is a least ratio.
func ParseRules(s string) ([]Rule, error) {
	var rules []Rule
	for part := range strings.SplitSeq(s, ",") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, fmt.Errorf("got %q, want METRIC=RATIO such as ratio=1.7", part)
		}
		m, ok := MetricNamed(name)
		if !ok || m.Better == Neutral {
			return nil, fmt.Errorf("got the metric %q, want one of: %s", name, comparableNames())
		}
		least, err := strconv.ParseFloat(text, 64)
		if err != nil || !Known(least).Known || least <= 0 {
			return nil, fmt.Errorf("%s: got %q, want a ratio above 0 such as 0.95", name, text)
		}
		if slices.ContainsFunc(rules, func(r Rule) bool { return r.Metric.Name == m.Name }) {
			return nil, fmt.Errorf("%s is there twice; remove one", m.Name)
		}
		rules = append(rules, Rule{m, least})
	}
	return rules, nil
}

// Comparison is two arms side by side.
type Comparison struct {
	A, B Arm
	Rows []Row
	// Different says in what the two are no fair comparison; it is empty but where
	// the caller wanted to see them anyway.
	Different []string
}

// Row is one metric of both.
type Row struct {
	Metric Metric
	A, B   Spread
	// Ratio says how much better A is: above 1 it is, whichever way the metric
	// counts. Unknown where one of them is, or the divisor is 0.
	Ratio Value
	Rule  *Rule // nil: none
	// Missed tells that the rule does not hold, also because a side is unknown.
	Missed bool
}

// Compare holds the repeats of one arm against those of another by their medians.
// Runs of another trace or other options than the rest, and interrupted ones, are
// an error that names the difference, but with anyway.
func Compare(a, b []*File, rules []Rule, anyway bool) (*Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, errors.New("a side has no result")
	}
	c := &Comparison{A: Arm{Name: a[0].Run.Name, Load: a[0].Load, Files: a}, B: Arm{Name: b[0].Run.Name, Load: b[0].Load, Files: b}}
	c.Different = differences(slices.Concat(a, b))
	if len(c.Different) > 0 && !anyway {
		return nil, fmt.Errorf("the results can't be compared fairly: %s", strings.Join(c.Different, "; "))
	}
	for _, m := range metrics {
		row := Row{Metric: m, A: c.A.Spread(m), B: c.B.Spread(m)}
		x, y := row.A.Median, row.B.Median
		if m.Better == LowerIsBetter {
			row.Ratio = y.Over(x)
		} else {
			row.Ratio = x.Over(y)
		}
		if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Metric.Name == m.Name }); i >= 0 {
			row.Rule = &rules[i]
			row.Missed = !row.holds()
		}
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

// holds decides without a division, so that 0 failures against 0 hold any ratio
// up to 1.
func (r *Row) holds() bool {
	a, b := r.A.Median, r.B.Median
	switch {
	case !a.Known || !b.Known:
		return false
	case a.X == 0 && b.X == 0:
		return r.Rule.Least <= 1
	case r.Metric.Better == LowerIsBetter:
		return a.X*r.Rule.Least <= b.X
	}
	return a.X >= b.X*r.Rule.Least
}

// Missed are the sentences of the rules that do not hold.
func (c *Comparison) Missed() []string {
	var list []string
	for i := range c.Rows {
		r := &c.Rows[i]
		if !r.Missed {
			continue
		}
		got := "unknown"
		switch {
		case r.Ratio.Known:
			got = strconv.FormatFloat(r.Ratio.X, 'f', 3, 64)
		case r.A.Median.Known && r.B.Median.Known:
			got = "of a division by 0"
		}
		list = append(list, fmt.Sprintf("%s: the ratio is %s, wanted at least %g", r.Metric.Name, got, r.Rule.Least))
	}
	return list
}

// differences says in what runs are not the same run on different servers.
func differences(files []*File) []string {
	var list []string
	for _, f := range files {
		if f.Interrupted != "" {
			list = append(list, fmt.Sprintf("a run of %s was interrupted (%s)", f.Run.Name, f.Interrupted))
		}
	}
	differ := func(what string, of func(*File) string) {
		if d := difference(what, files, of); d != "" {
			list = append(list, d)
		}
	}
	differ("trace", func(f *File) string { return f.Trace.Hash })
	differ("load", func(f *File) string { return f.Load.String() })
	differ("machine", func(f *File) string { return fmt.Sprintf("%d × %s", f.Run.CPUs, f.Run.CPU) })
	// What one does not tell of the machine or the model may be anything.
	differ("GPU", func(f *File) string { return cmp.Or(f.Run.GPU, untold) })
	differ("threads", func(f *File) string { return cmp.Or(f.Run.Threads, untold) })
	differ("model", func(f *File) string { return cmp.Or(f.Run.Model, untold) })
	// Without an objective there is no goodput to compare, and of agentd, which does not
	// stream, there is nothing to tell.
	for _, x := range []struct {
		what string
		of   func(*File) string
	}{{"SLO", func(f *File) string { return f.SLO.String() }}, {"streamed", func(f *File) string { return f.Run.Server[Streamed] }}} {
		told := slices.DeleteFunc(slices.Clone(files), func(f *File) bool { return x.of(f) == "" })
		if d := difference(x.what, told, x.of); d != "" {
			list = append(list, d)
		}
	}
	names := map[string]bool{}
	for _, f := range files {
		for name := range f.Options {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ("--"+name, func(f *File) string {
			if v, ok := f.Options[name]; ok {
				return strconv.Quote(v)
			}
			return "nothing"
		})
	}
	return list
}

// untold stands for what a run does not tell.
const untold = "none told"

// difference says in what the first file and another one differ; "" when none does.
func difference(what string, files []*File, of func(*File) string) string {
	for i, f := range files {
		if x, y := of(files[0]), of(f); i > 0 && x != y {
			return fmt.Sprintf("%s: %s has %s, %s has %s", what, files[0].Run.Name, x, f.Run.Name, y)
		}
	}
	return ""
}

// Arm is the repeats of one run: the same name under the same load.
type Arm struct {
	Name  string
	Load  Load
	Files []*File
}

// Spread of a metric over the repeats.
func (a *Arm) Spread(m Metric) Spread {
	values := make([]Value, len(a.Files))
	for i, f := range a.Files {
		values[i] = m.Of(&f.Summary)
	}
	return SpreadOf(values)
}

// Arms gathers the repeats, in the order in which arms come first; those of the
// same name by their load.
func Arms(files []*File) []Arm {
	var arms []Arm
	for _, f := range files {
		i := slices.IndexFunc(arms, func(a Arm) bool { return a.Name == f.Run.Name && a.Load == f.Load })
		if i < 0 {
			i = len(arms)
			arms = append(arms, Arm{Name: f.Run.Name, Load: f.Load})
		}
		arms[i].Files = append(arms[i].Files, f)
	}
	order := map[string]int{}
	for _, a := range arms {
		if _, ok := order[a.Name]; !ok {
			order[a.Name] = len(order)
		}
	}
	slices.SortStableFunc(arms, func(x, y Arm) int {
		if d := order[x.Name] - order[y.Name]; d != 0 {
			return d
		}
		switch {
		case x.Load.Level < y.Load.Level:
			return -1
		case x.Load.Level > y.Load.Level:
			return 1
		}
		return strings.Compare(x.Load.Kind, y.Load.Kind)
	})
	return arms
}
