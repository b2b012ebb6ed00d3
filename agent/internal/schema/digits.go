package schema

import (
	"fmt"
	"strings"
)

// edge is one end of a range of numbers without a sign, while their digits are written.
type edge struct {
	tight bool   // the digits so far are those of the bound
	rest  string // its digits that follow, with the point
	open  bool   // the bound itself is outside
}

func edgeOf(b *bound) edge {
	whole, fraction := decimal(b.at)
	return edge{true, whole + "." + fraction, b.open}
}

// digit is the bound's next one.
func (l edge) digit() byte {
	if l.rest == "" {
		return '0'
	}
	return l.rest[0]
}

// after is the edge behind a digit.
func (l edge) after(d byte) edge {
	if !l.tight || l.digit() != d {
		return edge{}
	}
	l.rest = l.rest[min(1, len(l.rest)):]
	return l
}

// zero reports whether the bound has no more digits but zeros.
func (l edge) zero() bool { return strings.Trim(l.rest, ".0") == "" }

// complete reports whether a number may end between two limits.
func complete(low, high edge) bool {
	return (!low.tight || low.zero() && !low.open) && (!high.tight || !high.zero() || !high.open)
}

// magnitudes is the numbers without a sign from one bound to another, nil for no end, digit by
// digit; "" where there are none.
func magnitudes(low, high *bound, integer bool) string {
	lo, hi := edgeOf(low), edge{}
	first := strings.IndexByte(lo.rest, '.')
	last := first
	if high != nil {
		hi = edgeOf(high)
		last = strings.IndexByte(hi.rest, '.')
	}
	var parts []string
	for n := first; n <= last; n++ { // digits before the point
		l, h := edge{}, edge{}
		if n == first {
			l = lo
		}
		if n == last {
			h = hi
		}
		if part, ok := wholes(l, h, n, true, integer); ok {
			parts = append(parts, part)
		}
	}
	if high == nil {
		longer := fmt.Sprintf("[1-9] [0-9]{%d,%d}", first, max(maxDigits-1, first))
		rest, _ := wholes(edge{}, edge{}, 0, false, integer)
		parts = append(parts, longer+rest)
	}
	return strings.Join(parts, " | ")
}

// wholes is the n digits before the point and what follows them; lead reports whether the first
// of them is the number's first.
func wholes(low, high edge, n int, lead, integer bool) (expr string, ok bool) {
	switch {
	case n > 0 && (lead || low.tight || high.tight):
		first := byte('0')
		if lead && n > 1 {
			first = '1'
		}
		return choices(low, high, first, func(low, high edge) (string, bool) { return wholes(low, high, n-1, false, integer) })
	case n > 0:
		rest, ok := wholes(low, high, 0, false, integer)
		return fmt.Sprintf("[0-9]{%d}", n) + rest, ok
	case integer:
		return "", complete(low, high)
	}
	low.rest, high.rest = strings.TrimPrefix(low.rest, "."), strings.TrimPrefix(high.rest, ".")
	return optional(`"." `, low, high, maxDigits)
}

// optional is the digits that may follow behind the point, or none where the number may end.
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

// fraction is the digits behind the point, at least one and about left at most.
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

// choices is the next digit, first at least, and for each what follows it.
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
