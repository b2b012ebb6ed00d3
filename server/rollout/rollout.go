// Package rollout answers the control routes of vLLM 0.32 that reinforcement-learning trainers call, and those that
// prime-rl and SkyRL add. They do what /v1/pause, /v1/resume and /v1/weights do, with other names and bodies.
package rollout

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"agentd/protocol"
	"agentd/server/openai"
)

// Engine is an engine whose weights can change.
type Engine interface {
	// Current returns the weights that serve. It may wait for the hash of a large file.
	Current(ctx context.Context) (*protocol.Weights, error)
	// SetModel replaces the model, SetAdapter loads an adapter or replaces the one of that name.
	// They return when new requests use the file at path. After an error nothing has changed.
	SetModel(ctx context.Context, path string) error
	SetAdapter(ctx context.Context, name, path string) error
	RemoveAdapter(name string) error
	// PauseAgain pauses; in a pause of the same mode, it waits until nothing runs. Resume ends a pause.
	PauseAgain(ctx context.Context, mode string) error
	Resume()
	// ClearCache frees all cached prefixes. all is false if some stay because requests run.
	ClearCache(ctx context.Context) (all bool, err error)
}

// Call is a request to a Route.
type Call struct {
	Engine
	Running *openai.Running
	Query   url.Values
	Body    []byte // {} if there is none
}

// Route is a path with its handler.
type Route struct {
	Method, Path string
	// Changes: the client needs the right to change the weights.
	Changes bool
	// Names is the member or parameter to which errors of the engine belong; "" for none.
	Names string
	// Answer returns the body of the answer: a value for JSON, or a plain text. The error is an *openai.Error, the
	// engine's, or ctx's.
	Answer func(ctx context.Context, c *Call) (any, error)
}

// Routes lists the routes of the package, without those in [Absent].
var Routes = []Route{
	{http.MethodPost, "/pause", true, "mode", pause},
	{http.MethodPost, "/resume", true, "", resume},
	{http.MethodGet, "/is_paused", false, "", isPaused},
	{http.MethodPost, "/update_weights", true, "weight_dir", updateWeights},
	{http.MethodPost, "/v1/load_lora_adapter", true, "lora_path", loadAdapter},
	{http.MethodPost, "/load_lora_adapter", true, "lora_path", loadAdapterInPlace},
	{http.MethodPost, "/skyrl/v1/load_lora_adapter", true, "lora_path", loadAdapterInPlace},
	{http.MethodPost, "/v1/unload_lora_adapter", true, "lora_name", unloadAdapter},
	{http.MethodPost, "/reset_prefix_cache", true, "", resetCache},
	{http.MethodPost, "/abort_requests", true, "", abort},
	{http.MethodPost, "/inference/v1/abort_requests", true, "", abort},
	{http.MethodGet, "/get_world_size", false, "", always(map[string]int{"world_size": 1})}, // no other process takes part in updates
	{http.MethodGet, "/weight_info", false, "", weightInfo},
	{http.MethodGet, "/server_info", false, "", always(serverInfo)},
	// A session is a hint for routers and has no state here.
	{http.MethodPost, "/finish_session", false, "", always(map[string]string{"status": "ok"})},
}

// Absent has the routes of vLLM that this server refuses, with the reason.
var Absent = map[string]string{
	"/init_weight_transfer_engine": noTransfer,
	"/start_weight_update":         noTransfer,
	"/finish_weight_update":        noTransfer,
	"/sleep":                       noSleep,
	"/wake_up":                     noSleep,
}

const (
	noTransfer = "this server takes no tensors over NCCL: save the weights in its directory of weights, and POST /update_weights {\"weight_dir\": DIRECTORY} or /v1/load_lora_adapter"
	noSleep    = "this server keeps its weights in memory: stop the process to free it, or POST /pause to stop computing"
)

// AdapterName matches the allowed names of adapters, which are never paths.
var AdapterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@/:-]{0,254}$`)

// AdapterForm is the error for other names.
const AdapterForm = "must have 1 to 255 letters, digits, _, ., @, /, : and -, a letter or a digit first"

// Modes of a pause.
var Modes = []string{"abort", "wait", "keep"}

// pause has vLLM's defaults: it aborts requests, and clears the cache unless requests are kept.
func pause(ctx context.Context, c *Call) (any, error) {
	mode := "abort"
	if c.Query.Has("mode") {
		mode = c.Query.Get("mode")
	}
	if !slices.Contains(Modes, mode) {
		return nil, openai.Refuse("mode", "is %q; want abort, wait or keep", mode)
	}
	clears, err := flag(c.Query, "clear_cache", true)
	if err != nil {
		return nil, err
	}
	if err := c.PauseAgain(ctx, mode); err != nil {
		return nil, err
	}
	if clears && mode != "keep" {
		if _, err := c.ClearCache(ctx); err != nil {
			return nil, err
		}
	}
	return map[string]string{"status": "paused"}, nil
}

// flag reads a boolean parameter; otherwise is its default.
func flag(query url.Values, name string, otherwise bool) (bool, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	on, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, openai.Refuse(name, "is %q; want true or false", query.Get(name))
	}
	return on, nil
}

func resume(_ context.Context, c *Call) (any, error) {
	c.Resume()
	return map[string]string{"status": "resumed"}, nil
}

var isPaused = current(func(w *protocol.Weights) any { return map[string]bool{"is_paused": w.Paused != ""} })

// current answers with what of says about the weights that serve.
func current(of func(*protocol.Weights) any) func(context.Context, *Call) (any, error) {
	return func(ctx context.Context, c *Call) (any, error) {
		w, err := c.Current(ctx)
		if err != nil {
			return nil, err
		}
		return of(w), nil
	}
}

// updateWeights accepts prime-rl's body. vLLM's own body is for NCCL.
func updateWeights(ctx context.Context, c *Call) (any, error) {
	var body struct {
		openai.Strict
		Dir       string `json:"weight_dir"`
		SkipReset bool   `json:"skip_prefix_cache_reset"` // prefixes belong to the weights that computed them
		Info      *any   `json:"update_info"`
	}
	switch err := openai.Decode(c.Body, &body); {
	case err != nil:
		return nil, err
	case body.Info != nil:
		return nil, &AbsentError{Param: "update_info", Reason: noTransfer}
	case body.Dir == "":
		return nil, openai.Refuse("weight_dir", "is missing or empty; give a directory of safetensors, or a GGUF file, in the directory of weights")
	}
	if err := c.SetModel(ctx, body.Dir); err != nil {
		return nil, renamed(err, "weight_dir")
	}
	return map[string]string{"status": "ok"}, nil
}

// AbsentError refuses a request that this server does not support. Its status is 501.
type AbsentError struct{ Param, Reason string }

func (e *AbsentError) Error() string { return e.Reason }

// renamed returns an error about a path as an error about a member.
func renamed(err error, member string) error {
	if problems, ok := errors.AsType[protocol.Problems](err); ok {
		return openai.Refuse(member, "%s", problems[0].Msg)
	}
	return err
}

func loadAdapter(ctx context.Context, c *Call) (any, error) {
	name, err := c.load(ctx, false)
	return "Success: LoRA adapter '" + name + "' added successfully.", err
}

// loadAdapterInPlace answers the routes of prime-rl and SkyRL, which replace an adapter of the same name.
func loadAdapterInPlace(ctx context.Context, c *Call) (any, error) {
	_, err := c.load(ctx, true)
	return map[string]string{"status": "ok"}, err
}

func (c *Call) load(ctx context.Context, inPlace bool) (name string, err error) {
	var body struct {
		openai.Strict
		Name    string `json:"lora_name"`
		Path    string `json:"lora_path"`
		InPlace bool   `json:"load_inplace"`
	}
	switch err := openai.Decode(c.Body, &body); {
	case err != nil:
		return "", err
	case !AdapterName.MatchString(body.Name):
		return "", openai.Refuse("lora_name", "%s", AdapterForm)
	case body.Path == "":
		return "", openai.Refuse("lora_path", "is missing or empty; give PEFT's directory, or a GGUF file, in the directory of weights")
	}
	if !inPlace && !body.InPlace {
		w, err := c.Current(ctx)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(w.Adapters, func(a protocol.WeightsFile) bool { return a.Name == body.Name }) {
			return "", openai.Refuse("lora_name", "%q has already been loaded; set load_inplace to true to replace it", body.Name)
		}
	}
	return body.Name, renamed(c.SetAdapter(ctx, body.Name, body.Path), "lora_path")
}

func unloadAdapter(_ context.Context, c *Call) (any, error) {
	var body struct {
		openai.Strict
		Name string `json:"lora_name"`
	}
	switch err := openai.Decode(c.Body, &body); {
	case err != nil:
		return nil, err
	case body.Name == "":
		return nil, openai.Refuse("lora_name", "is missing or empty; name an adapter")
	}
	return "Success: LoRA adapter '" + body.Name + "' removed successfully.", c.RemoveAdapter(body.Name)
}

// resetCache reads its parameters from the query, as vLLM, or from a body, as SkyRL sends it.
func resetCache(ctx context.Context, c *Call) (any, error) {
	var body struct {
		openai.Strict
		Running bool `json:"reset_running_requests"`
	}
	if err := openai.Decode(c.Body, &body); err != nil {
		return nil, err
	}
	running, err := flag(c.Query, "reset_running_requests", body.Running)
	switch {
	case err != nil:
		return nil, err
	case running:
		return nil, openai.Refuse("reset_running_requests", "is not supported; POST /pause?mode=keep first, then nothing runs")
	}
	all, err := c.ClearCache(ctx)
	return map[string]bool{"success": all}, err
}

func abort(_ context.Context, c *Call) (any, error) {
	var body struct {
		openai.Strict
		IDs []string `json:"request_ids"`
	}
	if err := openai.Decode(c.Body, &body); err != nil {
		return nil, err
	}
	return map[string]any{"status": "aborted", "aborted": c.Running.Abort(body.IDs)}, nil
}

// always answers with the same value.
func always(answer any) func(context.Context, *Call) (any, error) {
	return func(context.Context, *Call) (any, error) { return answer, nil }
}

var weightInfo = current(func(w *protocol.Weights) any { return map[string]string{"weight_version": w.Model.Version} })

// serverInfo has the members of vLLM's configuration that trainers read: logprobs before temperature and
// truncation, one replica, no transfer of tensors. Rank and number of adapters are limited by memory only.
var serverInfo = map[string]any{"vllm_config": map[string]any{
	"model_config":           map[string]any{"logprobs_mode": "raw_logprobs"},
	"lora_config":            map[string]any{"max_lora_rank": math.MaxInt32, "max_loras": math.MaxInt32},
	"parallel_config":        map[string]any{"data_parallel_size": 1},
	"weight_transfer_config": nil,
}}
