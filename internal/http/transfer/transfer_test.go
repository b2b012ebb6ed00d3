package transfer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/base/budget"
)

// post is a request with a body.
func post(body io.Reader, length int64, encoding string) *gin.Context {
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequest(http.MethodPost, "/", body)
	c.Request.ContentLength = length
	c.Request.Header.Set("Content-Encoding", encoding)
	return c
}

func zipped(t *testing.T, text []byte) *bytes.Buffer {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return &packed
}

func TestBodyHoldsTheMemoryOfItsBuffer(t *testing.T) {
	text := bytes.Repeat([]byte("x"), 5<<20)
	for name, test := range map[string]struct {
		from     io.Reader
		length   int64
		encoding string
	}{
		"declared": {bytes.NewReader(text), int64(len(text)), ""},
		"chunked":  {bytes.NewReader(text), -1, ""},
		"gzip":     {zipped(t, text), -1, "gzip"},
		"short":    {strings.NewReader("{}"), -1, ""},
	} {
		all := budget.New(64 << 20)
		share := all.Share()
		body, err := ReadBody(post(test.from, test.length, test.encoding), 32<<20, share)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if share.Held() != int64(cap(body)) || all.Used() != share.Held() {
			t.Errorf("%s: a buffer of %d bytes holds %d", name, cap(body), share.Held())
		}
		if cap(body) > 2*len(body)+1 {
			t.Errorf("%s: %d bytes lie in %d", name, len(body), cap(body))
		}
	}
}

func TestGzipBeyondTheBudgetIsNotRead(t *testing.T) {
	all := budget.New(8 << 20)
	share := all.Share()
	packed := zipped(t, make([]byte, 32<<20))
	_, err := ReadBody(post(packed, int64(packed.Len()), "gzip"), 64<<20, share)
	if !errors.As(err, new(*budget.TooLargeError)) {
		t.Errorf("got %v", err)
	}
	if share.Held() > 8<<20 {
		t.Errorf("it holds %d bytes", share.Held())
	}
}

// What lives of many gzip bodies is within the budget while they are read, and nothing is held after them.
func TestManyGzipBodiesLiveWithinTheBudget(t *testing.T) {
	const limit, each, clients = 64 << 20, 12 << 20, 24
	packed := zipped(t, make([]byte, each)).Bytes()
	all := budget.New(limit)
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var bodies [][]byte
	shares := make([]*budget.Share, clients)
	for i := range shares {
		shares[i] = all.Share()
		wg.Go(func() {
			body, err := ReadBody(post(bytes.NewReader(packed), int64(len(packed)), "gzip"), 64<<20, shares[i])
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				bodies = append(bodies, body)
				return
			}
			if shares[i].Release(); !errors.Is(err, budget.ErrFull) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(bodies); n == 0 || n > limit/each {
		t.Errorf("%d bodies of %d bytes were read", n, each)
	}
	if lives := live() - before; lives > all.Used()+1<<20 || all.Used() > limit {
		t.Errorf("%d bytes live, and %d are held", lives, all.Used())
	}
	runtime.KeepAlive(bodies)
	for _, s := range shares {
		s.Release()
	}
	if all.Used() != 0 {
		t.Errorf("%d bytes are held by nobody", all.Used())
	}
}

func TestGrowingBodyNeedsRoomForItsCopy(t *testing.T) {
	all := budget.New(12 << 20)
	share := all.Share()
	// Within the budget alone, but not while it is copied from 4 MiB.
	_, err := ReadBody(post(bytes.NewReader(make([]byte, 6<<20)), -1, ""), 64<<20, share)
	if err == nil {
		t.Error("it was read")
	}
}

// slowClient takes time for each write.
type slowClient struct {
	now       time.Time
	rate      int // bytes a second
	deadlines []time.Time
	read      int
}

var errLate = errors.New("the deadline has passed")

func (s *slowClient) Write(p []byte) (int, error) {
	s.now = s.now.Add(time.Duration(len(p)) * time.Second / time.Duration(s.rate))
	if s.now.After(s.deadlines[len(s.deadlines)-1]) {
		return 0, errLate
	}
	s.read += len(p)
	return len(p), nil
}

func TestReaderHasTimeForEachPartAndForAll(t *testing.T) {
	for name, test := range map[string]struct {
		rate, size int
		want       error
	}{
		"a fast client":                    {100 << 20, 500 << 20, nil},
		"a slow one with a short answer":   {10 << 10, 1 << 20, nil},
		"a slow one with a long answer":    {20 << 10, 64 << 20, errLate},
		"as slow as a client may be":       {writeRate, 64 << 20, nil},
		"one that reads nearly nothing":    {1 << 10, 1 << 20, errLate},
		"one that is too slow for a part":  {(1 << 20) / 121, 1 << 20, errLate},
		"nothing to read needs no client ": {1, 0, nil},
	} {
		start := time.Unix(0, 0)
		client := &slowClient{now: start, rate: test.rate}
		w := &patientWriter{to: client, left: WriteTimeout, now: func() time.Time { return client.now },
			deadline: func(at time.Time) error { client.deadlines = append(client.deadlines, at); return nil }}
		if _, err := w.Write(make([]byte, test.size)); !errors.Is(err, test.want) {
			t.Errorf("%s: %v after %s and %d bytes", name, err, client.now.Sub(start), client.read)
		}
		most := start.Add(WriteTimeout + time.Duration(test.size)*time.Second/writeRate)
		for _, at := range client.deadlines {
			if at.After(most) {
				t.Errorf("%s: a deadline after %s", name, at.Sub(start))
			}
		}
	}
}

// slowReader is a connection whose client takes a second for each part.
type slowReader struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (r *slowReader) SetWriteDeadline(at time.Time) error {
	r.until = at
	return nil
}

func (r *slowReader) Write(p []byte) (int, error) {
	if time.Sleep(time.Second); time.Now().After(r.until) {
		return 0, errLate
	}
	return r.ResponseRecorder.Write(p)
}

func TestReaderOfEventsHasTimeForAllOfThem(t *testing.T) {
	for name, pause := range map[string]time.Duration{"quickly": 0, "slowly": time.Hour} {
		t.Run("events that come "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := &slowReader{ResponseRecorder: httptest.NewRecorder()}
				c, _ := gin.CreateTestContext(reader)
				send := Parts(c, "text/event-stream")
				sent, most := 0, int(WriteTimeout/time.Second)
				for sent <= most && send([]byte("data\n\n")) == nil {
					sent++
					time.Sleep(pause)
				}
				if !reader.until.IsZero() || sent != most {
					t.Errorf("%d events were sent, the next deadline is %s", sent, reader.until)
				}
			})
		})
	}
}

func TestStreamedAnswerIsTheAnswer(t *testing.T) {
	parts := []string{"[", strings.Repeat("a", 3<<20), ",", strings.Repeat("b", 10), "]"}
	whole := strings.Join(parts, "")
	for _, accept := range []string{"", "gzip"} {
		recorder := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(recorder)
		c.Request = httptest.NewRequest(http.MethodGet, "/", nil)
		c.Request.Header.Set("Accept-Encoding", accept)
		err := StreamJSON(c, http.StatusOK, func(w io.Writer) error {
			for _, part := range parts {
				if _, err := io.WriteString(w, part); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader = recorder.Body
		if accept != "" {
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != whole {
			t.Errorf("with %q: %d bytes, %v", accept, len(got), err)
		}
	}
}

// timedReader is a connection that records the deadlines of its writes.
type timedReader struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (r *timedReader) SetWriteDeadline(at time.Time) error {
	r.deadlines = append(r.deadlines, at)
	return nil
}

func TestReaderOfAnswerHasTimeForItsLength(t *testing.T) {
	for size, want := range map[int]time.Duration{10: WriteTimeout, 64 << 20: WriteTimeout + (64<<20)/writeRate*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			reader := &timedReader{ResponseRecorder: httptest.NewRecorder()}
			c, _ := gin.CreateTestContext(reader)
			c.Request = httptest.NewRequest(http.MethodGet, "/", nil)
			if err := SendJSON(c, http.StatusOK, make([]byte, size)); err != nil || len(reader.deadlines) != 2 || !reader.deadlines[1].IsZero() {
				t.Fatalf("%v, deadlines %s", err, reader.deadlines)
			}
			if got := time.Until(reader.deadlines[0]).Round(time.Second); got != want || reader.Body.Len() != size {
				t.Errorf("%d bytes of %d are sent, in %s at most, want %s", reader.Body.Len(), size, got, want)
			}
		})
	}
}
