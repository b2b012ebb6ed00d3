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
	pageWidth, pageHeight = 11 * vg.Inch, 4 * vg.Inch
	padding               = 12 * vg.Millimeter / 2
)

// series is the data of one arm.
type series struct {
	name   string
	points plotter.XYs
}

// WritePlots writes one page of two plots as SVG.
func WritePlots(w io.Writer, runs []*result.Run) error {
	arms := result.Arms(runs)
	cumulative := chart("Latency, cumulative", "E2EL, ms", "% of requests")
	throughput := chart("Latency against throughput", "decisions/s", "E2EL, ms (solid p50, dashed p99)")
	cumulative.Y.Tick.Marker = plot.TickerFunc(func(from, _ float64) []plot.Tick { return ticks(from, 100) })
	for _, x := range []struct {
		plot   *plot.Plot
		series []series
		dashed bool
	}{
		{cumulative, cumulated(arms), false},
		{throughput, loads(arms, result.E2ELp99), true}, // above p50
		{throughput, loads(arms, result.E2ELp50), false},
	} {
		if err := add(x.plot, x.series, x.dashed); err != nil {
			return err
		}
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(pageWidth, pageHeight), vgsvg.EmbedFonts(true))
	cells := plot.Align([][]*plot.Plot{{cumulative, throughput}}, draw.Tiles{
		Rows: 1, Cols: 2, PadX: padding, PadTop: padding, PadBottom: padding, PadLeft: padding, PadRight: padding,
	}, draw.New(canvas))
	cumulative.Draw(cells[0][0])
	throughput.Draw(cells[0][1])
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

// cumulated are the latencies of all repeats of each arm, as percentiles.
func cumulated(arms []result.Arm) (list []series) {
	for _, a := range arms {
		var values []float64
		for _, r := range a.Runs {
			for i := range r.Records {
				if v := r.Records[i].E2EL(); v.Known {
					values = append(values, v.X)
				}
			}
		}
		slices.Sort(values)
		s := series{name: a.Name + ", " + a.Load.String()}
		for p := 0.0; p <= 100 && len(values) > 0; p++ {
			s.points = append(s.points, plotter.XY{X: result.Percentile(values, p).X, Y: p})
		}
		list = append(list, s)
	}
	return list
}
