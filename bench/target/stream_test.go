package target

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	for _, test := range []struct{ name, stream, want string }{
		{"nothing", "", ""},
		{"one", "data: a\n\n", "a"},
		{"without a space, or with two", "data:a\n\ndata:  b\n\n", "a| b"},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", "a|b"},
		{"several lines are one event", "data: a\ndata: b\n\n", "a\nb"},
		{"comments, names and ids", ":ping\n\nevent: x\nid: 1\ndata: a\n: c\n\n", "a"},
		{"empty data is an event, no data is none", "data\n\n\n\nevent: x\n\n", ""},
		{"another field that begins so", "database: x\n\ndata: a\n\n", "a"},
		{"what the end cuts off is none", "data: a\n\ndata: b\n", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			if err := events(strings.NewReader(test.stream), func(data []byte) error {
				got = append(got, string(data))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "|")); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("an error ends the reading", func(t *testing.T) {
		boom := errors.New("boom")
		n := 0
		err := events(strings.NewReader("data: a\n\ndata: b\n\n"), func([]byte) error { n++; return boom })
		if n != 1 || !errors.Is(err, boom) {
			t.Errorf("%d events, %v", n, err)
		}
	})
	t.Run("a line without an end is an error", func(t *testing.T) {
		if err := events(strings.NewReader("data: "+strings.Repeat("x", maxEvent)), nil); err == nil {
			t.Error("no error")
		}
	})
}

func TestArrivals(t *testing.T) {
	start := time.Unix(100, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * msec) }
	var a, b arrivals
	a.add(at(10), 2) // of the second one it is not known when it came
	a.add(at(30), 1)
	a.add(at(60), 3)
	a.add(at(70), 0)
	b.add(at(8), 1)
	b.add(at(9), 1)
	var answer Answer
	answer.merge(start, []arrivals{a, {}, b})
	want := Answer{First: 8 * msec, Gaps: []time.Duration{20 * msec, 10 * msec, 10 * msec, 10 * msec, msec}}
	if diff := cmp.Diff(want, answer); diff != "" || a.tokens != 6 {
		t.Error(a.tokens, diff)
	}
	answer = Answer{}
	answer.merge(start, make([]arrivals, 2))
	if answer.First != -1 {
		t.Errorf("no token came, but the first one after %v", answer.First)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\r\n\n:x\ndata:b\ndata\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		n := 0
		if err := events(strings.NewReader(stream), func(data []byte) error {
			n++
			if len(data) > len(stream) {
				t.Errorf("%d bytes of data", len(data))
			}
			return nil
		}); err != nil || n > strings.Count(stream, "\n")/2 {
			t.Errorf("%d events of %q, %v", n, stream, err)
		}
	})
}

func TestAConnectionThatTheServerGaveUpIsNoFailure(t *testing.T) {
	var mu sync.Mutex
	requests, seen := 0, map[string]int{} // by connection
	s := llamaServer(t, ModeN, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests++
		seen[r.RemoteAddr]++
		again := seen[r.RemoteAddr] > 1
		mu.Unlock()
		bodyOf(t, r)
		if _, told := r.Header["Idempotency-Key"]; told {
			t.Error("the server was told the key")
		}
		if again {
			panic(http.ErrAbortHandler) // closes the connection
		}
		reply(200, final(0, "a", 4, "eos", timingsJSON(2, 1, 3)))(w, r)
	}))
	for range 3 {
		if got, err := s.Ask(t.Context(), turn(1), Options{MaxTokens: 4}); err != nil || got.OutputTokens != 4 {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if requests != 5 { // the second and the third were sent twice
		t.Errorf("the server saw %d requests", requests)
	}
}

func TestARequestThatANewConnectionLostIsNotSentAgain(t *testing.T) {
	var requests atomic.Int64
	s := llamaServer(t, ModeN, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}))
	_, err := s.Ask(t.Context(), turn(1), Options{MaxTokens: 4})
	wantFailure(t, err, Transport, "EOF")
	if n := requests.Load(); n != 1 {
		t.Errorf("the server saw %d requests", n)
	}
}
