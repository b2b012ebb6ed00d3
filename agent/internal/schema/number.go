package schema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// bound is a limit of numbers. If it is open, the limit itself is excluded.
type bound struct {
	at   *big.Rat
	open bool
}

// boundOf returns a bound, nil if it has more than maxBoundDigits. Then the check decides.
func boundOf(at *big.Rat, open bool) *bound {
	if at == nil {
		return nil
	}
	if whole, fraction := decimal(at); len(whole)+len(fraction) > maxBoundDigits {
		return nil
	}
	return &bound{at, open}
}

// stricter returns the stricter of two lower (side 1) or upper (-1) bounds; nil is unbounded.
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

// numbers is the set of numbers that all parts of a branch admit.
type numbers struct {
	low, high *bound
	integer   bool
	multiples []*big.Rat
}

func numbersOf(s *branch) numbers {
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

// body returns the body of a rule, "" if no number is admitted. free: every number is, and body is not set.
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
	if digits, ok := n.decimals(); ok && !n.integer {
		return fmt.Sprintf(`"-"? ([0] | [1-9] [0-9]{0,%d}) ("." [0-9]{1,%d})?`, maxDigits-1, digits), false
	}
	return "", true
}

// ceil returns a lower bound raised to the next integer that it admits.
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

// decimal returns the digits of a number before and after the decimal point, without its sign.
func decimal(x *big.Rat) (whole, fraction string) {
	digits, _ := x.FloatPrec()
	text := new(big.Rat).Abs(x).FloatString(min(digits, 10*maxBoundDigits))
	whole, fraction, _ = strings.Cut(text, ".")
	return whole, fraction
}

// decimals returns the number of digits after the point if the multiples are powers of ten.
func (n numbers) decimals() (digits int, ok bool) {
	if len(n.multiples) != 1 {
		return 0, false
	}
	whole, fraction := decimal(n.multiples[0])
	ok = whole == "0" && strings.Trim(fraction, "0") == "1" && strings.HasSuffix(fraction, "1") && len(fraction) <= maxDigits
	return len(fraction), ok
}

// listed returns alternatives for the multiples in a range; ok is false if they are more than maxMultiples.
func (n numbers) listed(low, high *big.Rat) (body string, ok bool) {
	if len(n.multiples) == 0 {
		return "", false
	}
	// The integers among the first one's multiples are the multiples of its numerator.
	step := new(big.Rat).SetInt(n.multiples[0].Num())
	first := new(big.Rat).Mul(ceil(&bound{at: new(big.Rat).Quo(low, step)}).at, step)
	var list []string
	for x := first; x.Cmp(high) <= 0; x = new(big.Rat).Add(x, step) {
		if len(list) == maxMultiples {
			return "", false
		}
		notMultiple := func(m *big.Rat) bool { return !new(big.Rat).Quo(x, m).IsInt() }
		if !slices.ContainsFunc(n.multiples, notMultiple) {
			list = append(list, `"`+x.Num().String()+`"`)
		}
	}
	return strings.Join(list, " | "), true
}

// signed returns the body of the numbers between two bounds, nil for unbounded. Negative numbers come first.
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

// edge is one end of a range of magnitudes, for the digits that are still to be written.
type edge struct {
	tight bool   // the digits so far are equal to the bound's, so that it limits the next
	rest  string // the bound's remaining digits, with the point
	open  bool   // as in bound
}

// edgeOf returns the edge of a bound, and the bound's number of digits before the point.
func edgeOf(b *bound) (l edge, wholeDigits int) {
	whole, fraction := decimal(b.at)
	return edge{true, whole + "." + fraction, b.open}, len(whole)
}

func (l edge) digit() byte {
	if l.rest == "" {
		return '0'
	}
	return l.rest[0]
}

func (l edge) after(d byte) edge {
	if !l.tight || l.digit() != d {
		return edge{}
	}
	l.rest = l.rest[min(1, len(l.rest)):]
	return l
}

func (l edge) zero() bool { return strings.Trim(l.rest, ".0") == "" }

func complete(low, high edge) bool {
	return (!low.tight || low.zero() && !low.open) && (!high.tight || !high.zero() || !high.open)
}

// magnitudes returns the body of the unsigned numbers between two bounds, "" if none. A nil high is unbounded.
func magnitudes(low, high *bound, integer bool) string {
	if empty(low, high) {
		return ""
	}
	from, first := edgeOf(low)
	to, last := edge{}, first
	if high != nil {
		to, last = edgeOf(high)
	}
	var parts []string
	for n := first; n <= last; n++ { // digits before the point
		h := edge{}
		if n == last {
			h = to
		}
		lead := byte('1')
		if n == 1 {
			lead = '0'
		}
		rest := func(low, high edge) (string, bool) { return wholeDigits(low, high, n-1, integer) }
		if part, ok := choices(from, h, lead, rest); ok {
			parts = append(parts, part)
		}
		from = edge{} // longer numbers are above it
	}
	if high == nil {
		longer := fmt.Sprintf("[1-9] [0-9]{%d,%d}", first, max(maxDigits-1, first))
		rest, _ := wholeDigits(edge{}, edge{}, 0, integer)
		parts = append(parts, longer+rest)
	}
	return strings.Join(parts, " | ")
}

// wholeDigits returns an expression of n digits before the point and of the rest.
func wholeDigits(low, high edge, n int, integer bool) (expr string, ok bool) {
	switch {
	case n > 0 && (low.tight || high.tight):
		return choices(low, high, '0', func(low, high edge) (string, bool) { return wholeDigits(low, high, n-1, integer) })
	case n > 0:
		rest, ok := wholeDigits(low, high, 0, integer)
		return fmt.Sprintf("[0-9]{%d}", n) + rest, ok
	case integer:
		return "", complete(low, high)
	}
	low.rest, high.rest = strings.TrimPrefix(low.rest, "."), strings.TrimPrefix(high.rest, ".")
	return optional(`"." `, low, high, maxDigits)
}

// optional returns an expression of the digits after the point, which are optional if the number may end.
func optional(point string, low, high edge, left int) (expr string, ok bool) {
	digits, more := fraction(low, high, max(left, 1))
	switch ends := complete(low, high); {
	case more && ends:
		return " (" + point + digits + ")?", true
	case more:
		return " " + point + digits, true
	default:
		return "", ends
	}
}

// fraction returns an expression of digits after the point, at least one and about left at most.
func fraction(low, high edge, left int) (expr string, ok bool) {
	if low.tight && low.zero() && !low.open {
		low = edge{}
	}
	switch {
	case high.tight && high.zero():
		return fmt.Sprintf(`"0"{1,%d}`, left), !high.open && !low.tight
	case !low.tight && !high.tight:
		return fmt.Sprintf("[0-9]{1,%d}", left), true
	case low.tight && low.zero() && !high.tight:
		return fmt.Sprintf(`"0"{0,%d} [1-9] [0-9]{0,%d}`, left-1, left), true
	}
	return choices(low, high, '0', func(low, high edge) (string, bool) { return optional("", low, high, left-1) })
}

// choices returns an expression of the next digit, from first on, with the rest after each that follow returns.
func choices(low, high edge, first byte, follow func(low, high edge) (string, bool)) (expr string, ok bool) {
	last := byte('9')
	if low.tight {
		first = max(first, low.digit())
	}
	if high.tight {
		last = high.digit()
	}
	var parts []string
	for d := first; d <= last; d++ {
		l, h, from := low.after(d), high.after(d), d
		for !l.tight && !h.tight && d < last && !high.after(d+1).tight {
			d++
		}
		if rest, ok := follow(l, h); ok {
			digits := fmt.Sprintf("[%c-%c]", from, d)
			if from == d {
				digits = `"` + string(d) + `"`
			}
			parts = append(parts, digits+rest)
		}
	}
	if len(parts) > 1 {
		return "(" + strings.Join(parts, " | ") + ")", true
	}
	return strings.Join(parts, ""), len(parts) > 0
}
