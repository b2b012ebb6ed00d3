package result

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SLO bounds what a request may take; 0 does not bound. Goodput is the throughput
// of the requests within all bounds (Zhong and others, DistServe, OSDI 2024).
type SLO struct {
	TTFT time.Duration
	TPOT time.Duration
	E2EL time.Duration
}

// ParseSLO reads bounds as ttft=200ms,tpot=50ms,e2el=2s, in any order, at least
// one. "" is no bound at all.
func ParseSLO(s string) (SLO, error) {
	var slo SLO
	if s == "" {
		return slo, nil
	}
	fields := slo.fields()
	for part := range strings.SplitSeq(s, ",") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.IndexFunc(fields, func(f sloField) bool { return f.name == name })
		if !ok || i < 0 {
			return SLO{}, fmt.Errorf("got %q, want ttft=TIME, tpot=TIME or e2el=TIME, separated by commas", part)
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil || d <= 0:
			return SLO{}, fmt.Errorf("%s: got %q, want a time above 0 such as 200ms or 2s", name, text)
		case *fields[i].p != 0:
			return SLO{}, fmt.Errorf("%s is there twice; remove one", name)
		}
		*fields[i].p = d
	}
	return slo, nil
}

type sloField struct {
	name string
	p    *time.Duration
}

func (s *SLO) fields() []sloField {
	return []sloField{{"ttft", &s.TTFT}, {"tpot", &s.TPOT}, {"e2el", &s.E2EL}}
}

// String is what ParseSLO reads.
func (s SLO) String() string {
	var parts []string
	for _, f := range s.fields() {
		if *f.p != 0 {
			parts = append(parts, f.name+"="+f.p.String())
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText is String.
func (s SLO) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSLO.
func (s *SLO) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSLO(string(text))
	return err
}

// errUnknown says that a bound can't be checked.
var errUnknown = errors.New("unknown")

// met tells whether an answered request kept all bounds. A candidate of one token
// has no TPOT and keeps every bound of it. The error is errUnknown when a bounded
// time is not known and no other one is over its bound.
func (s SLO) met(r *Record) (bool, error) {
	var err error
	for _, b := range []struct {
		bound time.Duration
		got   Value
		none  bool // there is nothing that could take long
	}{{s.TTFT, r.ttft(), false}, {s.TPOT, r.tpot(), r.oneToken()}, {s.E2EL, r.e2el(), false}} {
		switch {
		case b.bound == 0, b.none:
		case !b.got.Known:
			err = errUnknown
		case b.got.X > milliseconds(b.bound):
			return false, nil
		}
	}
	return err == nil, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
