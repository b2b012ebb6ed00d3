package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/scheduler/generation"
)

// Start waits until an engine answers, asks which API it has, and compares its vocabulary
// with the Model's. It returns a [*MismatchError] where they differ.
func (e *Engine) Start(ctx context.Context) error {
	ctx, cancel := e.within(ctx)
	defer cancel()
	first, err := e.first(ctx)
	if err != nil {
		return err
	}
	if err := e.describe(ctx, first); err != nil {
		return fmt.Errorf("engine %s: %w", first.url, err)
	}
	for _, r := range e.replicas {
		err := e.verify(ctx, r)
		var unreachable *errUnreachable
		var busy *generation.BusyError
		switch {
		case errors.As(err, &unreachable), errors.As(err, &busy):
			e.lost(r, err)
		case err != nil:
			return fmt.Errorf("engine %s: %w", r.url, err)
		}
	}
	e.listAdapters()
	return nil
}

// first returns the first engine that is ready, once there is one.
func (e *Engine) first(ctx context.Context) (*replica, error) {
	wait, told := minBackoff, false
	for {
		var last error
		for _, r := range e.replicas {
			if _, last = e.get(ctx, r, "/health"); last == nil {
				return r, nil
			}
		}
		if !told {
			e.log.Info().Err(last).Msg("waiting for an engine")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, maxBackoff)
	}
}

// describe finds out which API an engine has and what it serves.
func (e *Engine) describe(ctx context.Context, r *replica) error {
	e.name = e.cfg.API
	if e.name == APIAuto {
		name, err := e.detect(ctx, r)
		if err != nil {
			return err
		}
		e.name = name
	}
	e.api = dialectOf(e.name)
	if e.name == APILlamaServer {
		var props struct {
			Slots    int `json:"total_slots"`
			Settings struct {
				Context int `json:"n_ctx"` // of a slot
			} `json:"default_generation_settings"`
		}
		if err := e.getJSON(ctx, r, "/props", &props); err != nil {
			return err
		}
		e.width, e.context = props.Slots, props.Settings.Context
	}
	if e.name == APISGLang {
		seeded, err := e.seeded(ctx, r)
		if err != nil {
			return err
		}
		e.api = sglang{seeded}
	}
	models, err := e.models(ctx, r)
	if err != nil {
		return err
	}
	for _, m := range models {
		if e.cfg.Model == "" || m.ID == e.cfg.Model {
			e.served = m.ID
			e.context = max(e.context, m.Context)
			return nil
		}
	}
	return fmt.Errorf("/v1/models does not list the model %q", e.cfg.Model)
}

// seeded asks SGLang whether it draws by the seeds of requests.
func (e *Engine) seeded(ctx context.Context, r *replica) (bool, error) {
	var info struct {
		Deterministic bool `json:"enable_deterministic_inference"`
	}
	var status *StatusError
	for _, path := range []string{"/server_info", "/get_server_info"} { // the second of older ones
		err := e.getJSON(ctx, r, path, &info)
		if !errors.As(err, &status) {
			return info.Deterministic, err
		}
	}
	e.log.Warn().Str("engine", r.url).Msg("engine has no /server_info; if it draws by seeds, the candidates of an input are equal")
	return false, nil
}

// detect tells APIs apart by paths that only one of them has.
func (e *Engine) detect(ctx context.Context, r *replica) (string, error) {
	for _, known := range []struct{ path, member, api string }{
		{"/version", "version", APIVLLM},
		{"/props", "total_slots", APILlamaServer},
		{"/model_info", "model_path", APISGLang},
		{"/get_model_info", "model_path", APISGLang}, // of older ones
		{"/v1/info", "agent_id", APIVLLM},
	} {
		var answer map[string]json.RawMessage
		err := e.getJSON(ctx, r, known.path, &answer)
		if unreachable := (*errUnreachable)(nil); errors.As(err, &unreachable) {
			return "", err
		}
		if err == nil && answer[known.member] != nil {
			e.agentd = known.path == "/v1/info"
			return known.api, nil
		}
	}
	return "", fmt.Errorf("no known API; name one of %s", strings.Join(APIs[1:], ", "))
}

func (e *Engine) getJSON(ctx context.Context, r *replica, path string, into any) error {
	text, err := e.get(ctx, r, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// MismatchError says that an engine tokenizes a text otherwise than the Model.
type MismatchError struct {
	Text         string
	Ours, Theirs []generation.Token
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the engine tokenizes %q as %v and agentd as %v: they must have the same vocabulary", e.Text, e.Theirs, e.Ours)
}

// verify compares the tokens of probe strings.
func (e *Engine) verify(ctx context.Context, r *replica) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(probeCalls)
	for _, text := range probes(probeStrings) {
		group.Go(func() error { return e.compare(ctx, r, text) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.verified = true
	return nil
}

func (e *Engine) compare(ctx context.Context, r *replica, text string) error {
	ours, err := e.model.Tokenize(text)
	if err != nil {
		return err
	}
	body, err := e.api.tokenizeBody(e.served, text)
	if err != nil {
		return err
	}
	answer, err := e.exchange(ctx, r, "POST", e.api.tokenizePath(), body, bytesOfAnswer, "")
	if err != nil {
		return err
	}
	theirs, err := e.api.tokens(answer)
	if err != nil {
		return err
	}
	if !slices.Equal(ours, theirs) {
		return &MismatchError{text, ours, theirs}
	}
	return nil
}

// probes are texts whose tokens tell vocabularies and pre-tokenizers apart: words, code,
// JSON, numbers, white space, and letters of several scripts.
func probes(n int) []string {
	parts := []string{
		"the", " robot", "Robot", " picks", " up", "'s", "'ll", "don't", " kitchen", "ROVER", "_", "go_to", "camelCase",
		" ", "  ", "\n", "\n\n", "\t", " \n", "\r\n", ".", ",", "...", "!?", " - ", "/", "\\", "//", "#", "@", "$", "%", "^", "&", "*",
		"{\"name\": \"", "\", \"arguments\": {", "}}", "[1, 2]", "null", "true", ": ", "\"", "0", "7", "42", "1234567890", "3.14", "-1e9",
		"é", "über", " naïve", "ß", "ñ", "Ж", "привет", "你好", "机器人", "日本語", "한국어", "مرحبا", "हिन्दी", "ไทย", "🙂", "👩‍🚀", "e\u0301", "\u00a0", "\u200b", "½", "Ⅷ",
		"for (int i = 0; i < n; i++) {", "def f(x):\n    return x", "<b>", "http", "://", "(a|b)*", "~", "`",
	}
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]string, n)
	for i := range list {
		var b strings.Builder
		for range 1 + random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		list[i] = b.String()
	}
	return list
}
