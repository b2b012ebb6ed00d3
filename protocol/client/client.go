// Package client calls the health, info, responses and coaching paths of an agent server. It validates answers as
// strictly as the server validates requests, so that it also serves to test servers.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentd/internal/base/retry"
	"agentd/protocol"
)

const maxResponseBytes = 1 << 30 // of an answer, in which every candidate has a whole memory

const pathHealth = "/health"

const maxErrorBytes = 1 << 20

// Client calls one agent server. It is safe for concurrent use. Calls have no timeout but their context's.
type Client struct {
	base        *url.URL
	http        *http.Client
	token       string
	maxResponse int64
}

// Option configures a Client.
type Option func(*Client)

// WithHTTPClient sets the HTTP client, for TLS settings, proxies and connection limits.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithBearerToken sends a bearer token with every call.
func WithBearerToken(token string) Option { return func(c *Client) { c.token = token } }

// New makes a client of the server at a URL such as http://127.0.0.1:8888/prefix.
func New(baseURL string, opts ...Option) (*Client, error) {
	base, err := url.Parse(baseURL)
	// The errors do not repeat the URL, which may hold a password.
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("agent server URL: must be an http or https URL with a host, without query and fragment")
	}
	if strings.Contains(base.Path, "@") {
		return nil, errors.New("agent server URL: has an @ in its path; in a password write @ as %40 and / as %2F")
	}
	c := &Client{base: base, http: http.DefaultClient, maxResponse: maxResponseBytes}
	for _, opt := range opts {
		opt(c)
	}
	return c, nil
}

// Error is an answer with an unexpected status.
type Error struct {
	Status     int               // HTTP status
	Detail     string            // the server's sentence, or the beginning of a body of unknown shape
	Problems   protocol.Problems // of a 422
	RetryAfter time.Duration     // of a 503; 0 without such a header
}

// Error returns the status and the server's detail.
func (e *Error) Error() string {
	said := e.Detail
	if len(e.Problems) > 0 {
		said = e.Problems.Error()
	}
	return fmt.Sprintf("agent server answered %d %s: %s", e.Status, http.StatusText(e.Status), said)
}

// Health returns the server's health. A 503 with a health, as while loading, is not an error.
func (c *Client) Health(ctx context.Context) (*protocol.AgentHealth, error) {
	return ask(ctx, c, http.MethodGet, pathHealth, nil, "health", protocol.DecodeAgentHealth)
}

// Info returns the agent's description and capabilities.
func (c *Client) Info(ctx context.Context) (*protocol.AgentInfo, error) {
	return ask(ctx, c, http.MethodGet, "/v1/info", nil, "info", protocol.DecodeAgentInfo)
}

// Responses requests the candidates of a batch. The answer is validated against the request.
func (c *Client) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	outs, err := ask(ctx, c, http.MethodPost, "/v1/responses", req.AppendJSON(nil), "response", protocol.DecodeAgentOutputs)
	if err != nil {
		return nil, err
	}
	if err := protocol.ValidateResponse(req, outs); err != nil {
		return nil, fmt.Errorf("the response does not answer the request: %w", err)
	}
	return outs, nil
}

// PutCoachingSession configures the session of a run.
func (c *Client) PutCoachingSession(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error {
	_, err := c.call(ctx, http.MethodPut, sessionPath(runID), cfg.AppendJSON(nil), http.StatusNoContent)
	return err
}

// DeleteCoachingSession closes the session of a run, after its active requests have ended.
func (c *Client) DeleteCoachingSession(ctx context.Context, runID string) error {
	_, err := c.call(ctx, http.MethodDelete, sessionPath(runID), nil, http.StatusNoContent)
	return err
}

// Coach requests a repair. The answer is validated against the request.
func (c *Client) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	res, err := ask(ctx, c, http.MethodPost, "/v1/coaching", req.AppendJSON(nil), "coaching response",
		protocol.DecodeSpecializedCoachingResponse)
	if err != nil {
		return nil, err
	}
	if err := res.Validate(req); err != nil {
		return nil, fmt.Errorf("the coaching response does not answer the request: %w", err)
	}
	return res, nil
}

func sessionPath(runID string) string {
	return "/v1/coaching/sessions/" + url.PathEscape(runID)
}

// ask calls a path and decodes the answer, which errors name by what.
func ask[T any](
	ctx context.Context, c *Client, method, path string, body []byte, what string, decode func([]byte) (T, error),
) (v T, err error) {
	answer, err := c.call(ctx, method, path, body, http.StatusOK)
	if err != nil {
		return v, err
	}
	if v, err = decode(answer); err != nil {
		return v, fmt.Errorf("the server's %s breaks the contract: %w", what, err)
	}
	return v, nil
}

// call sends one request. An unexpected status is an *Error, except for a 503 whose body is a health.
func (c *Client) call(ctx context.Context, method, escapedPath string, body []byte, expect int) ([]byte, error) {
	target := strings.TrimSuffix(c.base.String(), "/") + escapedPath
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, escapedPath, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode == expect {
		answer, err := readAll(res.Body, c.maxResponse)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, escapedPath, err)
		}
		return answer, nil
	}
	// An error's body may be incomplete.
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	if escapedPath == pathHealth && res.StatusCode == http.StatusServiceUnavailable {
		if _, err := protocol.DecodeAgentHealth(answer); err == nil {
			return answer, nil
		}
	}
	e := &Error{Status: res.StatusCode, RetryAfter: retry.After(res.Header, time.Now())}
	e.Detail, e.Problems = protocol.DecodeErrorBody(answer)
	return nil, e
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the answer is larger than %d bytes; ask for fewer candidates", limit)
	}
	return body, nil
}

// IsStatus reports whether err is an *Error with a status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}
