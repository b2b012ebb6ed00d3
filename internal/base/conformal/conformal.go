// Package conformal finds thresholds of probabilities with which a set of options lacks the right one at most at a
// given error rate. It is split conformal prediction: Angelopoulos and Bates, "A Gentle Introduction to Conformal
// Prediction and Distribution-Free Uncertainty Quantification", 2021, arXiv:2107.07511, sections 1 and 3. The idea to
// ask a person if the set has several options is from Ren et al., "Robots That Ask For Help" (KnowNo), 2023,
// arXiv:2307.01928.
package conformal

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Decision is a decision with options, of which the right one is known.
type Decision struct {
	Probabilities []float64 // one for each option; they sum up to 1
	Right         int       // index of the right option
}

// Score returns 1 minus the probability of an option, as the sum of the other probabilities: 1 minus a probability
// close to 1 would lose digits.
func Score(probabilities []float64, option int) float64 {
	sum := 0.0
	for i, p := range probabilities {
		if i != option {
			sum += p
		}
	}
	return sum
}

// Set returns the indexes of the options whose Score is at most the threshold, most probable first. It may be empty.
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

// rank returns ceil((n+1)(1-rate)): the threshold is the score of that rank among n, from the smallest. It is above n
// if n is too small.
func rank(n int, rate float64) int { return n + 1 - int(math.Floor(float64(n+1)*rate+1e-9)) }

// Threshold returns the quantile of scores for an error rate between 0 and 1: the score of another decision,
// exchangeable with these, is at most that with a probability of at least 1-rate. ok is false for fewer scores than
// Least.
func Threshold(scores []float64, rate float64) (threshold float64, ok bool) {
	k := rank(len(scores), rate)
	if k > len(scores) {
		return 0, false
	}
	return slices.Sorted(slices.Values(scores))[k-1], true
}

// Least returns how many scores a threshold for the rate needs.
func Least(rate float64) int { return int(math.Ceil(1/rate-1e-9)) - 1 }

// Rate is a threshold for an error rate, with its measurement on other decisions.
type Rate struct {
	Error     float64 `json:"error"`
	Threshold float64 `json:"threshold"` // options with a probability of at least 1 minus this are in the set
	N         int     `json:"n"`         // number of decisions from which it was computed
	Expected  float64 `json:"expected_coverage"`
	HeldOut   HeldOut `json:"held_out"`
}

// HeldOut measures a threshold on decisions from which it was not computed.
type HeldOut struct {
	N        int        `json:"n"`
	Covered  int        `json:"covered"` // decisions whose set has the right option
	Coverage float64    `json:"coverage"`
	Interval [2]float64 `json:"interval_95"`   // of the coverage, see Interval
	MeanSize float64    `json:"mean_set_size"` // empty sets count as 0
	Asked    int        `json:"asked"`         // decisions whose set has more than one option
	Wrong    int        `json:"wrong"`         // decisions whose most probable option is wrong
	Left     int        `json:"wrong_unasked"` // the part of Wrong whose set has at most one option
}

// Calibrate computes the threshold of each rate from a random half of the decisions, and measures it on the other half.
// The error says that there are too few decisions.
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

// Interval returns the 95 % confidence interval of a proportion with k successes in n trials: Clopper and Pearson,
// Biometrika 26 (1934), 404.
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

// solve returns the p between 0 and 1 up to which below is true.
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

// atLeast returns the probability of k or more successes in n trials, each with probability p.
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
