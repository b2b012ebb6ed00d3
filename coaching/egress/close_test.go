package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/waittest"
)

// descriptors is how many files and sockets this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// known is how many connections a client has.
func known(c *Client) int {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	return len(c.dialer.conns)
}

// leavesNothing runs a test and checks that no goroutine and no descriptor is left
// of it. The servers of the test must be closed by then, too: they are in the same
// process.
func leavesNothing(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	warm, err := net.Listen("tcp", "127.0.0.1:0") // the runtime opens files of its own the first time
	if err != nil {
		t.Fatal(err)
	}
	warm.Close()
	goroutines := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Run("run", test)
	if err := goleak.Find(goroutines); err != nil {
		t.Error(err)
	}
	// A server closes its side on a goroutine that goleak has seen end.
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// ask starts requests that are to fail when the client is closed; wait returns
// their errors.
func ask(t *testing.T, c *Client, n int, target string) (wait func() []error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = post(context.Background(), c, target) })
	}
	return func() []error { wg.Wait(); return errs }
}

func TestCloseLeavesNothing(t *testing.T) {
	const n = 5
	// hang answers nothing until the client is gone, begin a part of an answer.
	hang := func(entered chan<- struct{}) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a server notices that a client left once it has read the body
			entered <- struct{}{}
			<-r.Context().Done()
		}
	}
	begin := func(entered chan<- struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "the beginning")
			w.(http.Flusher).Flush()
			entered <- struct{}{}
			<-r.Context().Done()
		}
	}
	for name, handler := range map[string]func(chan<- struct{}) http.HandlerFunc{"no answer": hang, "half an answer": begin} {
		entered := make(chan struct{}, n)
		overBoth(t, handler(entered), func(t *testing.T, target string, o ClientOptions) {
			t.Run(name, func(t *testing.T) {
				leavesNothing(t, func(t *testing.T) {
					c := mustPolicy(t).NewClient(o)
					first := ask(t, c, 1, target) // which settles whether the others share its connection
					<-entered
					others := ask(t, c, n-1, target)
					for range n - 1 {
						<-entered
					}
					conns, before := known(c), descriptors(t)
					c.Close()
					if after := descriptors(t); conns == 0 || after > before-conns {
						t.Errorf("%d descriptors when Close returned, %d before, %d of them the client's", after, before, conns)
					}
					for _, err := range append(first(), others()...) {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("error %v, want ErrClosed", err)
						}
					}
				})
			})
		})
	}
}

func TestCloseEndsIdleConnections(t *testing.T) {
	overBoth(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, target string, o ClientOptions) {
		leavesNothing(t, func(t *testing.T) {
			c := mustPolicy(t).NewClient(o)
			if _, err := post(t.Context(), c, target); err != nil {
				t.Fatal(err)
			}
			c.Close()
			c.Close() // once more does no harm
			if _, err := post(t.Context(), c, target); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v, want ErrClosed", err)
			}
		})
	})
}

// silent accepts connections and never says anything; accepted reports each.
func silent(t *testing.T) (address string, accepted <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			seen <- struct{}{}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn) // until the client hangs up
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String(), seen
}

func TestCloseEndsHeldRequests(t *testing.T) {
	for _, scheme := range []string{"http://", "https://"} { // the answer, and the TLS handshake
		t.Run(strings.TrimSuffix(scheme, "://"), func(t *testing.T) {
			leavesNothing(t, func(t *testing.T) {
				address, accepted := silent(t)
				c := mustPolicy(t).NewClient(ClientOptions{ConnectTimeout: time.Hour})
				wait := ask(t, c, 3, scheme+address)
				for range 3 {
					<-accepted
				}
				c.Close()
				for _, err := range wait() {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("error %v, want ErrClosed", err)
					}
				}
			})
		})
	}
}

func TestCloseEndsLookups(t *testing.T) {
	leavesNothing(t, func(t *testing.T) {
		asked := make(chan struct{}, 1)
		c := mustPolicy(t).NewClient(ClientOptions{ConnectTimeout: time.Hour, LookupIP: func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		wait := ask(t, c, 1, "http://a.example/")
		<-asked
		c.Close()
		if err := wait()[0]; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}

// A request that ends does not take its connection attempt with it, by design of
// net/http. Close must find that too.
func TestCloseEndsDialsOfCancelledRequests(t *testing.T) {
	leavesNothing(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		c := mustPolicy(t).NewClient(ClientOptions{ConnectTimeout: time.Hour, LookupIP: func(lookup context.Context, _, _ string) ([]netip.Addr, error) {
			cancel()
			<-lookup.Done()
			close(ended)
			return nil, lookup.Err()
		}})
		if _, err := post(ctx, c, "http://a.example/"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		c.Close()
		select {
		case <-ended:
		default:
			t.Error("Close returned before the attempt ended")
		}
	})
}

func TestCloseDuringRequests(t *testing.T) {
	leavesNothing(t, func(t *testing.T) {
		s := serve(t, func(http.ResponseWriter, *http.Request) {})
		for range 20 {
			c := mustPolicy(t).NewClient(ClientOptions{})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for {
						if _, err := post(context.Background(), c, s.URL); err != nil {
							if !errors.Is(err, ErrClosed) {
								t.Errorf("error %v, want ErrClosed", err)
							}
							return
						}
					}
				})
			}
			runtime.Gosched()
			c.Close()
			wg.Wait()
			if n := known(c); n != 0 {
				t.Errorf("%d connections left", n)
			}
		}
	})
}

func TestEndedConnectionsAreForgotten(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	c := newClient(t, mustPolicy(t), ClientOptions{})
	for range 10 {
		if _, err := post(t.Context(), c, s.URL); err != nil {
			t.Fatal(err)
		}
	}
	// net/http closes them on goroutines of its own.
	waittest.Eventually(t, "all connections are closed", func() bool { return known(c) == 0 })
}
