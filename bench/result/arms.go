package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Arm is one server of a comparison: runs of the same name and load are its repeats.
type Arm struct {
	Name string
	Load Load
	Runs []*Run
}

// Spread of a metric over the repeats.
func (a *Arm) Spread(of func(*Summary) Value) Spread {
	values := make([]Value, len(a.Runs))
	for i, r := range a.Runs {
		values[i] = of(&r.Summary)
	}
	return SpreadOf(values)
}

// Median is the value of a metric in the middle of the repeats.
func (a *Arm) Median(m Metric) Value { return a.Spread(m.Of).Median }

// Arms groups runs, in the order of their first run. Arms of one name are in the order
// of their load.
func Arms(runs []*Run) []Arm {
	var arms []Arm
	order := map[string]int{}
	for _, r := range runs {
		if _, ok := order[r.Name]; !ok {
			order[r.Name] = len(order)
		}
		i := slices.IndexFunc(arms, func(a Arm) bool { return a.Name == r.Name && a.Load == r.Load })
		if i < 0 {
			i = len(arms)
			arms = append(arms, Arm{Name: r.Name, Load: r.Load})
		}
		arms[i].Runs = append(arms[i].Runs, r)
	}
	slices.SortStableFunc(arms, func(x, y Arm) int {
		return cmp.Or(cmp.Compare(order[x.Name], order[y.Name]), cmp.Compare(x.Load.Rate, y.Load.Rate), cmp.Compare(x.Load.Agents, y.Load.Agents))
	})
	return arms
}

// Differences names what makes a comparison of runs unfair: another trace, machine,
// model or option, and interrupted runs. Arms may have different loads.
func Differences(runs []*Run) []string {
	var list []string
	for _, r := range runs {
		if r.Interrupted != "" {
			list = append(list, fmt.Sprintf("a run of %s was interrupted: %s", r.Name, r.Interrupted))
		}
	}
	differ := func(what string, of func(*Run) string) {
		for _, r := range runs[min(1, len(runs)):] {
			if x, y := of(runs[0]), of(r); x != y {
				list = append(list, fmt.Sprintf("%s: %s has %q, %s has %q", what, runs[0].Name, x, r.Name, y))
				return
			}
		}
	}
	differ("trace", func(r *Run) string { return r.Trace.Hash })
	differ("model", func(r *Run) string { return r.Model })
	differ("host", func(r *Run) string { return r.Host.String() })
	names := map[string]bool{}
	for _, r := range runs {
		for name := range r.Options {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ("--"+name, func(r *Run) string { return r.Options[name] })
	}
	return list
}

// String is the host in one line.
func (h Host) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%d × %s, %s", h.CPUs, h.CPU, h.Note), ", ")
}
