package target

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"
)

// maxEvent bounds one line of a stream, in bytes.
const maxEvent = 16 << 20

// events calls f with the data of each server-sent event until the stream ends or
// f returns an error. It reads to the end, so that the connection can be used
// again. Fields other than data are passed over, as is an event that the stream's
// end cuts off. Lines may end with LF or CRLF; the
// servers send no bare CR, which the format would also allow (WHATWG HTML,
// section 9.2).
func events(r io.Reader, f func(data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var data []byte
	has := false
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			if !has {
				continue
			}
			if err := f(data); err != nil {
				return err
			}
			data, has = data[:0], false
			continue
		}
		text, ok := bytes.CutPrefix(line, []byte("data"))
		switch {
		case !ok || len(text) > 0 && text[0] != ':':
			continue // a comment or another field
		case has:
			data = append(data, '\n')
		}
		has = true
		if len(text) > 0 {
			data = append(data, bytes.TrimPrefix(text[1:], []byte(" "))...)
		}
		if len(data) > maxEvent {
			return fmt.Errorf("an event is larger than %d bytes", maxEvent)
		}
	}
	return lines.Err()
}

// arrivals are when the tokens of one candidate came.
type arrivals struct {
	first, last time.Time
	tokens      int
	gaps        []time.Duration
}

// add notes that n tokens came together. They share the time since those before
// them evenly; of those that came with the first one nothing is known.
func (a *arrivals) add(now time.Time, n int) {
	switch {
	case n <= 0:
		return
	case a.tokens == 0:
		a.first = now
	default:
		gap := now.Sub(a.last) / time.Duration(n)
		for range n {
			a.gaps = append(a.gaps, gap)
		}
	}
	a.last = now
	a.tokens += n
}

// merge puts the arrivals of all candidates into an answer to what was sent at
// start.
func (a *Answer) merge(start time.Time, all []arrivals) {
	a.First = -1
	for i := range all {
		if all[i].tokens == 0 {
			continue
		}
		if first := all[i].first.Sub(start); a.First < 0 || first < a.First {
			a.First = first
		}
		a.Gaps = append(a.Gaps, all[i].gaps...)
	}
}
