package coaching

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// secret is a key that must not be seen anywhere.
const secret = "sk-7f3d9a-very-secret"

// fault is one way in which a coach fails, and the expected result.
type fault struct {
	name     string
	handlers []http.HandlerFunc
	endpoint func(plain, secure *httptest.Server) string // nil: the plain server
	status   string
	reason   string // must be part of it
	asked    int64  // requests that reach the server; -1: not looked at
	waited   []time.Duration
}

func faults(stop <-chan struct{}, poured *atomic.Int64) []fault {
	pour := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for range 10 << 10 {
			n, err := w.Write(chunk)
			poured.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body+" (you sent "+r.Header.Get("Authorization")+")")
		}
	}
	short := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"choices":[`)
	}
	plain := func(s *httptest.Server, _ *httptest.Server) string { return s.URL }
	list := func(h ...http.HandlerFunc) []http.HandlerFunc { return h }
	const (
		corrected = protocol.CoachingCorrected
		abandoned = protocol.CoachingAbandoned
		failed    = protocol.CoachingFailed
	)
	return []fault{
		{"a failure, then a good answer", list(fails(500), says(goodAnswer)), plain, corrected, "", 2, []time.Duration{500 * time.Millisecond}},
		{"busy, then a good answer", list(fails(429, "Retry-After", "7"), fails(503), says(goodAnswer)), plain, corrected, "", 3, []time.Duration{7 * time.Second, time.Second}},
		{"busy for longer than anyone waits", list(fails(429, "Retry-After", "3600")), plain, failed, "no such luck", 1, nil},
		{"busy to the last", list(fails(529)), plain, failed, "529", 3, []time.Duration{500 * time.Millisecond, time.Second}},
		{"failing to the last", list(fails(500)), plain, failed, "500", 3, []time.Duration{500 * time.Millisecond, time.Second}},
		{"no answer in time", list(hangs(stop)), plain, failed, "within", -1, []time.Duration{500 * time.Millisecond, time.Second}},
		{"garbage", list(text(200, "<html>welcome</html>")), plain, failed, "", -1, nil},
		{"JSON of another API", list(text(200, `{"weather":"fine"}`)), plain, failed, "", -1, nil},
		{"10 GB", list(pour), plain, failed, "too large", -1, nil},
		{"connection reset", list(scriptedtest.Reset), plain, failed, "cannot reach", -1, []time.Duration{500 * time.Millisecond, time.Second}},
		{"an answer that ends early", list(short), plain, failed, "", -1, []time.Duration{500 * time.Millisecond, time.Second}},
		{"wrong key", list(text(401, "who are you?")), plain, failed, "401", 1, nil},
		{"redirect", list(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		}), plain, failed, "redirect", 1, nil},
		{"an unsigned certificate", list(says(goodAnswer)), func(_, secure *httptest.Server) string { return secure.URL }, failed, "certificate", 0, nil},
		{"TLS where there is none", list(says(goodAnswer)), func(s, _ *httptest.Server) string { return strings.Replace(s.URL, "http:", "https:", 1) }, failed, "", 0, nil},
		{"a closed port", list(says(goodAnswer)), func(_, _ *httptest.Server) string { return "http://" + closedPort }, failed, "refused", 0, []time.Duration{500 * time.Millisecond, time.Second}},
		{"a name that leads to a forbidden address", list(says(goodAnswer)), func(_, _ *httptest.Server) string { return "http://metadata.coach.example" }, failed, "metadata address", 0, nil},
		{"an unknown host name", list(says(goodAnswer)), func(_, _ *httptest.Server) string { return "http://nowhere.coach.example" }, failed, "nowhere.coach.example", 0, nil},
		{"an invalid answer, then a good one", list(says(invalidAnswer1), says(goodAnswer)), plain, corrected, "", 2, nil},
		{"prose, then a good answer with prose around it", list(says("Certainly! Let me think."), says("Here it is:\n```json\n"+goodAnswer+"\n```\nGood luck!")), plain, corrected, "", 2, nil},
		{"invalid answers to the last", list(says(invalidAnswer1)), plain, abandoned, "elsewhere", 3, nil},
		{"an invalid answer takes one of the tries", list(says(invalidAnswer1), fails(500)), plain, abandoned, "elsewhere", 3, []time.Duration{500 * time.Millisecond}},
		{"an invalid answer, then none: the reason has both", list(says(invalidAnswer1), fails(500)), plain, abandoned, "500", 3, []time.Duration{500 * time.Millisecond}},
		{"silence, then a good answer", list(says(""), says(goodAnswer)), plain, corrected, "", 2, nil},
		{"silence to the last", list(says("")), plain, abandoned, "no JSON", 3, nil},
		{"the coach declines and repeats the key", list(says(strings.Replace(declinedAnswer, "Nobody", secret+": nobody", 1))), plain, abandoned, "***: nobody knows", 1, nil},
		{"the coach declines", list(says(declinedAnswer)), plain, abandoned, "Nobody knows where the cup is.", 1, nil},
	}
}

// closedPort is a port of this machine at which nobody listens: it is reserved
// for a service that does not run.
const closedPort = "127.0.0.1:1"

// TestFaults lets coaches go wrong in every way: the request ends in the
// documented status with a reason, within the documented tries; nothing is left
// after it, the requests of another session never notice, and the key is nowhere.
func TestFaults(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	var poured atomic.Int64
	for _, f := range faults(stop, &poured) {
		t.Run(f.name, func(t *testing.T) {
			faulty, good := scriptedtest.New(t, f.handlers...), scriptedtest.New(t, says(goodAnswer))
			secure := httptest.NewUnstartedServer(faulty)
			secure.Config.ErrorLog = discardLog()
			secure.StartTLS()
			defer secure.Close()
			faulty.Config.ErrorLog = discardLog()

			var mu sync.Mutex
			var waited []time.Duration
			var out output
			o := Options{Log: zerolog.New(&out).Level(zerolog.TraceLevel), Registerer: out.registry()}
			o.Sleep = func(ctx context.Context, d time.Duration) error {
				mu.Lock()
				defer mu.Unlock()
				waited = append(waited, d)
				return ctx.Err()
			}
			o.Egress.LookupIP = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				if strings.HasPrefix(host, "metadata.") {
					return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
				}
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			s := newService(t, o)
			check := nothingLeft(t)

			b := openai("faulty", f.endpoint(faulty.Server, secure))
			b.Headers = protocol.Headers{"Authorization": "Bearer " + secret, "X-Extra": "extra-" + secret}
			if strings.Contains(f.reason, "within") {
				b.Timeout = 0.05
			}
			configure(t, s, "faulty", llmConfig(b))
			configure(t, s, "neighbour", llmConfig(openai("good", good.URL)))
			answered := make(chan *protocol.SpecializedCoachingResponse, 1)
			go func() { answered <- mustCoach(t, s, newRequest("faulty", "c")) }()
			for range 5 {
				if res := mustCoach(t, s, newRequest("neighbour", "n")); res.Status != protocol.CoachingCorrected {
					t.Errorf("the neighbour's request is %s: %s", res.Status, res.Reason)
				}
			}
			res := receive(t, answered, "the answer")

			if res.Status != f.status || !strings.Contains(res.Reason, f.reason) {
				t.Errorf("%s %q, want %s with %q in its reason", res.Status, res.Reason, f.status, f.reason)
			}
			if f.status == protocol.CoachingCorrected && string(res.Proposals[0].ExtraKeys) != goodProposal {
				t.Errorf("proposed %s, want %s", res.Proposals[0].ExtraKeys, goodProposal)
			}
			if err := res.Validate(newRequest("faulty", "c")); err != nil {
				t.Error(err)
			}
			if n := faulty.Asked(); f.asked >= 0 && n != f.asked {
				t.Errorf("the coach was asked %d times, want %d", n, f.asked)
			}
			if f.waited != nil && !equal(waited, f.waited) {
				t.Errorf("waited %v, want %v", waited, f.waited)
			}
			if n := poured.Load(); n > 256<<20 {
				t.Errorf("%d bytes were taken from the coach", n)
			}
			if len(res.Logs) != 1 || !strings.Contains(res.Logs[0].Content, "## Result: "+f.status) {
				t.Errorf("logs are %v", res.Logs)
			}
			for _, run := range []string{"faulty", "neighbour"} {
				if err := s.CloseSession(t.Context(), run); err != nil {
					t.Error(err)
				}
			}
			check()
			out.mustNotHold(t, secret, res)
			t.Logf("%s: %s", res.Status, res.Reason)
		})
	}
}

func TestInvalidAnswerIsRetriedMaxRetryTimes(t *testing.T) {
	for _, most := range []int64{0, 1, 5} {
		t.Run(strconv.FormatInt(most, 10), func(t *testing.T) {
			coachServer := scriptedtest.New(t, says(invalidAnswer1))
			b := openai("stubborn", coachServer.URL)
			b.MaxRetry = most
			s := newService(t, Options{})
			configure(t, s, "r", llmConfig(b))
			if res := mustCoach(t, s, newRequest("r", "c")); res.Status != protocol.CoachingAbandoned {
				t.Errorf("%s %q", res.Status, res.Reason)
			}
			if n := coachServer.Asked(); n != most+1 {
				t.Errorf("asked %d times, want %d", n, most+1)
			}
		})
	}
}

func TestFailuresAndInvalidAnswersShareMaxRetry(t *testing.T) {
	for most, want := range map[int64]string{0: "failed", 1: "cannot be used", 2: "then", 3: "cannot be used"} {
		t.Run(strconv.FormatInt(most, 10), func(t *testing.T) {
			coachServer := scriptedtest.New(t, fails(500), says(invalidAnswer1), fails(500), says(invalidAnswer1), says(goodAnswer))
			b := openai("unsteady", coachServer.URL)
			b.MaxRetry = most
			s := newService(t, Options{})
			configure(t, s, "r", llmConfig(b))
			res := mustCoach(t, s, newRequest("r", "c"))
			if res.Status == protocol.CoachingCorrected || most > 0 && !strings.Contains(res.Reason, want) {
				t.Errorf("%s %q, want a reason with %q", res.Status, res.Reason, want)
			}
			if n := coachServer.Asked(); n != most+1 {
				t.Errorf("asked %d times, want %d", n, most+1)
			}
		})
	}
}

func TestSecondCoachTakesOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  http.HandlerFunc
		second http.HandlerFunc
		status string
		reason string // must be part of it
	}{
		{"from one that fails", fails(500), says(goodAnswer), protocol.CoachingCorrected, ""},
		{"from one that answers invalidly", says(invalidAnswer1), says(goodAnswer), protocol.CoachingCorrected, ""},
		{"but not from one that declines", says(declinedAnswer), says(goodAnswer), protocol.CoachingAbandoned, "Nobody knows"},
		{"and if it answers invalidly, too, that is the end", fails(500), says(invalidAnswer1), protocol.CoachingAbandoned, `"second"`},
		{"no reachable coach is an error", fails(500), fails(401), protocol.CoachingFailed, `"first"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := scriptedtest.New(t, c.first), scriptedtest.New(t, c.second)
			s := newService(t, Options{})
			configure(t, s, "r", llmConfig(openai("first", first.URL), openai("second", second.URL)))
			res := mustCoach(t, s, newRequest("r", "c"))
			if res.Status != c.status || !strings.Contains(res.Reason, c.reason) {
				t.Errorf("%s %q, want %s with %s", res.Status, res.Reason, c.status, c.reason)
			}
		})
	}
}

func equal(a, b []time.Duration) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
