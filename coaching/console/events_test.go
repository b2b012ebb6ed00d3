package console

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// stream is an open page's stream of events.
type stream struct {
	t      *testing.T
	events chan string // the data of each
	close  context.CancelFunc
}

func (f *fixture) stream() *stream {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/api/events", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := f.http.Do(req) //nolint:bodyclose // by the goroutine that reads it
	if err != nil {
		f.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	s := &stream{f.t, make(chan string, 1000), cancel}
	go func() {
		defer close(s.events)
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				s.events <- data
			}
		}
	}()
	s.next()
	return s
}

// next is the next event's data, "" at the end of the stream.
func (s *stream) next() string {
	s.t.Helper()
	select {
	case data := <-s.events:
		return data
	case <-time.After(patience):
		s.t.Fatal("no event came")
	}
	return ""
}

func TestEveryChangeIsAnEvent(t *testing.T) {
	f := open(t)
	s := f.stream()
	expect := func(what string) {
		t.Helper()
		if data := s.next(); !strings.HasPrefix(data, `{"version":`) {
			t.Errorf("%s: the event is %q", what, data)
		}
	}
	agent := f.post(foreign("r1"))
	expect("a task came")
	claim := f.claimed("1", "Ann")
	expect("it was claimed")
	f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", object{"claim": claim, "draft": object{}}, nil)
	expect("a draft was saved")
	f.want(http.StatusNoContent, http.MethodPost, "/api/tasks/1/release", object{"claim": claim}, nil)
	expect("it was released")
	agent.leave()
	expect("the agent left")
	f.claimed("1", "Ann")
	expect("it was claimed again")
	f.clock.pass(DefaultClaim)
	claim = f.claimed("1", "Bob")
	expect("it was claimed by another")
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": "x"}, nil)
	expect("it was answered")
	f.clock.pass(DefaultKeep)
	f.prune()
	expect("it was removed")
}

func TestStreamsEndWithPageOrConsole(t *testing.T) {
	f := open(t)
	first, second := f.stream(), f.stream()
	if n := openStreams(f.console); n != 2 {
		t.Errorf("%d streams", n)
	}
	first.close()
	f.eventually("the stream is gone", func() bool { return openStreams(f.console) == 1 })
	f.stop()
	if data := second.next(); data != "" {
		t.Errorf("after the end came %q", data)
	}
	if n := openStreams(f.console); n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

func TestSlowPageDelaysNobody(t *testing.T) {
	h := newHub()
	slow, _ := h.join()
	for range 1000 {
		h.changed()
	}
	<-slow
	select {
	case <-slow:
		t.Error("changes were queued")
	default:
	}
	if h.current() != 1001 {
		t.Errorf("version %d", h.current())
	}
	for range maxStreams - 1 {
		if _, ok := h.join(); !ok {
			t.Fatal("too few streams")
		}
	}
	if _, ok := h.join(); ok {
		t.Error("more streams than there may be")
	}
	h.leave(slow)
	if _, ok := h.join(); !ok {
		t.Error("a place that was left is not free")
	}
}

// openStreams returns the number of event streams.
func openStreams(c *Console) int {
	h := c.tasks.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}
