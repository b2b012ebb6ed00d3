package learn

import (
	"fmt"
	"math"
)

// Verdict compares two models by the same held-out decisions.
type Verdict struct {
	Better int     `json:"better"` // decisions that only the new model takes right
	Worse  int     `json:"worse"`  // decisions that only the old model takes right
	P      float64 `json:"p"`      // see judge
	Kept   bool    `json:"kept"`
}

// significance is the largest P with which a new model is kept.
const significance = 0.05

// judge is the exact one-sided sign test of paired decisions (McNemar 1947): P is the
// probability of so many better decisions among those that differ if both models were
// equally good. The new model is kept when P is at most significance.
func judge(before, after []bool) (Verdict, error) {
	if len(before) != len(after) {
		return Verdict{}, fmt.Errorf("%d decisions were measured before and %d after", len(before), len(after))
	}
	var v Verdict
	for i := range before {
		switch {
		case after[i] && !before[i]:
			v.Better++
		case before[i] && !after[i]:
			v.Worse++
		}
	}
	v.P = tail(v.Better+v.Worse, v.Better)
	v.Kept = v.P <= significance
	return v, nil
}

// tail is the probability of at least k heads in n throws of a coin.
func tail(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) - float64(n)*math.Ln2)
	}
	return min(sum, 1)
}
