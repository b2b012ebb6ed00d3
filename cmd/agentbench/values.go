package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value reads one option from text. Errors say what was expected; the caller adds
// the name.
type value interface {
	set(text string) error
	String() string
}

// text is any string.
type text struct{ p *string }

func (t text) String() string     { return *t.p }
func (t text) set(s string) error { *t.p = s; return nil }

// choice is one of a few words.
type choice struct {
	p     *string
	words []string
}

func (c choice) String() string { return *c.p }
func (c choice) set(s string) error {
	word := strings.ToLower(strings.TrimSpace(s))
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("got %q, want one of: %s", s, strings.Join(c.words, ", "))
	}
	*c.p = word
	return nil
}

// integer is a whole number in [min, max].
type integer struct {
	p        *int
	min, max int
}

func (i integer) String() string { return strconv.Itoa(*i.p) }
func (i integer) set(s string) error {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < i.min || n > i.max {
		return fmt.Errorf("got %q, want a whole number from %d to %d", s, i.min, i.max)
	}
	*i.p = n
	return nil
}

// seed is an unsigned 64-bit number.
type seed struct{ p *uint64 }

func (u seed) String() string { return strconv.FormatUint(*u.p, 10) }
func (u seed) set(s string) error {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return fmt.Errorf("got %q, want a whole number from 0 to %d", s, uint64(math.MaxUint64))
	}
	*u.p = n
	return nil
}

// fraction is a number in [min, max].
type fraction struct {
	p        *float64
	min, max float64
}

func (f fraction) String() string { return strconv.FormatFloat(*f.p, 'g', -1, 64) }
func (f fraction) set(s string) error {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(x >= f.min && x <= f.max) { // written so that NaN fails
		return fmt.Errorf("got %q, want a number from %g to %g", s, f.min, f.max)
	}
	*f.p = x
	return nil
}

// toggle is true or false.
type toggle struct{ p *bool }

func (b toggle) String() string { return strconv.FormatBool(*b.p) }
func (b toggle) set(s string) error {
	x, err := strconv.ParseBool(strings.TrimSpace(s))
	if err != nil {
		return fmt.Errorf("got %q, want true or false", s)
	}
	*b.p = x
	return nil
}

// duration is a time span such as 90s or 250ms.
type duration struct{ p *time.Duration }

func (d duration) String() string { return d.p.String() }
func (d duration) set(s string) error {
	x, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || x < 0 || x > maxDuration {
		return fmt.Errorf("got %q, want a time span from 0s to %s such as 90s or 250ms", s, maxDuration)
	}
	*d.p = x
	return nil
}
