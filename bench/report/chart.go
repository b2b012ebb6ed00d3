package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"agentd/bench/result"
)

// Size of a plot in its own units. It is drawn as wide as a telephone or half a
// page, so that its text is readable on both.
const (
	chartWidth, chartHeight = 460.0, 300.0
	chartLeft, chartRight   = 58.0, 20.0
	chartTop, chartBottom   = 30.0, 46.0
	// chartColours is how many arms the page's style tells apart.
	chartColours = 6
)

// point of a series, in units of the axes.
type point struct{ x, y float64 }

// series is one line of a plot.
type series struct {
	arm    string // in the legend
	colour int
	points []point
	dashed bool // a second line of the same arm, without a legend of its own
	dots   bool // points are measurements, not a curve
	steps  bool
}

// chart is one plot; layout fills what the template draws.
type chart struct {
	ID, Title, Desc, Note  string
	XLabel, YLabel         string
	Missing                string // why there is no plot; "" when there is
	whole                  bool   // x are whole numbers
	series                 []series
	XTicks, YTicks         []tick
	Lines                  []drawn
	Legend                 []legend
	Left, Right, Top, Base string
	YCaption, XMiddle      string
}

type tick struct{ At, Label string }

type drawn struct {
	Colour int
	Dashed bool
	Path   string
	Dots   []dot
}

type dot struct{ X, Y, Label string }

type legend struct {
	Colour int
	Name   string
}

// layout computes all coordinates. Both axes begin at 0 but where all x are far
// from it.
func (c *chart) layout() {
	var xs, ys scale
	for _, s := range c.series {
		for _, p := range s.points {
			xs.take(p.x)
			ys.take(p.y)
		}
	}
	if !xs.any {
		return
	}
	if !c.whole {
		xs.low = 0
	}
	ys.low = 0
	xs.low, xs.high, xs.step = axis(xs.low, xs.high, c.whole)
	ys.low, ys.high, ys.step = axis(ys.low, ys.high, false)
	px := func(x float64) float64 {
		return chartLeft + (x-xs.low)/(xs.high-xs.low)*(chartWidth-chartLeft-chartRight)
	}
	py := func(y float64) float64 {
		return chartHeight - chartBottom - (y-ys.low)/(ys.high-ys.low)*(chartHeight-chartTop-chartBottom)
	}
	c.XTicks, c.YTicks = xs.ticks(px), ys.ticks(py)
	c.Left, c.Right = coordinate(chartLeft), coordinate(chartWidth-chartRight)
	c.Top, c.Base = coordinate(chartTop), coordinate(chartHeight-chartBottom)
	c.XMiddle = coordinate((chartLeft + chartWidth - chartRight) / 2)
	for _, s := range c.series {
		if len(s.points) == 0 {
			continue
		}
		d := drawn{Colour: s.colour, Dashed: s.dashed}
		var path strings.Builder
		for i, p := range s.points {
			x, y := coordinate(px(p.x)), coordinate(py(p.y))
			switch {
			case i == 0:
				path.WriteString("M" + x + " " + y)
			case s.steps:
				path.WriteString("H" + x + "V" + y)
			default:
				path.WriteString("L" + x + " " + y)
			}
			if s.dots {
				d.Dots = append(d.Dots, dot{x, y, fmt.Sprintf("%s: %s, %s", s.arm, number(result.Known(p.x)), number(result.Known(p.y)))})
			}
		}
		d.Path = path.String()
		c.Lines = append(c.Lines, d)
		if !s.dashed {
			c.Legend = append(c.Legend, legend{s.colour, s.arm})
		}
	}
}

// coordinate writes a length with one digit behind the point.
func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// scale is one axis.
type scale struct {
	any             bool
	low, high, step float64
}

func (s *scale) take(x float64) {
	if !s.any {
		s.any, s.low, s.high = true, x, x
	}
	s.low, s.high = math.Min(s.low, x), math.Max(s.high, x)
}

// ticksWanted is about how many a scale has.
const ticksWanted = 5

// axis widens a range to multiples of a step that is 1, 2 or 5 times a power of
// ten; at least 1 for whole numbers.
func axis(low, high float64, whole bool) (from, to, step float64) {
	if high <= low {
		high = low + 1
	}
	raw := (high - low) / ticksWanted
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step = 10 * power
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*(1+1e-9) {
			step = m * power
			break
		}
	}
	if whole {
		step = math.Max(1, math.Ceil(step))
	}
	from, to = math.Floor(low/step)*step, math.Ceil(high/step-1e-9)*step
	return from, math.Max(to, from+step), step
}

func (s *scale) ticks(at func(float64) float64) []tick {
	var list []tick
	digits := max(0, -int(math.Floor(math.Log10(s.step)+1e-9)))
	for i := 0; ; i++ {
		x := s.low + float64(i)*s.step
		if x > s.high+s.step/2 {
			return list
		}
		list = append(list, tick{coordinate(at(x)), strconv.FormatFloat(x, 'f', digits, 64)})
	}
}
