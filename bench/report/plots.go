package report

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"agentd/bench/result"
)

// Size of the page, and of the space around a plot.
const (
	pageWidth, pageHeight = 11 * vg.Inch, 8 * vg.Inch
	padding               = 12 * vg.Millimeter / 2
)

// series is the data of one arm.
type series struct {
	name   string
	points plotter.XYs
}

// WritePlots writes one page of four plots as SVG.
func WritePlots(w io.Writer, runs []*result.Run) error {
	arms := result.Arms(runs)
	tiles := [][]*plot.Plot{
		{chart("Latency, cumulative", "E2EL, ms", "% of requests"), chart("Latency against throughput", "decisions/s", "E2EL, ms (solid p50, dashed p99)")},
		{chart("Batch width, first repeat", "s", "rows/step"), chart("Prompt tokens computed, median of a turn", "turn", "tokens")},
	}
	tiles[0][0].Y.Tick.Marker = plot.TickerFunc(func(from, _ float64) []plot.Tick { return ticks(from, 100) })
	for _, x := range []struct {
		plot   *plot.Plot
		series []series
		dashed bool
	}{
		{tiles[0][0], each(arms, latencies), false},
		{tiles[0][1], loads(arms, result.E2ELp99), true}, // above p50
		{tiles[0][1], loads(arms, result.E2ELp50), false},
		{tiles[1][0], each(arms, widths), false},
		{tiles[1][1], each(arms, computed), false},
	} {
		if err := add(x.plot, x.series, x.dashed); err != nil {
			return err
		}
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(pageWidth, pageHeight), vgsvg.EmbedFonts(true))
	cells := plot.Align(tiles, draw.Tiles{
		Rows: len(tiles), Cols: len(tiles[0]), PadX: padding, PadY: padding, PadTop: padding, PadBottom: padding, PadLeft: padding, PadRight: padding,
	}, draw.New(canvas))
	for i := range tiles {
		for k, p := range tiles[i] {
			p.Draw(cells[i][k])
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}

func chart(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top = true
	p.BackgroundColor = color.White
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max, p.Y.Max = 1, 1 // of an empty plot
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	p.Add(plotter.NewGrid())
	return p
}

// ticks are four to eleven labels at round numbers.
func ticks(from, to float64) (list []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, part := range []float64{2, 2.5} { // the steps are 1, 5 and 2 times a power of ten
		if (to-from)/step < 4 {
			step /= part
		}
	}
	for i := math.Ceil(from / step); i*step <= to; i++ {
		list = append(list, plot.Tick{Value: i * step, Label: number(result.Known(i * step))})
	}
	return list
}

// fewPoints of a series are drawn as dots, too.
const fewPoints = 10

// nameHeight is the part of a plot's height for a name in the legend. More than maxNames cover curves.
const (
	nameHeight = 0.06
	maxNames   = 10
)

// add draws the series that have points, below the legend.
func add(p *plot.Plot, list []series, dashed bool) error {
	names := 0
	for i, s := range list {
		if len(s.points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		p.Add(line)
		if len(s.points) < fewPoints {
			p.Add(dots)
		}
		if dashed {
			line.Dashes = plotutil.Dashes(1)
		} else {
			p.Legend.Add(s.name, line)
			names++
		}
	}
	p.Y.Max /= 1 - nameHeight*float64(min(names, maxNames))
	return nil
}

func each(arms []result.Arm, of func(result.Arm) plotter.XYs) []series {
	list := make([]series, len(arms))
	for i, a := range arms {
		list[i] = series{a.Name + ", " + a.Load.String(), of(a)}
	}
	return list
}

// loads are the loads of each name as points of throughput and latency.
func loads(arms []result.Arm, metric string) []series {
	latency, rate := result.MetricNamed(metric), result.MetricNamed(result.DecisionRate)
	var list []series
	for _, a := range arms {
		if n := len(list); n == 0 || list[n-1].name != a.Name {
			list = append(list, series{name: a.Name})
		}
		s := &list[len(list)-1]
		if x, y := a.Median(rate), a.Median(latency); x.Known && y.Known {
			s.points = append(s.points, plotter.XY{X: x.X, Y: y.X})
		}
	}
	return list
}

// latencies are the cumulative latencies of all repeats, as percentiles.
func latencies(a result.Arm) (points plotter.XYs) {
	var values []float64
	for _, r := range a.Runs {
		for i := range r.Records {
			if v := r.Records[i].E2EL(); v.Known {
				values = append(values, v.X)
			}
		}
	}
	slices.Sort(values)
	for p := 0.0; p <= 100 && len(values) > 0; p++ {
		points = append(points, plotter.XY{X: result.Percentile(values, p).X, Y: p})
	}
	return points
}

// widths are the batch widths between the samples of the first repeat.
func widths(a result.Arm) (points plotter.XYs) {
	samples := a.Runs[0].Samples
	for i := 1; i < len(samples); i++ {
		from, to := &samples[i-1], &samples[i]
		if width := result.Grown(from.Rows, to.Rows).Over(result.Grown(from.Steps, to.Steps)); width.Known {
			points = append(points, plotter.XY{X: to.At / 1000, Y: width.X})
		}
	}
	return points
}

// computed are the medians of the computed prompt tokens by turn.
func computed(a result.Arm) (points plotter.XYs) {
	var turns [][]float64
	for _, r := range a.Runs {
		for i := range r.Records {
			rec := &r.Records[i]
			for len(turns) <= rec.Turn {
				turns = append(turns, nil)
			}
			if rec.Failure == "" && rec.ComputedTokens >= 0 {
				turns[rec.Turn] = append(turns[rec.Turn], float64(rec.ComputedTokens))
			}
		}
	}
	for turn, values := range turns {
		if d := result.Distribute(values); d.P50.Known {
			points = append(points, plotter.XY{X: float64(turn), Y: d.P50.X})
		}
	}
	return points
}
