package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// serveTLS is a server of HTTP/2, and a client option that trusts it.
func serveTLS(t *testing.T, h http.HandlerFunc) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, roots
}

// overBoth runs a test against HTTP/1 and HTTP/2.
func overBoth(t *testing.T, h http.HandlerFunc, test func(t *testing.T, target string, o ClientOptions)) {
	t.Run("HTTP/1", func(t *testing.T) { test(t, serve(t, h).URL, ClientOptions{}) })
	t.Run("HTTP/2", func(t *testing.T) {
		s, roots := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("request over %s", r.Proto)
			}
			h(w, r)
		})
		test(t, s.URL, ClientOptions{RootCAs: roots})
	})
}

func TestBodiesAreReadUpToTheLimit(t *testing.T) {
	const limit = MaxResponse
	for _, tt := range []struct {
		name     string
		size     int
		announce bool
		tooLarge bool
	}{
		{"empty", 0, true, false},
		{"exactly the limit, announced", limit, true, false},
		{"exactly the limit, in chunks", limit, false, false},
		{"one more, announced", limit + 1, true, true},
		{"one more, in chunks", limit + 1, false, true},
		{"far more, in chunks", 3 * limit, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overBoth(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.announce {
					w.Header().Set("Content-Length", strconv.Itoa(tt.size))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(bytes.Repeat([]byte("x"), tt.size))
			}, func(t *testing.T, target string, o ClientOptions) {
				body, err := post(t.Context(), newClient(t, mustPolicy(t), o), target)
				if tt.tooLarge && tt.announce && len(body) > 0 {
					t.Errorf("%d bytes were read although there were too many to come", len(body))
				}
				if errors.Is(err, ErrTooLarge) != tt.tooLarge || len(body) > limit || !tt.tooLarge && (err != nil || len(body) != tt.size) {
					t.Errorf("%d bytes, error %v", len(body), err)
				}
			})
		})
	}
}

// A body of 10 GB is not read to its end: the server notices that nobody wants it.
func TestEndlessBodyIsCutOff(t *testing.T) {
	stopped := make(chan struct{}, 2)
	overBoth(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for range 10 << 30 / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				stopped <- struct{}{}
				return
			}
		}
		t.Error("10 GB were read")
	}, func(t *testing.T, target string, o ClientOptions) {
		body, err := post(t.Context(), newClient(t, mustPolicy(t), o), target)
		if !errors.Is(err, ErrTooLarge) || len(body) != MaxResponse {
			t.Errorf("%d bytes, error %v", len(body), err)
		}
		<-stopped
	})
}

func TestReadAfterLimitStaysAnError(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, strings.Repeat("x", MaxResponse+6))
	})
	c := newClient(t, mustPolicy(t), ClientOptions{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.HTTP().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if len(body) != MaxResponse || !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if n, err := res.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("then %d, %v", n, err)
	}
}

func TestHugeHeadersAreCutOff(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"one": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Huge", strings.Repeat("x", 2*MaxResponseHeader))
		},
		"many": func(w http.ResponseWriter, _ *http.Request) {
			for range 2 * MaxResponseHeader / 100 {
				w.Header().Add("X-Many", strings.Repeat("x", 100))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, h, func(t *testing.T, target string, o ClientOptions) {
				_, err := post(t.Context(), newClient(t, mustPolicy(t), o), target)
				// HTTP/2's decoder gives up on a single long value before its size is counted.
				if !errors.Is(err, ErrTooLarge) && (o.RootCAs == nil || err == nil || !strings.Contains(err.Error(), "COMPRESSION_ERROR")) {
					t.Errorf("error %v, want ErrTooLarge", err)
				}
			})
		})
	}
}

func TestEndlessInterimAnswersFail(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		raw, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer raw.Close()
		for {
			if _, err := io.WriteString(raw, "HTTP/1.1 103 Early Hints\r\nX-Hint: "+strings.Repeat("x", 1000)+"\r\n\r\n"); err != nil {
				return
			}
		}
	})
	if _, err := post(t.Context(), newClient(t, mustPolicy(t), ClientOptions{}), s.URL); err == nil {
		t.Error("no error")
	}
}

func TestCompressionIsNeitherRequestedNorDecoded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	for _, coding := range []string{"gzip", "GZIP", "br", "deflate, gzip"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Values("Accept-Encoding"); len(got) != 1 || got[0] != "identity" {
				t.Errorf("asked for %q", got)
			}
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write(bomb.Bytes())
		})
		body, err := post(t.Context(), newClient(t, mustPolicy(t), ClientOptions{}), s.URL)
		if !errors.Is(err, ErrEncoded) || len(body) != 0 {
			t.Errorf("%s: %d bytes, error %v, want ErrEncoded", coding, len(body), err)
		}
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "Identity")
		_, _ = io.WriteString(w, "plain")
	})
	if body, err := post(t.Context(), newClient(t, mustPolicy(t), ClientOptions{}), s.URL); err != nil || string(body) != "plain" {
		t.Errorf("identity: %q, %v", body, err)
	}
}

func TestProtocolSwitchIsAnError(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		raw, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(raw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		raw.Close()
	})
	if _, err := post(t.Context(), newClient(t, mustPolicy(t), ClientOptions{}), s.URL); err == nil {
		t.Error("no error")
	}
}

// A header that trickles in is bounded by the caller's context like everything.
func TestSlowHeadersEndWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		raw, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer close(gone)
		defer raw.Close()
		_, _ = io.WriteString(raw, "HTTP/1.1 200 OK\r\nX-Slow: ")
		cancel()
		_, _ = raw.Read(make([]byte, 1)) // until the client hangs up
	})
	if _, err := post(ctx, newClient(t, mustPolicy(t), ClientOptions{}), s.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	<-gone
}
