package learn

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"agentd/defaultmodel/evaluate"
)

// series are the values of a line, by the number of rounds that are done.
type series struct {
	name   string
	values []float64
}

// best are the held-out decisions of the best model after each round, in percent, from
// the first model on. Kinds of decisions that were not measured are left out.
func (r *Report) best() (list []series) {
	for _, kind := range []struct {
		name string
		of   func(Shares) evaluate.Share
	}{
		{"plain houses", func(s Shares) evaluate.Share { return s.Known }},
		{"with robot_statuses", func(s Shares) evaluate.Share { return s.Statuses }},
		{"calls of several robots", func(s Shares) evaluate.Share { return s.Several }},
	} {
		if kind.of(r.Base).Of == 0 {
			continue
		}
		line := series{kind.name, []float64{kind.of(r.Base).Percent()}}
		for i := range r.Rounds {
			y := line.values[i]
			if x := &r.Rounds[i]; x.Kept {
				y = kind.of(x.Right).Percent()
			}
			line.values = append(line.values, y)
		}
		list = append(list, line)
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

// Sizes in the units of the SVG: of a chart, of its margins, and of a line of the legend.
const chartWidth, chartHeight, margin, legendHeight = 360, 310, 44, 16

// plotStyle has the colors for light and dark pages. Lines also differ in their dashes.
//
//go:embed plot.css
var plotStyle string

// plot is an SVG of two charts.
func (r *Report) plot() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", 2*chartWidth, chartHeight)
	fmt.Fprintf(&b, "<style>\n%s</style>\n", plotStyle)
	fmt.Fprintf(&b, `<rect width="%d" height="%d"/>`+"\n", 2*chartWidth, chartHeight)
	if best := r.best(); len(best) > 0 {
		low, high := 100.0, 0.0
		for _, s := range best {
			low, high = min(low, slices.Min(s.values)), max(high, slices.Max(s.values))
		}
		chart(&b, 0, "Held-out decisions of the best model, % right", best, math.Floor(low)-1, math.Ceil(high)+1)
	}
	if calls := r.calls(); len(calls) > 0 {
		chart(&b, chartWidth, "Coach calls for 100 tasks", []series{{"", calls}}, 0, math.Ceil(slices.Max(calls))+1)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// chart draws lines by the number of rounds that are done, on an axis from low to high. Lines
// with names have a legend.
func chart(b *strings.Builder, left int, title string, lines []series, low, high float64) {
	const parts, bottom = 4, chartHeight - 2*margin - legendHeight
	x := func(i, of int) float64 {
		return float64(left+margin) + float64(i)*float64(chartWidth-2*margin)/float64(max(1, of-1))
	}
	y := func(v float64) float64 { return bottom - (v-low)/(high-low)*(bottom-margin) }
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left+margin, margin-16, title)
	for i := range parts + 1 {
		v := low + (high-low)*float64(i)/parts
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n",
			left+margin, y(v), chartWidth-2*margin, left+margin-6, y(v)+4, v)
	}
	for k, line := range lines {
		var points []string
		for i, v := range line.values {
			px := x(i, len(line.values))
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, y(v)))
			fmt.Fprintf(b, `<circle class="s%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", k, px, y(v))
			if k == 0 {
				fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", px, bottom+18, i)
			}
		}
		fmt.Fprintf(b, `<polyline class="s%d" points="%s"/>`+"\n", k, strings.Join(points, " "))
		if line.name != "" {
			at := bottom + 54 + legendHeight*k
			fmt.Fprintf(b, `<path class="key s%d" d="M%d %dh28"/><text x="%d" y="%d">%s</text>`+"\n", k, left+margin, at-4, left+margin+36, at, line.name)
		}
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">rounds done</text>`+"\n", left+chartWidth/2, bottom+36)
}
