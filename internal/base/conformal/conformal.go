// Package conformal finds thresholds of probabilities, so that a set of options has the right one with a stated error
// rate. It is split conformal prediction: Angelopoulos and Bates, "A Gentle Introduction to Conformal Prediction and
// Distribution-Free Uncertainty Quantification", 2021, arXiv:2107.07511, sections 1 and 3. To ask a person where the set
// has several options is Ren et al., "Robots That Ask For Help" (KnowNo), 2023, arXiv:2307.01928.
package conformal

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Decision is one with options, of which one is known to be right.
type Decision struct {
	Probabilities []float64 // of the options; they sum up to 1
	Right         int       // its index
}

// Score is how improbable an option is: 1 minus its probability. It is summed from the others, since 1 minus a
// probability close to 1 would lose its digits.
func Score(probabilities []float64, option int) float64 {
	sum := 0.0
	for i, p := range probabilities {
		if i != option {
			sum += p
		}
	}
	return sum
}

// Set is the options whose score is at most the threshold, most probable first. It may be empty.
func Set(probabilities []float64, threshold float64) []int {
	set := []int{}
	for i := range probabilities {
		if Score(probabilities, i) <= threshold {
			set = append(set, i)
		}
	}
	slices.SortStableFunc(set, func(a, b int) int { return cmp.Compare(probabilities[b], probabilities[a]) })
	return set
}

// rank is ceil((n+1)(1-rate)): the threshold is that smallest of n scores. It is above n where n is too small.
func rank(n int, rate float64) int { return n + 1 - int(math.Floor(float64(n+1)*rate+1e-9)) }

// Threshold is the quantile of scores for an error rate between 0 and 1: a further decision's score is at most that with a
// probability of at least 1-rate, if it is exchangeable with these. ok is false for fewer scores than Least.
func Threshold(scores []float64, rate float64) (threshold float64, ok bool) {
	k := rank(len(scores), rate)
	if k > len(scores) {
		return 0, false
	}
	return slices.Sorted(slices.Values(scores))[k-1], true
}

// Least is how many scores a threshold for the rate needs.
func Least(rate float64) int { return int(math.Ceil(1/rate-1e-9)) - 1 }

// Rate is a threshold and how it did on decisions from which it was not made.
type Rate struct {
	Error     float64 `json:"error"`
	Threshold float64 `json:"threshold"` // options with a probability of at least 1 minus this are in the set
	N         int     `json:"n"`         // decisions from which it was made
	Expected  float64 `json:"expected_coverage"`
	HeldOut   HeldOut `json:"held_out"`
}

// HeldOut is what a threshold does to other decisions.
type HeldOut struct {
	N        int        `json:"n"`
	Covered  int        `json:"covered"` // decisions whose set has the right option
	Coverage float64    `json:"coverage"`
	Interval [2]float64 `json:"interval_95"`   // of the coverage, see Interval
	MeanSize float64    `json:"mean_set_size"` // empty sets count as 0
	Asked    int        `json:"asked"`         // sets of more than one option
	Wrong    int        `json:"wrong"`         // most probable options that are wrong
	Left     int        `json:"wrong_unasked"` // of them, where nobody is asked
}

// Calibrate makes the threshold of each rate from a random half of the decisions, and measures it on the other half.
func Calibrate(decisions []Decision, rates []float64, seed uint64) ([]Rate, error) {
	list := slices.Clone(decisions)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	half := (len(list) + 1) / 2
	scores := make([]float64, half)
	for i, d := range list[:half] {
		scores[i] = Score(d.Probabilities, d.Right)
	}
	var made []Rate
	for _, rate := range rates {
		threshold, ok := Threshold(scores, rate)
		if least := Least(rate); !ok || len(list) < 2*least {
			return nil, fmt.Errorf("an error rate of %g needs at least %d decisions with a known right option, half of them to measure the coverage; there are %d",
				rate, 2*least, len(list))
		}
		made = append(made, Rate{
			Error: rate, Threshold: threshold, N: half, Expected: float64(rank(half, rate)) / float64(half+1), HeldOut: measure(list[half:], threshold),
		})
	}
	return made, nil
}

func measure(list []Decision, threshold float64) HeldOut {
	h := HeldOut{N: len(list)}
	size := 0
	for _, d := range list {
		set := Set(d.Probabilities, threshold)
		size += len(set)
		asked := len(set) > 1
		if asked {
			h.Asked++
		}
		if slices.Contains(set, d.Right) {
			h.Covered++
		}
		if d.Probabilities[d.Right] < slices.Max(d.Probabilities) {
			h.Wrong++
			if !asked {
				h.Left++
			}
		}
	}
	h.Coverage, h.MeanSize = float64(h.Covered)/float64(h.N), float64(size)/float64(h.N)
	h.Interval[0], h.Interval[1] = Interval(h.Covered, h.N)
	return h
}

// Interval is the 95 % interval of a share of which k of n are seen: Clopper and Pearson, Biometrika 26 (1934), 404.
func Interval(k, n int) (low, high float64) {
	const tail = 0.025
	low, high = 0, 1
	if k > 0 {
		low = solve(func(p float64) bool { return atLeast(k, n, p) < tail })
	}
	if k < n {
		high = solve(func(p float64) bool { return atLeast(k+1, n, p) < 1-tail })
	}
	return low, high
}

// solve finds where below ends in 0 to 1.
func solve(below func(p float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// atLeast is the probability of k or more successes in n trials.
func atLeast(k, n int, p float64) float64 {
	sum := 0.0
	all, _ := math.Lgamma(float64(n + 1))
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(all - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}
