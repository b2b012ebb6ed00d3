package main

import (
	"context"
	"fmt"
	"net/http"

	"agentd/protocol"
	"agentd/protocol/client"
)

// dial makes a client of the agent server at url. The names are those of the
// options, for errors.
func dial(transport *http.Transport, urlOption, url, tokenOption, tokenFile string) (*client.Client, error) {
	with := []client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}
	if tokenFile != "" {
		tokens, err := readTokens(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tokenOption, err)
		}
		with = append(with, client.WithBearerToken(tokens[0]))
	}
	c, err := client.New(url, with...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", urlOption, err)
	}
	return c, nil
}

// remote is a running server that a command asks.
type remote struct{ URL, TokenFile string }

// groupRemote is the heading of its options.
const groupRemote = "Server"

func (r *remote) options(usage string) []option {
	return []option{
		{"url", "", groupRemote, "URL", usage, text{&r.URL}},
		{"token-file", "", groupRemote, "FILE", "File whose first token is sent to the server.", text{&r.TokenFile}},
	}
}

// open makes a client of the server and sees that it takes requests. It must be
// closed by closing the transport's idle connections.
func (r *remote) open(ctx context.Context, transport *http.Transport) (*client.Client, error) {
	c, err := dial(transport, "--url", r.URL, "--token-file", r.TokenFile)
	if err != nil {
		return nil, err
	}
	health, err := c.Health(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("no agent server answers at %s: %w; start one with agentd, or name another with --url", r.URL, err)
	case health.Status == protocol.HealthFailed:
		return nil, fmt.Errorf("the server at %s has lost its devices, as its log says; start it again", r.URL)
	case health.Status != protocol.HealthReady:
		return nil, fmt.Errorf("the server at %s is %s; try again when it is ready", r.URL, health.Status)
	}
	// Health needs no token, this does.
	if _, err := c.Info(ctx); client.IsStatus(err, http.StatusUnauthorized) {
		return nil, fmt.Errorf("the server at %s wants a token, or another one; see --token-file", r.URL)
	} else if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return c, nil
}

// newTransport is one of its own, so that its connections can be closed, for so
// many requests at a time.
func newTransport(requests int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = requests
	return t
}
