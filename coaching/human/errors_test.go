package human

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
)

func TestProtocolViolationFailsAtOnce(t *testing.T) {
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
	}
	for _, tt := range []struct {
		name string
		step http.HandlerFunc
		say  string
	}{
		{"another task's answer", scriptedtest.Answer(200, strings.Replace(done, "r-1", "r-2", 1)), "request_id"},
		{"garbage", scriptedtest.Answer(200, "<html>It works!</html>"), "breaks the protocol"},
		{"nothing", scriptedtest.Answer(200, ""), "breaks the protocol"},
		{"unknown status", scriptedtest.Answer(200, `{"request_id":"r-1","status":"maybe"}`), "status"},
		{"completed without output", scriptedtest.Answer(200, `{"request_id":"r-1","status":"completed"}`), "output"},
		{"skipped without reason", scriptedtest.Answer(200, `{"request_id":"r-1","status":"skipped"}`), "error"},
		{"content that must not be saved", scriptedtest.Answer(200, `{"request_id":"r-1","status":"completed","output":"{}","force_save_example":true}`), "force_save_example"},
		{"another task has the id", scriptedtest.Answer(409, `{"detail":"r-1 is another task"}`), "another task with this request_id: r-1 is another task"},
		{"not found", scriptedtest.Answer(404, `{"detail":"Not Found"}`), "404 Not Found"},
		{"invalid", scriptedtest.Answer(422, `{"detail":[{"type":"value_error","loc":["body","payload"],"msg":"too odd"}]}`), "body.payload: too odd"},
		{"unauthorized", scriptedtest.Answer(401, ""), "401"},
		{"internal error", scriptedtest.Answer(500, "oops"), "500 oops"},
		{"no content", scriptedtest.Answer(204, ""), "204"},
		{"redirect", redirect, "redirect"},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }, "compressed"},
		{"too large", scriptedtest.Answer(200, strings.Repeat(" ", egress.MaxResponse+1)), "too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := scriptedtest.New(t, tt.step)
			_, err := newRig(t, e.URL).Ask(t.Context(), task())
			want(t, err, Broken, tt.say)
			if n := len(e.Lines()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestQueryKeysAreNotInErrors(t *testing.T) {
	for _, s := range []http.HandlerFunc{
		scriptedtest.Answer(401, `{"detail":"wrong token top/secret, top%2Fsecret"}`),
		scriptedtest.Answer(200, `{"request_id":"top/secret"}`),
		scriptedtest.Answer(200, `top/secret`),
		scriptedtest.Answer(200, strings.Replace(done, "r-1", strings.Repeat("x", 58)+"top/secret", 1)), // cut in the middle of it
		scriptedtest.Answer(500, "x"+strings.Repeat(" ", 502)+"top/secret"),
	} {
		e := scriptedtest.New(t, s)
		_, err := newRig(t, e.URL+"?token=top%2Fsecret").Ask(t.Context(), task())
		want(t, err, Broken, e.URL)
		if strings.Contains(err.Error(), "top/") {
			t.Errorf("error %v has half of the key", err)
		}
	}
}

// TestQueryKeysAreNotInFailures of answers that are not HTTP, which errors of
// the transport repeat.
func TestQueryKeysAreNotInFailures(t *testing.T) {
	e := scriptedtest.New(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 top/secret\r\n\r\n")
		_ = conn.Close()
	})
	r := newRig(t, e.URL+"?token=top%2Fsecret")
	err := r.Withdraw(t.Context(), "r-1")
	want(t, err, Unreachable, "***")
	_, _ = r.Ask(t.Context(), task())
	told := []string{err.Error()}
	for _, f := range r.failures {
		told = append(told, f.Err.Error())
	}
	if all := strings.Join(told, "\n"); len(told) < 2 || strings.Contains(all, "top/") {
		t.Errorf("the key is told, or nothing:\n%s", all)
	}
}

func TestLongAnswersAreShortenedInErrors(t *testing.T) {
	e := scriptedtest.New(t, scriptedtest.Answer(500, strings.Repeat("é\r\n\t ", 1000)+"\xff"))
	_, err := newRig(t, e.URL).Ask(t.Context(), task())
	if n := len([]rune(err.Error())); n > maxDetail+200 || strings.ContainsAny(err.Error(), "\r\n\t") {
		t.Errorf("%d characters: %q", n, err)
	}
}

func TestForbiddenEndpointsAreNotRetried(t *testing.T) {
	for _, target := range []string{"http://169.254.169.254", "http://10.0.0.1/?token=secret", "http://user:secret@127.0.0.1", "http://[::1", "ftp://127.0.0.1"} {
		r := newRig(t, target)
		_, err := r.Ask(t.Context(), task())
		want(t, err, Forbidden, "not allowed")
		want(t, r.Withdraw(t.Context(), "r-1"), Forbidden, "not allowed")
		if len(r.slept) != 0 {
			t.Errorf("%s was tried again", target)
		}
	}
}

func TestWrongTLSIsNotRetried(t *testing.T) {
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	t.Cleanup(encrypted.Close)
	plain := scriptedtest.New(t, scriptedtest.Answer(200, done))
	for _, target := range []string{encrypted.URL, strings.Replace(plain.URL, "http:", "https:", 1)} {
		r := newRig(t, target)
		_, err := r.Ask(t.Context(), task())
		want(t, err, Unreachable, target)
		if len(r.slept) != 0 {
			t.Errorf("%s was tried again", target)
		}
	}
}

func FuzzEndpointTextBecomesOneShortLine(f *testing.F) {
	f.Add("plain")
	f.Add("two\nlines\r\nand a\ttab")
	f.Add(strings.Repeat("é", 2*maxDetail) + "\xff")
	c := New("http://127.0.0.1/?token=top-secret", nil, Options{})
	f.Fuzz(func(t *testing.T, s string) {
		got := c.clean(s + "top-secret")
		if strings.ContainsAny(got, "\r\n\t") || !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxDetail+1 || strings.Contains(got, "top-secret") {
			t.Errorf("clean(%q) = %q", s, got)
		}
	})
}
