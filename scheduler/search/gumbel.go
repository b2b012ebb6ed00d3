package search

import "math"

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// gumbel returns the noise of a branch: a draw from the standard Gumbel distribution.
func (n *Node) gumbel() float64 {
	u := (float64(mix(n.noise)>>11) + 0.5) * 0x1p-53 // in (0, 1)
	return -math.Log(-math.Log(u))
}

// condition shifts a Gumbel variable g, one of several whose largest is z, so that the largest
// becomes limit. It is the numerically stable form in appendix B.3 of Kool, van Hoof and
// Welling 2019.
func condition(g, z, limit float64) float64 {
	if g == z {
		return limit
	}
	v := limit - g + math.Log(-math.Expm1(g-z))
	return limit - max(0, v) - math.Log1p(math.Exp(-math.Abs(v)))
}

// addLog returns log(e^a + e^b).
func addLog(a, b float64) float64 {
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}
