package schema

import (
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"agentd/agent/internal/gbnf/gbnftest"
)

// Ranges are compared with the numbers that they hold, digit by digit.
func TestNumbersWithinBoundsAreAdmitted(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func() string {
		digits := strconv.Itoa(rng.IntN([]int{3, 30, 1200}[rng.IntN(3)]))
		if places := rng.IntN(4); places > 0 {
			digits += "." + strconv.Itoa(1000 + rng.IntN(1000))[1:1+places]
		}
		if rng.IntN(3) == 0 && digits != "0" {
			digits = "-" + digits
		}
		return digits
	}
	bounded := func() *bound {
		if rng.IntN(4) == 0 {
			return nil
		}
		at, _ := new(big.Rat).SetString(draw())
		return &bound{at, rng.IntN(2) == 0}
	}
	inside := 0
	for range 400 {
		n := numbers{low: bounded(), high: bounded(), integer: rng.IntN(3) == 0}
		body, free := n.body()
		if free {
			continue
		}
		var g *gbnftest.Grammar
		if body != "" {
			var err error
			if g, err = gbnftest.Parse("root ::= " + body + "\n"); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
		}
		for range 60 {
			text := draw()
			if rng.IntN(4) == 0 && n.low != nil {
				text = n.low.at.FloatString(rng.IntN(5))
			}
			x, _ := new(big.Rat).SetString(text)
			want := (!n.integer || x.IsInt() && !strings.Contains(text, ".")) &&
				(n.low == nil || x.Cmp(n.low.at) > 0 || x.Cmp(n.low.at) == 0 && !n.low.open) &&
				(n.high == nil || x.Cmp(n.high.at) < 0 || x.Cmp(n.high.at) == 0 && !n.high.open)
			if text[0] == '-' && x.Sign() == 0 {
				continue // spelled without the sign
			}
			if got := g != nil && g.Admits("root", text); got != want {
				t.Fatalf("%s is admitted: %t, want %t; low %+v, high %+v, integer %t:\n%s", text, got, want, n.low, n.high, n.integer, body)
			}
			if want {
				inside++
			}
		}
	}
	if inside < 3000 {
		t.Errorf("only %d numbers were inside: the test shows little", inside)
	}
}
