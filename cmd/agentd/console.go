package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentd/console"

	"github.com/rs/zerolog"
)

// runConsole is the subcommand that serves the page on which people coach.
func runConsole(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := loadConsoleConfig(args)
	switch {
	case errors.Is(err, errHelp):
		writeConsoleHelp(stdout)
		return nil
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, versionLine())
		return nil
	case err != nil:
		return fmt.Errorf("console: %w", err)
	}
	if err := serveConsole(ctx, c, stderr); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// serveConsole serves until ctx ends or a signal comes.
func serveConsole(ctx context.Context, c consoleConfig, stderr io.Writer) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	log := newLogger(Config{LogLevel: c.LogLevel, LogFormat: c.LogFormat}, stderr)
	log.Info().Str("version", release).Str("commit", buildCommit()).Str("data_dir", c.DataDir).Msg("agentd console starts")
	opts, transport, err := c.options(log)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	page, err := c.open(opts)
	if err != nil {
		return err
	}
	log.Info().Int("tasks", page.Waiting()).Msg("waiting for people")
	listener, err := c.listen(ctx, opts, log)
	if err != nil {
		return errors.Join(err, page.Close())
	}
	served := make(chan error, 1)
	go func() { served <- page.Serve(listener) }()

	var failure error
	select {
	case failure = <-served:
		served = nil
	case s := <-signals:
		log.Info().Stringer("signal", s).Msg("stopping")
	case <-ctx.Done():
		log.Info().Msg("stopping")
	}
	err = stopConsole(page, signals)
	if served != nil {
		failure = <-served
	}
	log.Info().Msg("stopped")
	return errors.Join(failure, err)
}

// open makes the console on its data directory.
func (c *consoleConfig) open(o console.Options) (*console.Console, error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	page, err := console.Open(o)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	return page, nil
}

// stopConsole tells waiting agents to come back and lets answers that are on
// their way arrive; it is short, since nothing is lost by it. A second signal
// cuts it.
func stopConsole(page *console.Console, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), consoleStop)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	// What is still open then is cut by Close; its tasks are stored.
	_ = page.Shutdown(ctx)
	return page.Close()
}

// options are the console's, from files and addresses that were checked before
// but may have changed since.
func (c *consoleConfig) options(log zerolog.Logger) (console.Options, *http.Transport, error) {
	o := console.Options{
		Path:        filepath.Join(c.DataDir, consoleFile),
		PublicHosts: splitList(c.PublicHost),
		Claim:       c.Claim,
		Keep:        c.Keep,
		Log:         log,
	}
	// Of its own, so that its connections can be closed.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var err error
	if o.AgentsFrom, err = readPrefixes(c.AgentsFrom); err != nil {
		return o, nil, fmt.Errorf("--agents-from: %w", err)
	}
	if c.AuthTokenFile != "" {
		if o.Tokens, err = readTokens(c.AuthTokenFile); err != nil {
			return o, nil, fmt.Errorf("--auth-token-file: %w", err)
		}
	}
	if c.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return o, nil, fmt.Errorf("--tls-cert: %w; want PEM files that belong together", err)
		}
		o.Certificates = []tls.Certificate{cert}
	}
	if c.Agent == "" {
		return o, transport, nil
	}
	o.Agent, err = dial(transport, "--agent", c.Agent, "--agent-token-file", c.AgentTokenFile)
	return o, transport, err
}

// listen opens the port and says where the page is.
func (c *consoleConfig) listen(ctx context.Context, o console.Options, log zerolog.Logger) (net.Listener, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d on %s is taken; stop what uses it or choose another --port (0 takes a free one)", c.Port, c.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen; check --host and --port: %w", err)
	}
	scheme := "http"
	if len(o.Certificates) > 0 {
		scheme = "https"
	}
	log.Info().Str("url", scheme+"://"+listener.Addr().String()).Msg("listening")
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		if len(o.Tokens) == 0 {
			log.Warn().Msg("the page is open to the network and asks for no token; see --auth-token-file")
		}
		if len(o.AgentsFrom) == 0 {
			log.Warn().Msg("everybody on the network may post tasks; see --agents-from")
		}
	}
	return listener, nil
}

// splitList is the words of a list separated by commas.
func splitList(s string) []string {
	var words []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// readPrefixes reads addresses and networks.
func readPrefixes(s string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, word := range splitList(s) {
		if address, err := netip.ParseAddr(word); err == nil {
			prefixes = append(prefixes, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("got %q, want addresses and networks such as 10.0.0.5 or 10.0.0.0/8", word)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

const (
	// consoleFile is the store's name in the data directory.
	consoleFile = "console.db"
	// consoleStop is how long answers that are on their way may take when the
	// console stops.
	consoleStop = 5 * time.Second
)
