package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/rs/zerolog"

	"agentd/internal/http/connection"
)

// profilerAddress checks where profiles are served: profiles show what the
// program does, so only this machine may ask for them.
func profilerAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("got %q, want an address and a port such as 127.0.0.1:6060", address)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q can be reached by other machines; use 127.0.0.1, ::1 or localhost", host)
	}
	return nil
}

// forLoopback refuses requests for other host names than this machine's own. A page in a browser here
// can make a name of its site resolve to 127.0.0.1, and would read the answers.
func forLoopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !connection.IsLoopback(r.Host) {
			http.Error(w, "profiles are for this machine only; ask for 127.0.0.1, [::1] or localhost", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// startProfiler serves Go's profiles under /debug/pprof/ on its own port until stop is
// called.
func startProfiler(ctx context.Context, address string, log zerolog.Logger) (stop func() error, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--debug pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index) // named profiles, too
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: forLoopback(mux), ReadHeaderTimeout: profilerHeaderTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.Info().Str("url", "http://"+listener.Addr().String()+"/debug/pprof/").Msg("profiles")
	return func() error {
		closed := server.Close() // aborts running profiles
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return errors.Join(closed, err)
		}
		return closed
	}, nil
}
