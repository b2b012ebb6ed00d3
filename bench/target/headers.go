package target

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// headerTiming of agentd's answers: queue;dur=1.2, ttft;dur=34.5
const headerTiming = "Server-Timing"

// maxMillis bounds a duration of a header, about 31 years.
const maxMillis = 1e12

// timing is what a Server-Timing header says; -1 where it says nothing.
type timing struct{ queue, first time.Duration }

// parseTiming reads the values of Server-Timing headers as the W3C
// Recommendation track's Server Timing (section 3) writes them: metrics by comma,
// each a token with parameters by semicolon; of several parameters of one name
// the first counts. Other metrics and parameters are passed over. An error is
// what breaks the syntax, a metric of ours that is there twice, or whose dur is
// no number of milliseconds.
func parseTiming(values []string) (timing, error) {
	t := timing{-1, -1}
	for _, value := range values {
		s := scanner{rest: value}
		for s.element() {
			name := s.token()
			if name == "" {
				return t, s.bad(headerTiming, "a metric's name is missing")
			}
			dur, has := "", false
			for s.eat(';') {
				key, text, err := s.parameter()
				if err != nil {
					return t, s.bad(headerTiming, err.Error())
				}
				if strings.EqualFold(key, "dur") && !has {
					dur, has = text, true
				}
			}
			if !s.ended() {
				return t, s.bad(headerTiming, "a comma or a semicolon is missing")
			}
			if err := t.set(name, dur, has); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (t *timing) set(name, dur string, has bool) error {
	var into *time.Duration
	switch name {
	case "queue":
		into = &t.queue
	case "ttft":
		into = &t.first
	}
	if into == nil || !has {
		return nil
	}
	if *into >= 0 {
		return fmt.Errorf("%s: %s is there twice", headerTiming, name)
	}
	ms, err := strconv.ParseFloat(dur, 64)
	if err != nil || !(ms >= 0 && ms <= maxMillis) {
		return fmt.Errorf("%s: the dur of %s is %.40q, not a number of milliseconds", headerTiming, name, dur)
	}
	*into = millis(ms)
	return nil
}

// millis is a duration of milliseconds, at most maxMillis.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// scanner reads lists of header values (RFC 9110, section 5.6).
type scanner struct{ rest string }

func (s *scanner) space() { s.rest = strings.TrimLeft(s.rest, " \t") }

// element goes to the next element of the list, past empty ones.
func (s *scanner) element() bool {
	s.rest = strings.TrimLeft(s.rest, " \t,")
	return s.rest != ""
}

// ended reports whether an element of the list ends here.
func (s *scanner) ended() bool {
	s.space()
	return s.rest == "" || s.rest[0] == ','
}

func (s *scanner) eat(c byte) bool {
	s.space()
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	s.space()
	return true
}

// token is "" where none starts.
func (s *scanner) token() string {
	n := 0
	for n < len(s.rest) && isToken(s.rest[n]) {
		n++
	}
	token := s.rest[:n]
	s.rest = s.rest[n:]
	return token
}

// parameter is name, or name=value where the value is a token or a quoted string.
func (s *scanner) parameter() (name, value string, err error) {
	if name = s.token(); name == "" {
		return "", "", fmt.Errorf("a name is missing")
	}
	if !s.eat('=') {
		return name, "", nil
	}
	if !strings.HasPrefix(s.rest, `"`) {
		if value = s.token(); value == "" {
			return "", "", fmt.Errorf("the value of %s is missing", name)
		}
		return name, value, nil
	}
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '"':
			s.rest = s.rest[i+1:]
			return name, b.String(), nil
		case '\\':
			if i++; i == len(s.rest) {
				continue
			}
		}
		b.WriteByte(s.rest[i])
	}
	return "", "", fmt.Errorf("the string of %s is not closed", name)
}

func (s *scanner) bad(header, why string) error {
	return fmt.Errorf("%s: %s before %.40q", header, why, s.rest)
}

// isToken reports whether c may be part of a token (RFC 9110, section 5.6.2).
func isToken(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
