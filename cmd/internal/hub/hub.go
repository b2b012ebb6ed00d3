// Package hub gets the files of models from a Hugging Face hub. It keeps them in the cache
// of Python's huggingface_hub, which finds them there, as this package finds that library's.
//
// It is our own because github.com/gomlx/go-huggingface (v0.3.1) neither resumes a download
// nor checks a sum, ignores HF_HOME, and refuses the redirects of a HEAD request.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"agentd/internal/base/retry"
	"agentd/internal/base/version"
)

// Hub is a hub and the cache of its files. Make one with [New].
type Hub struct {
	Log zerolog.Logger
	// Progress is called when a download begins and each time a part of it arrived. Done and
	// size are in bytes.
	Progress func(file string, done, size int64)

	endpoint  *url.URL
	token     string // "": none
	tokenFile string // names the token in errors
	cache     string // directory
	offline   bool
	client    *http.Client
	stall     time.Duration // stallTimeout but in tests
	sleep     func(ctx context.Context, d time.Duration) error
}

// New makes a Hub from the variables of Python's huggingface_hub: HF_ENDPOINT, HF_TOKEN,
// HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE. env looks them up, as [os.Getenv] does.
func New(env func(string) string) (*Hub, error) {
	endpoint, err := url.Parse(strings.TrimRight(cmp.Or(env("HF_ENDPOINT"), "https://huggingface.co"), "/"))
	if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, errors.New("HF_ENDPOINT: want a URL such as https://huggingface.co")
	}
	home := env("HF_HOME")
	if home == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("%w; set HF_HOME to a directory for models", err)
		}
		home = filepath.Join(caches, "huggingface")
	}
	cache := cmp.Or(env("HF_HUB_CACHE"), filepath.Join(home, "hub"))
	for _, dir := range []*string{&home, &cache} { // an env file has it so, without a shell
		if rest, ok := strings.CutPrefix(*dir, "~/"); ok {
			*dir = filepath.Join(env("HOME"), rest)
		}
	}
	h := &Hub{
		Log:       zerolog.Nop(),
		Progress:  func(string, int64, int64) {},
		endpoint:  endpoint,
		token:     strings.TrimSpace(env("HF_TOKEN")),
		tokenFile: filepath.Join(home, "token"),
		cache:     cache,
		offline:   slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(env("HF_HUB_OFFLINE"))),
		stall:     stallTimeout,
		sleep:     retry.Sleep,
	}
	if h.token == "" {
		raw, err := os.ReadFile(h.tokenFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; it holds the token of the hub, which HF_TOKEN may name, too", err)
		}
		h.token = strings.TrimSpace(string(raw))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerTimeout
	h.client = &http.Client{Transport: transport, CheckRedirect: h.redirect}
	return h, nil
}

// Close closes idle connections.
func (h *Hub) Close() { h.client.CloseIdleConnections() }

// revision is the branch that is asked for. A pulled path names its commit.
const revision = "main"

var commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Get returns the path of a model's file in the cache, or of its directory of safetensors.
// It downloads what is missing there. If the hub can't be reached, it takes what it finds.
func (h *Hub) Get(ctx context.Context, n Name) (path string, err error) {
	p := &pull{Hub: h, name: n, folder: filepath.Join(h.cache, "models--"+strings.ReplaceAll(n.Repo, "/", "--"))}
	if !h.offline {
		path, err = p.online(ctx)
		if failure := new(temporaryError); !errors.As(err, &failure) {
			return path, err
		}
	}
	path, missing := p.cached()
	switch {
	case h.offline && missing != nil:
		return "", fmt.Errorf("HF_HUB_OFFLINE is set, and the cache %s lacks the model: %w; unset it to download", h.cache, missing)
	case missing != nil:
		return "", err
	case !h.offline:
		h.Log.Warn().Err(err).Str("path", path).Msg("the hub can't be reached; using what the cache has")
	}
	return path, nil
}

// pull is one call of Get.
type pull struct {
	*Hub
	name   Name
	folder string // of the repository in the cache
	commit string
}

// snapshot is the path of a file of the commit, or of its directory for "".
func (p *pull) snapshot(file string) string {
	return filepath.Join(p.folder, "snapshots", p.commit, filepath.FromSlash(file))
}

// online asks the hub for the repository's newest commit and gets the chosen files of it.
func (p *pull) online(ctx context.Context) (string, error) {
	files, err := p.list(ctx)
	if err != nil {
		return "", err
	}
	chosen, target, err := p.name.choose(files)
	if err != nil {
		return "", err
	}
	for _, file := range chosen {
		if err := p.get(ctx, file); err != nil {
			return "", fmt.Errorf("%s of %s: %w", file, p.name.Repo, err)
		}
	}
	// Only now: who reads the cache offline must not find a part of the files.
	if before, _ := os.ReadFile(p.ref()); string(before) != p.commit { // the cache may be read-only
		err = errors.Join(makeDir(filepath.Dir(p.ref())), os.WriteFile(p.ref(), []byte(p.commit), 0o644)) //nolint:gosec // models are not secret
	}
	return p.snapshot(target), err
}

// list returns the names of the repository's files and sets the commit.
func (p *pull) list(ctx context.Context) (files []string, err error) {
	var listed struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	err = p.try(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, listTime)
		defer cancel()
		res, err := p.ask(ctx, http.MethodGet, "/api/models/"+p.name.Repo+"/revision/"+revision, 0)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(io.LimitReader(res.Body, listLimit))
		if err != nil {
			return &temporaryError{err: err}
		}
		if json.Unmarshal(raw, &listed) != nil || !commitName.MatchString(listed.SHA) {
			return fmt.Errorf("%s names no commit; HF_ENDPOINT must be a hub's", p.endpoint.Redacted())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the files of %s can't be listed: %w", p.name.Repo, err)
	}
	p.commit = listed.SHA
	for _, s := range listed.Siblings {
		if !validFile(s.Name) {
			return nil, fmt.Errorf("%s has a file with the name %q, which is not safe", p.name.Repo, s.Name)
		}
		files = append(files, s.Name)
	}
	return files, nil
}

// ref is the file that names the commit of the revision.
func (p *pull) ref() string { return filepath.Join(p.folder, "refs", revision) }

// cached finds the chosen files of the commit that was pulled last.
func (p *pull) cached() (string, error) {
	raw, err := os.ReadFile(p.ref())
	if err != nil {
		return "", err
	}
	if p.commit = strings.TrimSpace(string(raw)); !commitName.MatchString(p.commit) {
		return "", fmt.Errorf("%s holds no commit; remove it", p.ref())
	}
	var files []string
	root := os.DirFS(p.snapshot(""))
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, err := fs.Stat(root, file); err == nil { // else its blob was removed
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	_, target, err := p.name.choose(files)
	return p.snapshot(target), err
}

// temporaryError is a failure after which a further try may succeed.
type temporaryError struct {
	err   error
	after time.Duration // that the hub wants to pass first
	more  bool          // bytes arrived before it that no try had before
	// restart: the host has no bytes from the asked one on.
	restart bool
}

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }

// try calls f until it succeeds, fails for good, or fails maxTries times in a row. The wait
// doubles each time. Random jitter shortens it by up to half.
func (h *Hub) try(ctx context.Context, f func() error) error {
	for failures := 1; ; failures++ {
		err := f()
		failure := new(temporaryError)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &failure):
			return err
		case failure.more:
			failures = 1
		}
		if failures == maxTries || failure.after > longestWait {
			return err
		}
		wait := max(retry.Backoff(failures, firstWait, longestWait, rand.Float64()), failure.after)
		h.Log.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).Msg("the hub failed; trying again after a pause")
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

// refusal is the error of an answer that is not a success, with what to do.
func (p *pull) refusal(res *http.Response) error {
	from, status := res.Request.URL, res.StatusCode
	page := p.endpoint.JoinPath(p.name.Repo).Redacted()
	switch code := res.Header.Get("X-Error-Code"); {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return &temporaryError{err: fmt.Errorf("%s answered %s", from.Host, res.Status), after: retry.After(res.Header, time.Now())}
	case status == http.StatusRequestedRangeNotSatisfiable && res.Request.Header.Get("Range") != "":
		return &temporaryError{err: fmt.Errorf("%s answered %s", from.Host, res.Status), restart: true}
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
