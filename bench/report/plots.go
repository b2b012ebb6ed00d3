package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/bench/result"
)

// Bounds of what a plot draws: more can't be seen.
const (
	curvePoints = 200 // of a CDF
	timePoints  = 240 // over time
)

// group is the runs of one arm with all that was measured.
type group struct {
	arm  *result.Arm
	runs []*result.Full
}

// heaviest are the arms under the heaviest load of each name, as many as there are
// colours: the others are in the plot of latency against throughput.
func heaviest(all []group) []group {
	var list []group
	for _, g := range all {
		i := slices.IndexFunc(list, func(h group) bool { return h.arm.Name == g.arm.Name })
		switch {
		case i >= 0: // arms are in the order of their load
			list[i] = g
		case len(list) < chartColours:
			list = append(list, g)
		}
	}
	return list
}

// plots of all runs.
func plots(all []group) []*chart {
	top := heaviest(all)
	list := []*chart{
		loadPlot(all),
		latencyPlot(top),
		overTime(top, "width", "Batch width over time", "rows/step", "No server told the width of its batches.",
			"Rows of a step of the model, mean between two looks.", func(s *result.Sample) result.Value { return result.Measured(s.Width) }),
		overTime(top, "hits", "Cache hits over time", "% of prompt tokens", "No server told what it found in its prefix cache.",
			"Share of prompt tokens that were not computed again, between two looks.",
			func(s *result.Sample) result.Value { return result.Measured(s.CacheHits).Times(100) }),
		byTurn(top, "computed", "Prompt tokens computed by turn", "tokens", "No server told how many prompt tokens it computed.",
			"Median of the requests of a turn; the history grows with every turn.",
			func(r *result.Record) result.Value { return result.Measured(float64(r.ComputedTokens)) }),
		byTurn(top, "cost", "Latency by turn", "E2EL, ms", "No request was answered.",
			"Median E2EL of the requests of a turn.", func(r *result.Record) result.Value { return r.E2EL() }),
	}
	for _, c := range list {
		if !slices.ContainsFunc(c.series, func(s series) bool { return len(s.points) > 0 }) {
			c.series = nil
			continue
		}
		c.Missing = ""
		c.timeUnit()
		c.layout()
	}
	return list
}

// slow is from when on seconds are easier to read, in milliseconds.
const slow = 10_000

// timeUnit writes long times in seconds.
func (c *chart) timeUnit() {
	scaled := func(label *string, of func(*point) *float64) {
		most := 0.0
		for _, s := range c.series {
			for i := range s.points {
				most = max(most, *of(&s.points[i]))
			}
		}
		if !strings.HasSuffix(*label, ", ms") || most < slow {
			return
		}
		*label = (*label)[:len(*label)-len("ms")] + "s"
		for _, s := range c.series {
			for i := range s.points {
				*of(&s.points[i]) /= 1000
			}
		}
	}
	scaled(&c.XLabel, func(p *point) *float64 { return &p.x })
	scaled(&c.YLabel, func(p *point) *float64 { return &p.y })
}

// loadPlot is latency against throughput, a point for each load.
func loadPlot(all []group) *chart {
	c := &chart{
		ID: "load", Title: "Throughput against latency", XLabel: "decisions/s", YLabel: "E2EL, ms",
		Desc:    "End-to-end latency against decisions a second, one point for each load; right and low is good.",
		Note:    "Solid p50, dashed p99; one point for each load, medians of the repeats.",
		Missing: "No request was answered.",
	}
	rate, _ := result.MetricNamed(result.Ratio)
	colours := map[string]int{}
	for _, quantile := range []string{"e2el_p50", "e2el_p99"} {
		latency, _ := result.MetricNamed(quantile)
		var list []series
		for _, g := range all {
			colour, ok := colours[g.arm.Name]
			if !ok {
				if len(colours) == chartColours {
					continue
				}
				colour = len(colours)
				colours[g.arm.Name] = colour
			}
			x, y := g.arm.Spread(rate).Median, g.arm.Spread(latency).Median
			if !x.Known || !y.Known {
				continue
			}
			i := slices.IndexFunc(list, func(s series) bool { return s.colour == colour })
			if i < 0 {
				i = len(list)
				list = append(list, series{arm: g.arm.Name, colour: colour, dots: true, dashed: quantile == "e2el_p99"})
			}
			list[i].points = append(list[i].points, point{x.X, y.X})
		}
		c.series = append(c.series, list...)
	}
	return c
}

// latencyPlot is how many requests were done within a time.
func latencyPlot(top []group) *chart {
	c := &chart{
		ID: "cdf", Title: "Latency, cumulative", XLabel: "E2EL, ms", YLabel: "% of requests",
		Desc:    "Share of the requests that were answered within a time, for each arm; left is good.",
		Note:    "All requests of all repeats.",
		Missing: "No request was answered.",
	}
	for colour, g := range top {
		var values []float64
		for _, r := range g.runs {
			for i := range r.Records {
				if v := r.Records[i].E2EL(); v.Known && !r.Records[i].Warmup {
					values = append(values, v.X)
				}
			}
		}
		slices.Sort(values)
		s := series{arm: titled(g.arm), colour: colour, steps: true}
		n := min(len(values), curvePoints)
		for i := range n {
			at := (i + 1) * len(values) / n
			if i == 0 {
				s.points = append(s.points, point{values[0], 0})
			}
			s.points = append(s.points, point{values[at-1], 100 * float64(at) / float64(len(values))})
		}
		c.series = append(c.series, s)
	}
	return c
}

// overTime is what the samples of each arm's median repeat say.
func overTime(top []group, id, title, unit, missing, note string, of func(*result.Sample) result.Value) *chart {
	c := &chart{
		ID: id, Title: title, XLabel: "s from the beginning of the run", YLabel: unit, Missing: missing,
		Desc: title + ", in " + unit + " against seconds from the beginning of the run, for each arm.",
		Note: note + " The repeat with the median decisions/s.",
	}
	for colour, g := range top {
		s := series{arm: titled(g.arm), colour: colour}
		samples := g.median().Samples
		for from := range slices.Chunk(samples, max(1, (len(samples)+timePoints-1)/timePoints)) {
			var at, sum, n float64
			for i := range from {
				if v := of(&from[i]); v.Known {
					at, sum, n = at+from[i].At/1000, sum+v.X, n+1
				}
			}
			if n > 0 {
				s.points = append(s.points, point{at / n, sum / n})
			}
		}
		c.series = append(c.series, s)
	}
	return c
}

// median is the repeat with the median decisions/s; of an even number the slower
// of both in the middle.
func (g *group) median() *result.Full {
	list := slices.SortedStableFunc(slices.Values(g.runs), func(a, b *result.Full) int {
		return cmp.Compare(a.Summary.DecisionRate.X, b.Summary.DecisionRate.X)
	})
	return list[(len(list)-1)/2]
}

// byTurn is what a request of a turn costs, medians over all repeats.
func byTurn(top []group, id, title, unit, missing, note string, of func(*result.Record) result.Value) *chart {
	c := &chart{
		ID: id, Title: title, XLabel: "turn of the agent", YLabel: unit, Missing: missing, Note: note, whole: true,
		Desc: fmt.Sprintf("%s, median in %s against the number of the turn, for each arm.", title, unit),
	}
	for colour, g := range top {
		turns := map[int][]float64{}
		for _, run := range g.runs {
			for i := range run.Records {
				r := &run.Records[i]
				if v := of(r); v.Known && !r.Warmup && r.Failure == "" {
					turns[r.Turn] = append(turns[r.Turn], v.X)
				}
			}
		}
		s := series{arm: titled(g.arm), colour: colour, dots: true}
		for _, turn := range slices.Sorted(maps.Keys(turns)) {
			s.points = append(s.points, point{float64(turn), result.Distribute(turns[turn]).P50.X})
		}
		c.series = append(c.series, s)
	}
	return c
}
