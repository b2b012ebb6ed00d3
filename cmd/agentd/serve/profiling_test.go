package serve

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:6060": true, "localhost:0": true, "[::1]:1": true,
		"0.0.0.0:6060": false, ":6060": false, "192.0.2.1:1": false, "example.org:80": false, "6060": false, "": false,
	} {
		if err := profilerAddress(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestProfilesAreServedUntilTheEnd(t *testing.T) {
	var log strings.Builder
	stop, err := startProfiler(t.Context(), "127.0.0.1:0", zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://[^"]+`).FindString(log.String())
	for _, page := range []string{"", "goroutine?debug=1", "cmdline"} {
		if status, err := get(url + page); status != 200 || err != nil {
			t.Errorf("%s%s: %d, %v", url, page, status, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Close = "evil.example", true
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusMisdirectedRequest || resp.Body.Close() != nil {
		t.Errorf("under another name: %v, %v", resp, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(url); err == nil {
		t.Error("still served")
	}
}

func TestProfilesAreRefusedUnderAnotherName(t *testing.T) {
	handler := forLoopback(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for host, ok := range map[string]bool{
		"127.0.0.1:6060": true, "127.0.0.1": true, "127.1.2.3:1": true, "localhost:6060": true, "LocalHost": true, "[::1]:6060": true, "[::1]": true,
		"evil.example:6060": false, "evil.example": false, "localhost.evil.example": false, "192.0.2.1:6060": false, "": false, "[::]:1": false, "0.0.0.0": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if (w.Code == http.StatusOK) != ok {
			t.Errorf("%q: %d", host, w.Code)
		}
	}
}

// get asks on its own connection.
func get(url string) (status int, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
