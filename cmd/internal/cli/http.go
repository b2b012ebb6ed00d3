package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/rs/zerolog"

	"agentd/cmd/internal/options"
)

// maxPort is the largest TCP port.
const maxPort = 65535

// HTTP is where a command listens and for whom.
type HTTP struct {
	Host      string
	Port      int
	TLSCert   string // files; "": no TLS
	TLSKey    string
	TokenFile string // "": no authentication
}

// Options are the options of h. The usage of the host and of the tokens differs between
// commands.
func (h *HTTP) Options(group, host, tokens string) []options.Option {
	option := options.In(group)
	return []options.Option{
		option("host", "ADDRESS", host, options.Text(&h.Host)),
		option("port", "N", "Port to listen on. 0 takes a free one and logs it.", options.Int(&h.Port, 0, maxPort)),
		option("tls-cert", "FILE", "PEM certificate chain. With --tls-key only HTTPS is served.", options.Text(&h.TLSCert)),
		option("tls-key", "FILE", "PEM private key of --tls-cert.", options.SecretFile(&h.TLSKey)),
		option("auth-token-file", "FILE", tokens, options.SecretFile(&h.TokenFile)),
	}
}

// Check finds what is wrong with h.
func (h *HTTP) Check(p *options.Problems) {
	if h.Host != "localhost" {
		if _, err := netip.ParseAddr(h.Host); err != nil {
			p.Add("host", "got %q, want an IP address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost", h.Host)
		}
	}
	switch {
	case h.TLSCert != "" && h.TLSKey == "":
		p.Add("tls-cert", "needs --tls-key too")
	case h.TLSKey != "" && h.TLSCert == "":
		p.Add("tls-key", "needs --tls-cert too")
	case h.TLSCert != "":
		if _, err := tls.LoadX509KeyPair(h.TLSCert, h.TLSKey); err != nil {
			p.Add("tls-cert", "%w; want PEM files that belong together", err)
		}
	}
	if h.TokenFile != "" {
		if _, err := ReadTokens(h.TokenFile); err != nil {
			p.Add("auth-token-file", "%w", err)
		}
	}
}

// Load reads the certificates and the tokens, which may have changed since Check.
func (h *HTTP) Load() (certificates []tls.Certificate, tokens Tokens, err error) {
	if h.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(h.TLSCert, h.TLSKey)
		if err != nil {
			return nil, tokens, fmt.Errorf("--tls-cert: %w; want PEM files that belong together", err)
		}
		certificates = []tls.Certificate{cert}
	}
	if h.TokenFile != "" {
		if tokens, err = ReadTokens(h.TokenFile); err != nil {
			return nil, tokens, fmt.Errorf("--auth-token-file: %w", err)
		}
	}
	return certificates, tokens, nil
}

// Listen opens the port and logs its URL. It reports whether other machines reach it.
func (h *HTTP) Listen(ctx context.Context, log zerolog.Logger) (listener net.Listener, open bool, err error) {
	listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(h.Host, strconv.Itoa(h.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, false, fmt.Errorf("port %d on %s is taken; stop what uses it or choose another --port (0 takes a free one)", h.Port, h.Host)
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot listen; check --host and --port: %w", err)
	}
	scheme := "http"
	if h.TLSCert != "" {
		scheme = "https"
	}
	log.Info().Str("url", scheme+"://"+listener.Addr().String()).Msg("listening")
	address, ok := listener.Addr().(*net.TCPAddr)
	return listener, ok && !address.IP.IsLoopback(), nil
}
