package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"agentd/cmd/internal/options"
	"agentd/protocol"
	"agentd/protocol/client"
)

// Dial makes a client of the agent server at url. Errors name the options that hold url
// and tokenFile.
func Dial(transport *http.Transport, urlOption, url, tokenOption, tokenFile string) (*client.Client, error) {
	if strings.Contains(url, "@") { // errors name the URL
		return nil, fmt.Errorf("%s: has a user or password; use %s", urlOption, tokenOption)
	}
	with := []client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}
	if tokenFile != "" {
		tokens, err := ReadTokens(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tokenOption, err)
		}
		with = append(with, client.WithBearerToken(tokens.List[0]))
	}
	c, err := client.New(url, with...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", urlOption, err)
	}
	return c, nil
}

// Remote is a running server that a command asks.
type Remote struct{ URL, TokenFile string }

// Options are the options of r.
func (r *Remote) Options(usage string) []options.Option {
	option := options.In("Server")
	return []options.Option{
		option("url", "URL", usage, options.Text(&r.URL)),
		option("token-file", "FILE", "File whose first token is sent to the server.", options.SecretFile(&r.TokenFile)),
	}
}

// Open makes a client of the server and checks that the server takes requests. To close
// the client, close the transport's idle connections.
func (r *Remote) Open(ctx context.Context, transport *http.Transport) (*client.Client, error) {
	c, err := Dial(transport, "--url", r.URL, "--token-file", r.TokenFile)
	if err != nil {
		return nil, err
	}
	health, err := c.Health(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return nil, fmt.Errorf("%w; set SSL_CERT_FILE to a file with the certificate of its authority", err)
	case err != nil:
		return nil, fmt.Errorf("no agent server answers at %s: %w; start one with agentd, or name another with --url", r.URL, err)
	case health.Status == protocol.HealthFailed:
		return nil, fmt.Errorf("all devices of the server at %s failed, as its log says; start it again", r.URL)
	case strings.HasPrefix(health.Status, protocol.HealthStuck):
		return nil, fmt.Errorf("a step of the server at %s does not end (%s), as its log says; start it again", r.URL, health.Status)
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

// WarnOfSecrets writes which secret files others can read, for a command without a log.
func WarnOfSecrets(stderr io.Writer, c *options.Command) {
	for _, warning := range c.ExposedSecrets() {
		fmt.Fprintln(stderr, "warning:", warning)
	}
}

// NewTransport makes a separate transport, whose connections can be closed, for so many
// requests at a time.
func NewTransport(requests int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = requests
	return t
}
