package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"

	"agentd/bench/workload"
)

// record is the subcommand that stands in front of a server and writes what it is
// asked.
func (p *program) record(ctx context.Context, args []string) error {
	const group = "Options"
	listen, server, out := "127.0.0.1:8889", "", ""
	c := command{
		name: "record",
		page: `agentbench record stands in front of an agent server, passes every request on, and writes
what POST /v1/responses is asked as a trace, which agentbench run sends again.

Usage
  agentbench record --url URL --out FILE [options]

Example
  agentbench record --url http://127.0.0.1:8888 --out t.jsonl
      clients ask http://127.0.0.1:8889 then; Ctrl-C ends the recording
`,
		tail: `What is recorded
  Inputs with their whole memories, which may hold text of users. No header, so no token.
  Each input is written at once; a recording that ends early can be read.

Signals
  SIGINT or SIGTERM ends the recording when the requests on their way are answered.
`,
		groups: []string{group},
		options: []option{
			{"listen", group, "ADDRESS", "Address and port to listen on. Port 0 takes a free one and prints it.", text{&listen}},
			{"url", group, "URL", "The agent server, such as http://127.0.0.1:8888.", text{&server}},
			{"out", group, "FILE", "Trace to write; it must not exist.", text{&out}},
		},
	}
	_, _, err := c.parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	case server == "":
		return errors.New("--url: is missing; name the agent server, such as http://127.0.0.1:8888")
	case out == "":
		return errors.New("--out: is missing; name the trace to write, such as t.jsonl")
	}
	target, err := checkURL(server)
	if err != nil {
		return err
	}
	if err := absent("--out", out); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return p.recordTo(ctx, out, target, listener)
}

// recordTo records until ctx ends. It closes the listener.
func (p *program) recordTo(ctx context.Context, out string, server *url.URL, listener net.Listener) (err error) {
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, recordMode)
	if err != nil {
		return errors.Join(fmt.Errorf("--out: %w", err), listener.Close())
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	recorder, err := workload.NewRecorder(f, workload.RecorderOptions{
		Target: server,
		Failed: func(err error) { fmt.Fprintf(p.stderr, "agentbench: nothing more is recorded: %v\n", err) },
	})
	if err != nil {
		return errors.Join(fmt.Errorf("--url or --out: %w", err), listener.Close())
	}
	proxy := &http.Server{Handler: recorder, ReadHeaderTimeout: headerTimeout}
	fmt.Fprintf(p.stdout, "recording http://%s to %s\n", listener.Addr(), out)
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(listener) }()

	select {
	case err = <-served:
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err = proxy.Shutdown(drain); err != nil {
			err = errors.Join(fmt.Errorf("requests on their way: %w", err), proxy.Close())
		}
		<-served //nolint:errcheck // it only says that the proxy was closed
	}
	recording, failed := recorder.Close()
	fmt.Fprintf(p.stdout, "%d turns of %d agents\n", recording.Turns, recording.Agents)
	for _, reason := range slices.Sorted(maps.Keys(recording.Skipped)) {
		fmt.Fprintf(p.stdout, "%d not recorded: %s\n", recording.Skipped[reason], reason)
	}
	return errors.Join(err, failed)
}

// checkURL reads --url. Results carry it, so it must not hold a password.
func checkURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("--url: is no URL; want one such as http://127.0.0.1:8888")
	case u.User != nil:
		return nil, errors.New("--url: holds a name or password, which results would show; use --token-file")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--url: got %q, want http or https, a host, no query and no fragment, such as http://127.0.0.1:8888", s)
	}
	return u, nil
}
