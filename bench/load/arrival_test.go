package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// gaps are the seconds between the arrivals of many turns.
func gaps(o Options) (list []float64) {
	_, at := schedule(trace(1, 20001), &o)
	for i := range at[1:] {
		list = append(list, (at[i+1] - at[i]).Seconds())
	}
	return list
}

// TestArrivalsHaveTheirMeanAndVariation: the gaps' mean is 1/rate, and their
// coefficient of variation that of the distribution.
func TestArrivalsHaveTheirMeanAndVariation(t *testing.T) {
	for _, test := range []struct {
		name string
		o    Options
		cv   float64
	}{
		{"constant", Options{Arrival: Constant, Rate: 50}, 0},
		{"poisson", Options{Arrival: Poisson, Rate: 50, Seed: 1}, 1},
		{"gamma in bursts", Options{Arrival: Gamma, Rate: 50, Shape: 0.25, Seed: 1}, 2},
		{"gamma like poisson", Options{Arrival: Gamma, Rate: 50, Shape: 1, Seed: 1}, 1},
		{"gamma, regular", Options{Arrival: Gamma, Rate: 50, Shape: 16, Seed: 1}, 0.25},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := gaps(test.o)
			sum, squares := 0.0, 0.0
			for _, g := range list {
				if g < 0 {
					t.Fatalf("a gap of %v", g)
				}
				sum += g
				squares += g * g
			}
			n := float64(len(list))
			mean := sum / n
			cv := math.Sqrt(max(0, squares/n-mean*mean)) / mean
			if math.Abs(mean*test.o.Rate-1) > 0.05 || math.Abs(cv-test.cv) > 0.05*(1+test.cv) {
				t.Errorf("mean %v s, coefficient of variation %v, want %v and %v", mean, cv, 1/test.o.Rate, test.cv)
			}
		})
	}
}

func TestArrivalsAreAFunctionOfTheSeed(t *testing.T) {
	o := Options{Arrival: Poisson, Rate: 5, Seed: 1}
	other := o
	other.Seed = 2
	if !slices.Equal(gaps(o), gaps(o)) || slices.Equal(gaps(o), gaps(other)) {
		t.Error("the seed must decide the arrivals")
	}
}

func TestOpenLoopsKeepTheOrderOfTheTrace(t *testing.T) {
	order, at := schedule(trace(2, 2), &Options{Arrival: Constant, Rate: 1000})
	if diff := cmp.Diff([]int{0, 1, 2, 3}, order); diff != "" || !slices.Equal(at, []time.Duration{0, msec, 2 * msec, 3 * msec}) {
		t.Errorf("%s at %v", diff, at)
	}
}

func TestATimeThatIsTooLongIsTheLongest(t *testing.T) {
	if seconds(1e300) != infinite || seconds(math.Inf(1)) != infinite || seconds(1.5) != 1500*msec {
		t.Errorf("%v, %v", seconds(1e300), seconds(1.5))
	}
}
