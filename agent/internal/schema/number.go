package schema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// bound is where numbers end; open says that it is not one of them itself.
type bound struct {
	at   *big.Rat
	open bool
}

// boundOf is the bound at a number. One that is too long for a rule is left to the check.
func boundOf(at *big.Rat, open bool) *bound {
	if at == nil {
		return nil
	}
	if whole, fraction := decimal(at); len(whole)+len(fraction) > maxBoundDigits {
		return nil
	}
	return &bound{at, open}
}

// stricter is the bound that leaves less. side is 1 for lower ones, -1 for upper ones; nil is
// no bound.
func stricter(a, b *bound, side int) *bound {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	if c := a.at.Cmp(b.at) * side; c > 0 || c == 0 && a.open {
		return a
	}
	return b
}

// numbers are the numbers that some schemas admit together.
type numbers struct {
	low, high *bound
	integer   bool
	multiples []*big.Rat
}

func numbersOf(s *shape) numbers {
	n := numbers{integer: s.types&fractionType == 0}
	for _, p := range s.parts {
		n.low = stricter(stricter(n.low, boundOf(p.check.Minimum, false), 1), boundOf(p.check.ExclusiveMinimum, true), 1)
		n.high = stricter(stricter(n.high, boundOf(p.check.Maximum, false), -1), boundOf(p.check.ExclusiveMaximum, true), -1)
		if m := p.check.MultipleOf; m != nil {
			n.multiples = append(n.multiples, m)
			n.integer = n.integer || m.Cmp(big.NewRat(1, 1)) == 0
		}
	}
	return n
}

// empty reports whether no number is between two bounds.
func empty(low, high *bound) bool {
	if low == nil || high == nil {
		return false
	}
	c := low.at.Cmp(high.at)
	return c > 0 || c == 0 && (low.open || high.open)
}

func (n numbers) admits() bool {
	body, free := n.body()
	return free || body != ""
}

// body is the rule's body of the numbers, free where they are any, "" where there are none.
func (n numbers) body() (body string, free bool) {
	low, high := n.low, n.high
	if n.integer {
		low, high = ceil(low), negative(ceil(negative(high)))
	}
	if empty(low, high) {
		return "", false
	}
	if n.integer && low != nil && high != nil {
		if body, ok := n.listed(low.at, high.at); ok {
			return body, false
		}
	}
	if low != nil || high != nil {
		return signed(low, high, n.integer), false
	}
	if digits, ok := n.places(); ok && !n.integer {
		return fmt.Sprintf(`"-"? ([0] | [1-9] [0-9]{0,%d}) ("." [0-9]{1,%d})?`, maxDigits-1, digits), false
	}
	return "", true
}

// ceil is a lower bound of integers as the least of them.
func ceil(b *bound) *bound {
	if b == nil {
		return nil
	}
	q, m := new(big.Int).DivMod(b.at.Num(), b.at.Denom(), new(big.Int))
	if m.Sign() != 0 || b.open {
		q.Add(q, big.NewInt(1))
	}
	return &bound{at: new(big.Rat).SetInt(q)}
}

// decimal is the digits of a number without its sign, before and behind the point.
func decimal(x *big.Rat) (whole, fraction string) {
	digits, _ := x.FloatPrec()
	text := new(big.Rat).Abs(x).FloatString(min(digits, 10*maxBoundDigits))
	whole, fraction, _ = strings.Cut(text, ".")
	return whole, fraction
}

// places is how many digits behind the point multiples of a power of ten have. Other multiples
// are left to the check.
func (n numbers) places() (digits int, ok bool) {
	if len(n.multiples) != 1 {
		return 0, false
	}
	whole, fraction := decimal(n.multiples[0])
	ok = whole == "0" && strings.Trim(fraction, "0") == "1" && strings.HasSuffix(fraction, "1") && len(fraction) <= maxDigits
	return len(fraction), ok
}

// listed writes out the integers of a range that are multiples, if those are few.
func (n numbers) listed(low, high *big.Rat) (body string, ok bool) {
	if len(n.multiples) == 0 {
		return "", false
	}
	// The first one's multiples that are integers are those of its numerator.
	step := new(big.Rat).SetInt(n.multiples[0].Num())
	first := new(big.Rat).Mul(ceil(&bound{at: new(big.Rat).Quo(low, step)}).at, step)
	var list []string
	for x := first; x.Cmp(high) <= 0; x = new(big.Rat).Add(x, step) {
		if len(list) == maxMultiples {
			return "", false
		}
		misses := func(m *big.Rat) bool { return !new(big.Rat).Quo(x, m).IsInt() }
		if !slices.ContainsFunc(n.multiples, misses) {
			list = append(list, `"`+x.Num().String()+`"`)
		}
	}
	return strings.Join(list, " | "), true
}

// signed is the numbers between two bounds, of which one may be missing: those below zero, by
// what they are without the sign, and the others.
func signed(low, high *bound, integer bool) string {
	var parts []string
	zero := new(big.Rat)
	if low == nil || low.at.Sign() < 0 {
		from, to := &bound{zero, true}, negative(low)
		if high != nil && high.at.Sign() <= 0 {
			from = stricter(from, negative(high), 1)
		}
		if body := magnitudes(from, to, integer); body != "" {
			parts = append(parts, `"-" (`+body+`)`)
		}
	}
	if high == nil || high.at.Sign() >= 0 {
		if body := magnitudes(stricter(&bound{at: zero}, low, 1), high, integer); body != "" {
			parts = append(parts, body)
		}
	}
	return strings.Join(parts, " | ")
}

func negative(b *bound) *bound {
	if b == nil {
		return nil
	}
	return &bound{new(big.Rat).Neg(b.at), b.open}
}
