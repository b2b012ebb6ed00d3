package conformal

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// drawn are exchangeable decisions of a model that is right about as often as it says, or too sure.
func drawn(r *rand.Rand, n int, sure float64) []Decision {
	list := make([]Decision, n)
	for i := range list {
		truth, told := make([]float64, 2+r.IntN(6)), []float64(nil)
		sum, total := 0.0, 0.0
		for j := range truth {
			truth[j] = math.Exp(2 * r.NormFloat64())
			sum += truth[j]
			told = append(told, math.Pow(truth[j], sure))
			total += told[j]
		}
		at, right := r.Float64()*sum, 0
		for j := range truth {
			if at -= truth[j]; at < 0 {
				right = j
				break
			}
		}
		for j := range told {
			told[j] /= total
		}
		list[i] = Decision{told, right}
	}
	return list
}

// TestCoverageOfManyCalibrationsIsTheStatedRate: over calibrations the coverage of a further decision is k/(n+1).
func TestCoverageOfManyCalibrationsIsTheStatedRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{19, 40, 101} {
		for _, rate := range []float64{0.05, 0.1, 0.2, 0.5} {
			if n < Least(rate) {
				continue
			}
			const trials = 1500
			covered := 0
			for range trials {
				list := drawn(r, n+1, 2)
				scores := make([]float64, n)
				for i := range scores {
					scores[i] = Score(list[i].Probabilities, list[i].Right)
				}
				q, ok := Threshold(scores, rate)
				if !ok {
					t.Fatalf("%d scores are too few for %g", n, rate)
				}
				if slices.Contains(Set(list[n].Probabilities, q), list[n].Right) {
					covered++
				}
			}
			want := float64(rank(n, rate)) / float64(n+1)
			spread := 4 * math.Sqrt(want*(1-want)/trials)
			if got := float64(covered) / trials; want < 1-rate || want > 1-rate+1/float64(n+1) || math.Abs(got-want) > spread {
				t.Errorf("n %d, rate %g: the coverage is %g, want %g within %g", n, rate, got, want, spread)
			}
		}
	}
}

func TestCalibrationMeasuresTheOtherHalf(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rates, err := Calibrate(drawn(r, 4000, 3), []float64{0.2, 0.1, 0.05}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rates {
		h := x.HeldOut
		if x.N != 2000 || h.N != 2000 || math.Abs(h.Coverage-(1-x.Error)) > 0.03 || h.Interval[0] > h.Coverage || h.Interval[1] < h.Coverage {
			t.Errorf("got %+v", x)
		}
		if h.Wrong == 0 || h.Left > h.N-h.Covered || h.Asked == 0 || h.MeanSize <= 1 {
			t.Errorf("asking does not help: %+v", h)
		}
	}
}

func TestThresholdIsTheRankedScore(t *testing.T) {
	var scores []float64
	for i := range 19 {
		scores = append(scores, float64(19-i)/20)
	}
	for name, test := range map[string]struct {
		n    int
		rate float64
		want float64
		ok   bool
	}{
		"19 scores are enough for 5 %": {19, 0.05, 0.95, true},
		"18 scores are not":            {18, 0.05, 0, false},
		"the 18th of 19 for 10 %":      {19, 0.1, 0.9, true},
		"the 16th of 19 for 20 %":      {19, 0.2, 0.8, true},
		"none has no threshold":        {0, 0.9, 0, false},
	} {
		if got, ok := Threshold(scores[:test.n], test.rate); got != test.want || ok != test.ok {
			t.Errorf("%s: got %g, %t", name, got, ok)
		}
	}
	for rate, want := range map[float64]int{0.05: 19, 0.1: 9, 0.2: 4, 0.3: 3, 0.5: 1} {
		if got := Least(rate); got != want {
			t.Errorf("rate %g needs %d, want %d", rate, got, want)
		}
	}
}

func TestSetHasTheOptionsWithinTheThreshold(t *testing.T) {
	p := []float64{0.1, 0.6, 0.3}
	for threshold, want := range map[float64][]int{0.3: {}, 0.4: {1}, 0.75: {1, 2}, 0.9: {1, 2, 0}, 1: {1, 2, 0}} {
		if got := Set(p, threshold+1e-12); !slices.Equal(got, want) {
			t.Errorf("threshold %g: got %v, want %v", threshold, got, want)
		}
	}
	if s := Score([]float64{1, 1e-30}, 0); s != 1e-30 {
		t.Errorf("the score of a sure option is %g", s)
	}
}

// TestIntervalIsClopperAndPearsons with values of R's binom.test.
func TestIntervalIsClopperAndPearsons(t *testing.T) {
	for _, test := range []struct {
		k, n      int
		low, high float64
	}{{9, 10, 0.5549839, 0.9974714}, {0, 10, 0, 0.3084971}, {10, 10, 0.6915029, 1}, {90, 100, 0.8237774, 0.9509953}} {
		if low, high := Interval(test.k, test.n); math.Abs(low-test.low) > 1e-6 || math.Abs(high-test.high) > 1e-6 {
			t.Errorf("%d of %d: got %.7f to %.7f", test.k, test.n, low, high)
		}
	}
}

func TestTooFewDecisionsSayHowManyAreNeeded(t *testing.T) {
	_, err := Calibrate(drawn(rand.New(rand.NewPCG(1, 1)), 37, 1), []float64{0.1, 0.05}, 1)
	if err == nil || !strings.Contains(err.Error(), "0.05 needs at least 38 decisions") || !strings.Contains(err.Error(), "there are 37") {
		t.Errorf("got %v", err)
	}
}

func TestBadFilesAreRefusedByField(t *testing.T) {
	rates, err := Calibrate(drawn(rand.New(rand.NewPCG(1, 1)), 100, 1), []float64{0.1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	good := &File{Model: "sha256:1", Format: "qwen", Decisions: 100, Rates: rates}
	text, err := good.Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(text))
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := f.Rate(0.1); err != nil || *r != rates[0] {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := f.Rate(0.2); err == nil || !strings.Contains(err.Error(), "no error rate 0.2, only 0.1") {
		t.Errorf("got %v", err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"no JSON":              {"{", "[", "not a calibration"},
		"an unknown member":    {`"model"`, `"models"`, `writes: "/models" is unknown or has a wrong value`},
		"a wrong value":        {`"n": 50`, `"n": "x"`, `writes: "/rates/0/n" is unknown or has a wrong value`},
		"no model":             {"sha256:1", "", "model is missing"},
		"no format":            {`"qwen"`, `""`, "format is missing"},
		"an error of 0":        {`"error": 0.1`, `"error": 0`, "rates[0].error is 0"},
		"a negative threshold": {`"threshold": `, `"threshold": -`, "rates[0].threshold is -"},
		"few decisions":        {`"n": 50`, `"n": 5`, "rates[0].n is 5"},
		"no rates":             {string(text[strings.Index(string(text), `"rates"`):]), `"rates": []}`, "rates has 0 elements"},
	} {
		write(strings.Replace(string(text), test.old, test.new, 1))
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ReadFile(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: got %v", err)
	}
}
