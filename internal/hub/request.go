package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"agentd/internal/version"
)

// temporaryError is a failure after which a further try may succeed.
type temporaryError struct {
	err   error
	after time.Duration // that the hub wants to pass first
	more  bool          // bytes arrived before it
}

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }

// try calls f until it succeeds, fails for good, or fails maxTries times in a row. The wait
// doubles each time. Random jitter shortens it by up to half.
func (h *Hub) try(ctx context.Context, f func() error) error {
	for failures := 1; ; failures++ {
		err := f()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		failure := new(temporaryError)
		if !errors.As(err, &failure) {
			return err
		}
		if failure.more {
			failures = 1
		}
		if failures == maxTries || failure.after > longestWait {
			return err
		}
		wait := firstWait << (failures - 1)
		wait = max(wait-rand.N(wait/2), failure.after)
		h.Log.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).Msg("the download goes on after a pause")
		if err := h.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// ask sends a request for a path of the hub, and for a file's bytes from the given one. It
// returns an answer that is a success. A HEAD request also returns the redirect to the file.
func (p *pull) ask(ctx context.Context, method, path string, from int64) (*http.Response, error) {
	u := *p.endpoint
	u.Path += path
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "agentd/"+version.Release)
	req.Header.Set("Accept-Encoding", "identity") // else the sizes are of compressed files
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	res, err := p.client.Do(req)
	if failure := new(url.Error); errors.As(err, &failure) {
		err = failure.Err // without the URL, which may hold a signature
	}
	switch {
	case err != nil:
		return nil, &temporaryError{err: err}
	case res.StatusCode >= 300 && (method != http.MethodHead || res.StatusCode >= 400):
		res.Body.Close()
		return nil, p.refusal(res)
	}
	return res, nil
}

// redirect is the rule of the client for redirects. The token is for the hub alone. A HEAD
// request ends where the file's sum is known, and before it leaves the hub.
func (h *Hub) redirect(next *http.Request, before []*http.Request) error {
	here := next.URL.Host == h.endpoint.Host && next.URL.Scheme == h.endpoint.Scheme
	if !here {
		next.Header.Del("Authorization")
	}
	switch {
	case next.Method == http.MethodHead && (!here || next.Response.Header.Get(linkedEtag) != ""):
		return http.ErrUseLastResponse
	case len(before) >= 10:
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// refusal is the error of an answer that is no success, with what to do.
func (p *pull) refusal(res *http.Response) error {
	from, status := res.Request.URL, res.StatusCode
	page := p.endpoint.JoinPath(p.name.Repo).Redacted()
	switch code := res.Header.Get("X-Error-Code"); {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16) // 0: it names none
		return &temporaryError{err: fmt.Errorf("%s answered %s", from.Host, res.Status), after: time.Duration(seconds) * time.Second}
	case from.Host != p.endpoint.Host:
		return fmt.Errorf("%s, where the hub keeps the file, answered %s", from.Host, res.Status)
	case code == "GatedRepo", status == http.StatusForbidden:
		return fmt.Errorf("the hub does not give it to this account; accept the licence at %s, and set HF_TOKEN to a token of that account", page)
	case status == http.StatusUnauthorized && p.token == "":
		return errors.New("it does not exist or is private; check its name, or set HF_TOKEN to a token that may read it")
	case status == http.StatusUnauthorized:
		return fmt.Errorf("the hub refuses the token of HF_TOKEN or %s; make another one at %s", p.tokenFile, p.endpoint.JoinPath("settings/tokens").Redacted())
	case status == http.StatusNotFound:
		return fmt.Errorf("there is no %s, or HF_TOKEN may not read it; check the name", page)
	}
	return fmt.Errorf("%s answered %s", from.Host, res.Status)
}
