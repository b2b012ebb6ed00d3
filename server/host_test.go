package server

import (
	"net"
	"net/http"
	"testing"
)

// served starts the server on an address and returns where it listens.
func served(t *testing.T, s *Server, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().String()
}

func TestLoopbackAddressAnswersToNamesOfThisMachineOnly(t *testing.T) {
	open := newTest(t, Ready, echo)
	closed := newTest(t, Ready, echo, func(o *Options) { o.Tokens = []string{"a-token"} })
	wide := newTest(t, Ready, echo)
	local, withTokens, anywhere := served(t, open, "127.0.0.1:0"), served(t, closed, "127.0.0.1:0"), served(t, wide, "0.0.0.0:0")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, test := range []struct {
		at, host, path string
		status         int
	}{
		{local, "evil.example:8888", "/metrics", 421},
		{local, "evil.example", "/v1/info", 421},
		{local, "evil.example", "/v1/weights", 421},
		{local, "localhost.evil.example", "/v1/info", 421},
		{local, "evil.example", "/magma/v1/info", 421},
		{local, "evil.example", "/health", 200},
		{local, "localhost:9000", "/v1/info", 200},
		{local, "sim.localhost", "/v1/info", 200},
		{local, "127.0.0.1:8888", "/v1/info", 200},
		{local, "[::1]:8888", "/v1/info", 200},
		{local, "192.0.2.7", "/v1/info", 200},
		{withTokens, "agents.example.org", "/v1/info", 200},
		{anywhere, "agentd.robots.svc", "/v1/info", 200},
	} {
		_, port, err := net.SplitHostPort(test.at)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = test.host
		r.Header.Set("Authorization", "Bearer a-token")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != test.status {
			t.Errorf("Host %s, %s: status %d, want %d", test.host, test.path, answer.StatusCode, test.status)
		}
	}
}
