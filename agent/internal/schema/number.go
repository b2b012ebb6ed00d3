package schema

import (
	"fmt"
	"math/big"
	"strings"
)

// bound is where numbers end; open says that it is not one of them itself.
type bound struct {
	at   *big.Rat
	open bool
}

// stricter is the bound that leaves less. side is 1 for lower ones, -1 for upper ones; nil is
// no bound.
func stricter(a, b *bound, side int) *bound {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
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
		n.low, n.high = stricter(n.low, p.low, 1), stricter(n.high, p.high, -1)
		if p.multiple != nil {
			n.multiples = append(n.multiples, p.multiple)
			n.integer = n.integer || p.multiple.Cmp(big.NewRat(1, 1)) == 0
		}
	}
	return n
}

// body is the rule's body of the numbers, free where they are any, "" where there are none.
func (n numbers) body() (body string, free bool) {
	if n.low != nil && n.high != nil {
		if c := n.low.at.Cmp(n.high.at); c > 0 || c == 0 && (n.low.open || n.high.open) {
			return "", false
		}
	}
	if !n.integer {
		low, high := short(n.low), short(n.high)
		if low == nil && high == nil {
			if digits, ok := n.places(); ok {
				return fmt.Sprintf(`"-"? ([0] | [1-9] [0-9]{0,%d}) ("." [0-9]{1,%d})?`, maxDigits-1, digits), false
			}
			return "", true
		}
		return signed(low, high, false), false
	}
	low, high := n.low, n.high
	if low != nil {
		low = &bound{at: ceil(low)}
	}
	if high != nil {
		h := ceil(negative(high))
		high = &bound{at: h.Neg(h)}
	}
	if low != nil && high != nil {
		if low.at.Cmp(high.at) > 0 {
			return "", false
		}
		if body, ok := n.listed(low.at, high.at); ok {
			return body, false
		}
	}
	if low, high = short(low), short(high); low == nil && high == nil {
		return "", true
	}
	return signed(low, high, true), false
}

// short is a bound that is not too long for a rule, else none.
func short(b *bound) *bound {
	if b == nil {
		return nil
	}
	if whole, fraction := decimal(b.at); len(whole)+len(fraction) > maxBoundDigits {
		return nil
	}
	return b
}

// ceil is the least integer that is not below a bound.
func ceil(b *bound) *big.Rat {
	q, m := new(big.Int).DivMod(b.at.Num(), b.at.Denom(), new(big.Int))
	if m.Sign() != 0 || b.open {
		q.Add(q, big.NewInt(1))
	}
	return new(big.Rat).SetInt(q)
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
	first := new(big.Rat).Mul(ceil(&bound{at: new(big.Rat).Quo(low, step)}), step)
	var list []string
	for x := first; x.Cmp(high) <= 0; x = new(big.Rat).Add(x, step) {
		if len(list) == maxMultiples {
			return "", false
		}
		fits := true
		for _, m := range n.multiples {
			fits = fits && new(big.Rat).Quo(x, m).IsInt()
		}
		if fits {
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
		if body := between(from, to, integer); body != "" {
			parts = append(parts, `"-" (`+body+`)`)
		}
	}
	if high == nil || high.at.Sign() >= 0 {
		if body := between(stricter(&bound{at: zero}, low, 1), high, integer); body != "" {
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

// between is magnitudes where there may be some.
func between(from, to *bound, integer bool) string {
	if to != nil {
		if c := from.at.Cmp(to.at); c > 0 || c == 0 && (from.open || to.open) {
			return ""
		}
	}
	return magnitudes(from, to, integer)
}
