package schema

import (
	"fmt"
	"strings"
)

// edge is one end of a range of magnitudes while their digits are written.
type edge struct {
	tight bool   // the digits so far equal the bound's
	rest  string // the bound's remaining digits, with the point
	open  bool   // the bound itself is excluded
}

// edgeOf returns a bound as an edge, and its number of digits before the point.
func edgeOf(b *bound) (l edge, wholeDigits int) {
	whole, fraction := decimal(b.at)
	return edge{true, whole + "." + fraction, b.open}, len(whole)
}

// digit returns the bound's next digit.
func (l edge) digit() byte {
	if l.rest == "" {
		return '0'
	}
	return l.rest[0]
}

// after returns the edge after a digit.
func (l edge) after(d byte) edge {
	if !l.tight || l.digit() != d {
		return edge{}
	}
	l.rest = l.rest[min(1, len(l.rest)):]
	return l
}

// zero reports whether only zeros remain.
func (l edge) zero() bool { return strings.Trim(l.rest, ".0") == "" }

// complete reports whether a number may end here.
func complete(low, high edge) bool {
	return (!low.tight || low.zero() && !low.open) && (!high.tight || !high.zero() || !high.open)
}

// magnitudes writes the numbers without a sign between two bounds digit by digit, "" if there are
// none. A nil high is unbounded.
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

// wholeDigits writes n digits before the point, and what follows them.
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

// optional writes the digits after the point, optional if the number may end.
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

// fraction writes digits after the point, at least one and about left at most.
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

// choices writes the next digit, at least first, and for each what follows it.
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
