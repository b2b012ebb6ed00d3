package schema

import (
	"fmt"
	"strings"
)

// integers is the integers without a sign from one to another, "" for no end, digit by digit.
func integers(from, to string) string {
	var parts []string
	for to == "" || len(from) < len(to) {
		parts = append(parts, sameLength(from, strings.Repeat("9", len(from))))
		if to == "" {
			least := len(from)
			return strings.Join(append(parts, fmt.Sprintf("[1-9] [0-9]{%d,%d}", least, max(maxDigits-1, least))), " | ")
		}
		from = "1" + strings.Repeat("0", len(from))
	}
	if len(from) == len(to) && from <= to {
		parts = append(parts, sameLength(from, to))
	}
	return strings.Join(parts, " | ")
}

// sameLength is the numbers of as many digits as both bounds have, leading zeros included.
func sameLength(low, high string) string {
	if low == high {
		return `"` + low + `"`
	}
	lowRest, highRest := low[1:], high[1:]
	if low[0] == high[0] {
		return `"` + low[:1] + `" (` + sameLength(lowRest, highRest) + ")"
	}
	zeros, nines := strings.Repeat("0", len(lowRest)), strings.Repeat("9", len(lowRest))
	first, last := low[0], high[0]
	var parts []string
	tail := ""
	if lowRest != zeros {
		parts = append(parts, `"`+low[:1]+`" (`+sameLength(lowRest, nines)+")")
		first++
	}
	if highRest != nines {
		tail = `"` + high[:1] + `" (` + sameLength(zeros, highRest) + ")"
		last--
	}
	if first <= last {
		parts = append(parts, digit(first, last)+times(len(lowRest)))
	}
	if tail != "" {
		parts = append(parts, tail)
	}
	return strings.Join(parts, " | ")
}

func digit(first, last byte) string {
	if first == last {
		return `"` + string(first) + `"`
	}
	return fmt.Sprintf("[%c-%c]", first, last)
}

func times(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " [0-9]"
	}
	return fmt.Sprintf(" [0-9]{%d}", n)
}

// anyFraction is any digits behind a point, or none.
var anyFraction = fmt.Sprintf(`("." [0-9]{1,%d})?`, maxDigits)

// fractions is the numbers without a sign between bounds: those of the integers between them
// with any fraction, and those of the bounds' own integers.
func fractions(low, high *bound) string {
	lowWhole, lowRest := "0", ""
	if low != nil {
		lowWhole, lowRest = decimal(low.at)
	}
	lowOpen := low != nil && low.open
	if high == nil {
		return anyOf(with(lowWhole, behind(lowRest, lowOpen, "", false, false)), above(lowWhole, ""))
	}
	highWhole, highRest := decimal(high.at)
	if lowWhole == highWhole {
		return with(lowWhole, behind(lowRest, lowOpen, highRest, true, high.open))
	}
	return anyOf(with(lowWhole, behind(lowRest, lowOpen, "", false, false)), above(lowWhole, highWhole), with(highWhole, behind("", false, highRest, true, high.open)))
}

// above is the integers between two others, both left out, with any fraction.
func above(low, high string) string {
	from, to := next(low), ""
	if high != "" {
		if to = previous(high); len(from) > len(to) || len(from) == len(to) && from > to {
			return ""
		}
	}
	return "(" + integers(from, to) + ") " + anyFraction
}

func next(n string) string {
	d := []byte(n)
	for i := len(d) - 1; i >= 0; i-- {
		if d[i]++; d[i] <= '9' {
			return string(d)
		}
		d[i] = '0'
	}
	return "1" + string(d)
}

// previous is the integer before one above zero.
func previous(n string) string {
	d := []byte(n)
	for i := len(d) - 1; i >= 0; i-- {
		if d[i]--; d[i] >= '0' {
			break
		}
		d[i] = '9'
	}
	if out := strings.TrimLeft(string(d), "0"); out != "" {
		return out
	}
	return "0"
}

// with is an integer and what may stand behind it, "" where nothing may.
func with(whole, rest string) string {
	if rest == "" {
		return ""
	}
	return `"` + whole + `" ` + rest
}

// behind is what may stand behind an integer: a point and a fraction between two others, or
// nothing if that is a number between them. bounded tells whether there is an upper one.
func behind(low string, lowOpen bool, high string, bounded, highOpen bool) string {
	none := low == "" && !lowOpen && (!bounded || high != "" || !highOpen)
	body := digitsBetween(low, lowOpen, high, bounded, highOpen, maxDigits)
	switch {
	case body == "" && none:
		return `""`
	case body == "":
		return ""
	case none:
		return `("." (` + body + `))?`
	}
	return `"." (` + body + ")"
}

// digitsBetween is the digits, at least one and at most left, of a fraction between two others.
func digitsBetween(low string, lowOpen bool, high string, bounded, highOpen bool, left int) string {
	if low == "" && !bounded {
		if lowOpen {
			return fmt.Sprintf(`"0"{0,%d} [1-9] [0-9]{0,%d}`, max(left, 1)-1, left)
		}
		return fmt.Sprintf("[0-9]{1,%d}", max(left, 1))
	}
	if bounded && high == "" { // nothing but zeros
		if highOpen || lowOpen || strings.Trim(low, "0") != "" {
			return ""
		}
		return fmt.Sprintf(`"0"{1,%d}`, max(left, 1))
	}
	first, lowRest := byte('0'), ""
	if low != "" {
		first, lowRest = low[0], low[1:]
	}
	last, highRest := byte('9'), ""
	if bounded {
		last, highRest = high[0], high[1:]
	}
	if bounded && first > last {
		return ""
	}
	tail := func(d byte) string {
		atLow, atHigh := d == first && (low != "" || lowOpen), bounded && d == last
		l, lo, h, b, ho := "", false, "", false, false
		if atLow {
			l, lo = lowRest, lowOpen
		}
		if atHigh {
			h, b, ho = highRest, true, highOpen
		}
		none := strings.Trim(l, "0") == "" && !lo && (!b || strings.Trim(h, "0") != "" || !ho)
		body := digitsBetween(l, lo, h, b, ho, left-1)
		switch {
		case body == "" && none:
			return string(`"`) + string(d) + `"`
		case body == "":
			return ""
		case none:
			return `"` + string(d) + `" (` + body + ")?"
		}
		return `"` + string(d) + `" (` + body + ")"
	}
	parts := []string{tail(first)}
	from, to := first+1, last
	if bounded {
		to = last - 1
	}
	if from <= to && first != last {
		parts = append(parts, digit(from, to)+fmt.Sprintf(" [0-9]{0,%d}", max(left-1, 0)))
	}
	if bounded && last != first {
		parts = append(parts, tail(last))
	}
	return anyOf(parts...)
}

// anyOf joins alternatives but the empty ones.
func anyOf(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, " | ")
}
