package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/unicode/norm"

	"agentd/scheduler/generation"
)

// joined is the result of an engine's attempt to join.
type joined struct {
	r   *replica
	err error
}

// errNotAsked is the reason of the state unasked.
var errNotAsked = errors.New("not asked yet")

// Start asks all engines until one gets work: it must answer, with a known API and the Model's
// vocabulary. It waits a short time for the others, which may also join later. The error is that of an
// engine that does not fit, such as a [*MismatchError], ctx's, or generation.ErrClosed.
func (e *Engine) Start(ctx context.Context) error {
	defer close(e.started)
	waiting := map[*replica]bool{}
	for _, r := range e.replicas {
		waiting[r] = true
		e.group.Go(func() { e.watch(r) })
	}
	var enough <-chan time.Time // once one gets work
	for len(waiting) > 0 || enough == nil {
		select {
		case j := <-e.joined:
			delete(waiting, j.r)
			switch {
			case j.err == nil && enough == nil:
				enough = time.After(e.limits.others)
			case j.err != nil && !temporary(j.err):
				return fmt.Errorf("engine %s: %w", j.r.url, j.err)
			}
		case <-enough:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.base.Done():
			return generation.ErrClosed
		}
	}
	return nil
}

// temporary reports whether a later try may succeed.
func temporary(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status >= http.StatusInternalServerError || status.Status == http.StatusRequestTimeout
	}
	return errors.As(err, new(*errUnreachable)) || errors.As(err, new(*generation.BusyError))
}

// withAdvice adds what to change to the error of an engine that refuses to describe itself.
func (e *Engine) withAdvice(err error) error {
	var status *StatusError
	switch {
	case refusesKey(err) && e.key == "":
		return fmt.Errorf("%w; it wants a key: name the file that holds it as engine_key_file", err)
	case refusesKey(err):
		return fmt.Errorf("%w; it refused the key in the file of engine_key_file", err)
	case errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status/100 == 3):
		return fmt.Errorf("%w; name the engine's own address as engine, such as http://127.0.0.1:8000, without the path of an API (an agentd serves them unless it has completions: false)", err)
	}
	return err
}

// describe asks an engine for its API and its model. All engines must have the same API, since the agent depends on it.
func (e *Engine) describe(ctx context.Context, r *replica) (id identity, err error) {
	id.api = e.cfg.API
	if id.api == APIAuto {
		if id.api, id.agentd, err = e.detect(ctx, r); err != nil {
			return id, err
		}
	}
	e.mu.Lock()
	if e.name == "" {
		e.name = id.api
	}
	name := e.name
	e.mu.Unlock()
	if id.api != name {
		return id, fmt.Errorf("it has the API %s, but the engines are used by that of %s; start agentd again to change it", id.api, name)
	}
	switch id.api {
	case APILlamaServer:
		var props struct {
			Slots    int `json:"total_slots"`
			Settings struct {
				Context int `json:"n_ctx"` // of a slot
			} `json:"default_generation_settings"`
		}
		if err := e.readJSON(ctx, r, "/props", nil, &props); err != nil {
			return id, err
		}
		id.slots, id.context = max(props.Slots, 0), max(props.Settings.Context, 0)
	case APISGLang:
		var status *StatusError // 405 of SGLang
		if err := e.readJSON(ctx, r, "/generate", nil, new(any)); errors.As(err, &status) && status.Status == http.StatusNotFound {
			return id, errors.New("it has no /generate, so it is not SGLang; name its own API as engine_api, or auto")
		}
		if id.seeded, err = e.seeded(ctx, r); err != nil {
			return id, err
		}
	}
	models, err := e.models(ctx, r)
	if err != nil {
		return id, err
	}
	var names []string
	for _, m := range models {
		if e.cfg.Model == "" || m.ID == e.cfg.Model {
			id.served, id.lora, id.context = m.ID, m.Parent != "", max(id.context, m.Context)
			return id, nil
		}
		names = append(names, m.ID)
	}
	return id, fmt.Errorf("/v1/models lists %q and not the model %q of engine_model", names, e.cfg.Model)
}

// seeded asks SGLang whether it samples by the seeds of requests.
func (e *Engine) seeded(ctx context.Context, r *replica) (bool, error) {
	var info struct {
		Deterministic bool `json:"enable_deterministic_inference"`
	}
	var status *StatusError
	for _, path := range []string{"/server_info", "/get_server_info"} { // the second of older ones
		err := e.readJSON(ctx, r, path, nil, &info)
		if !errors.As(err, &status) {
			return info.Deterministic, err
		}
	}
	e.log.Warn().Str("engine", r.url).Msg("engine has no /server_info; if it draws by seeds, the candidates of an input are equal")
	return false, nil
}

// detect distinguishes APIs by paths that only one of them has. An agentd has the API of vLLM.
func (e *Engine) detect(ctx context.Context, r *replica) (api string, agentd bool, err error) {
	for _, known := range []struct{ path, member, api string }{
		{"/version", "version", APIVLLM},
		{"/props", "total_slots", APILlamaServer},
		{"/model_info", "model_path", APISGLang},
		{"/get_model_info", "model_path", APISGLang}, // of older ones
		{"/v1/info", "agent_id", APIVLLM},
	} {
		var answer map[string]json.RawMessage
		err := e.readJSON(ctx, r, known.path, nil, &answer)
		if err != nil && temporary(err) || refusesKey(err) {
			return "", false, err
		}
		if err == nil && answer[known.member] != nil {
			return known.api, known.path == "/v1/info", nil
		}
	}
	return "", false, fmt.Errorf("no known API; name one of %s as engine_api, and the engine's own address as engine, such as http://127.0.0.1:8000", strings.Join(APIs[1:], ", "))
}

// readJSON reads the answer to a GET, or with a question, to a POST of it.
func (e *Engine) readJSON(ctx context.Context, r *replica, path string, question, into any) (err error) {
	s := sent{client: e.client, method: http.MethodGet, path: path}
	if question != nil {
		s.method = http.MethodPost
		s.body, err = json.Marshal(question)
	}
	var text []byte
	if err == nil {
		text, err = e.small(ctx, r, s, e.limits.describe)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// MismatchError reports that an engine tokenizes a text differently from the Model.
type MismatchError struct {
	Served, Model string             // names of the engine's model and of ours
	Text          string             // the text
	Ours, Theirs  []generation.Token // its tokens
}

func (e *MismatchError) Error() string {
	at := 0
	for at < len(e.Ours) && at < len(e.Theirs) && e.Ours[at] == e.Theirs[at] {
		at++
	}
	token := func(ids []generation.Token) string {
		if at == len(ids) {
			return "missing"
		}
		return fmt.Sprint(ids[at])
	}
	return fmt.Sprintf("its model %s has another vocabulary than %s, which agentd uses: token %d of %q is %s, and here %s", e.Served, e.Model, at+1, e.Text, token(e.Theirs), token(e.Ours))
}

// verify compares the tokens of probeStrings strings and the texts of all tokens; later times, the tokens of
// probeStringsAgain strings only.
func (e *Engine) verify(ctx context.Context, r *replica, id identity) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.verify, &silence{e.limits.verify})
	defer cancel()
	texts := probeStrings
	if r.compared {
		texts = probeStringsAgain
	}
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(probeCalls)
	for _, text := range Probes(texts) {
		group.Go(func() error { return e.compare(one, r, id, text) })
	}
	err := group.Wait()
	if err == nil && !r.compared {
		err = e.compareTokens(ctx, r, id)
	}
	if ctx.Err() != nil {
		return &errUnreachable{fmt.Errorf("the comparison of vocabularies: %w", context.Cause(ctx))}
	}
	r.compared = r.compared || err == nil
	return err
}

func (e *Engine) compare(ctx context.Context, r *replica, id identity, text string) error {
	ours, err := e.model.Tokenize(text)
	if err != nil {
		return err
	}
	// Engines get token ids, so they need not normalize: they tokenize the normalized text here.
	if normal := norm.NFC.String(text); normal != text && e.model.Detokenize(ours) == normal {
		text = normal
	}
	// A plain text, without a BOS token.
	question := map[string]any{"model": id.served, "prompt": text, "add_special_tokens": false}
	if id.api == APILlamaServer {
		question = map[string]any{"content": text, "add_special": false, "parse_special": false}
	}
	var theirs struct {
		Tokens []generation.Token `json:"tokens"`
	}
	if err := e.readJSON(ctx, r, "/tokenize", question, &theirs); err != nil {
		return err
	}
	if !slices.Equal(ours, theirs.Tokens) {
		return &MismatchError{id.served, e.model.Name(), text, ours, theirs.Tokens}
	}
	return nil
}

// Probes returns n texts whose tokens distinguish vocabularies and pre-tokenizers: words, code,
// JSON, numbers, white space, and letters of several scripts.
func Probes(n int) []string {
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
		for range 1 + random.IntN(probeParts) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		list[i] = b.String()
	}
	return list
}
