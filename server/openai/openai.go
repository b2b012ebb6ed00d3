// Package openai decodes and encodes bodies of OpenAI's completions and chat, with vLLM's
// fields for token ids and grammars. Unknown and unsupported fields are errors.
package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Model generates the texts of one request.
type Model interface {
	// Served returns the name and the limits of the model.
	Served() generation.Served
	// Tokenize returns the ids of a text. With special it adds BOS, and texts of special tokens become these tokens.
	Tokenize(text string, special bool) ([]generation.Token, error)
	// Detokenize returns the text of ids, with special tokens.
	Detokenize(ids []generation.Token) string
	// Piece returns the bytes of a token, which may be a part of a character.
	Piece(id generation.Token) []byte
	// GenerateAll completes prompts together. It calls admitted, if not nil, once they are queued. It returns a
	// result for each, or the first error.
	GenerateAll(ctx context.Context, requests []generation.Request, admitted func()) ([]*generation.Result, error)
	// Chat makes the request of a conversation, without N, seeds and sampling, and the reader of its answers.
	// The error is a *format.UnusableError, a *format.TemplateError, a *generation.OverflowError, or ctx's.
	Chat(ctx context.Context, c *format.Chat) (*generation.Request, format.Reader, error)
	// Adapter returns the LoRA adapter of that name, which a request may use as its model.
	Adapter(name string) (generation.AdapterID, bool)
	// Adapters returns the names of all adapters, sorted.
	Adapters() []string
}

// Provider returns the current Model, whose weights may change.
type Provider interface {
	// OpenAI returns the Model for one request. It stays open until release is called.
	OpenAI() (m Model, release func())
}

// Error refuses a request, or an answer of the model. Param is the path of the field.
type Error struct {
	Param, Message string
	Answer         bool // Param is a field of the answer
}

func (e *Error) Error() string { return e.Param + ": " + e.Message }

// Refuse returns an *Error about the field param.
func Refuse(param, format string, args ...any) error {
	return &Error{Param: param, Message: fmt.Sprintf(format, args...)}
}

// AppendError returns the body of an error in OpenAI's form. Status 422 means that the model's answer is invalid.
func AppendError(status int, message, param string) []byte {
	reason := map[string]any{"message": message, "type": "server_error", "param": nil, "code": strconv.Itoa(status)}
	if status < 500 && status != http.StatusUnprocessableEntity {
		reason["type"] = "invalid_request_error"
	}
	if param != "" {
		reason["param"] = param
	}
	body, err := Marshal(map[string]any{"error": reason})
	if err != nil {
		panic(err) // texts
	}
	return body
}

// Strict refuses unknown members of the struct that embeds it, unless they are null or neutral.
type Strict struct {
	Others map[string]absent `json:",embed"`
}

// absent is the value of an unknown member.
type absent struct{}

// neutral has, by value, the members of requests to vLLM that have no effect with that value.
var neutral = map[string][]string{
	"false": {"add_special_tokens", "continue_final_message", "echo", "include_stop_str_in_output",
		"is_3d_lora_weight", "return_token_offsets", "skip_reading_prefix_cache", "use_beam_search"},
	"true": {"add_generation_prompt", "include_reasoning"},
	"0":    {"frequency_penalty", "presence_penalty", "routed_experts_prompt_start"},
	"1":    {"best_of", "length_penalty", "repetition_penalty"},
	"[]":   {"bad_words"},
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (*absent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	at := d.StackPointer()
	value, err := d.ReadValue()
	top := strings.TrimPrefix(strings.TrimPrefix(string(at), "/sampling_params"), "/")
	switch list, name := at.Parent().Parent(), at.LastToken(); {
	case err != nil || value.Kind() == 'n' || slices.Contains(neutral[strings.TrimSuffix(string(value), ".0")], top):
		return err
	case list == "/tools" && slices.Contains([]string{"name", "description", "parameters", "strict", "custom"}, name):
		return errors.New("is not supported; put what describes a function under function")
	case list.LastToken() == "content":
		return errors.New("is not supported, since only text can be read; remove the part")
	}
	return errors.New("is not supported; remove it")
}

var wholeNumbers = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(integer[int]), json.UnmarshalFunc(integer[int64])))

func integer[T int | int64](text []byte, to *T) error {
	if f, err := strconv.ParseFloat(string(text), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		*to = T(f)
		return nil
	}
	return json.Unmarshal(text, to)
}

// Decode decodes a body as strictly as package protocol, but for members that are null, which count as absent, and for
// whole numbers such as 5.0. The error is an *Error.
func Decode(body []byte, into any) error {
	if problems, ok := errors.AsType[protocol.Problems](protocol.Unmarshal(body, into, wholeNumbers)); ok {
		param, ok := strings.CutPrefix(problems[0].Path(), "body.")
		if !ok { // the place is a byte
			param = "body"
		}
		return Refuse(param, "%s", problems[0].Msg)
	}
	return nil
}

func read(d *jsontext.Decoder, into any) error { return json.UnmarshalDecode(d, into) }

// Marshal writes a body.
func Marshal(v any, options ...json.Options) ([]byte, error) {
	return json.Marshal(v, append(options, json.Deterministic(true))...)
}

// common has the fields of completions and chats.
type common struct {
	Strict
	sampling
	whole
	NamedTokens bool `json:"return_tokens_as_token_ids"` // in logprobs

	// These concern OpenAI's service, or the speed of an answer. They change nothing here.
	User           string         `json:"user"`
	Store          bool           `json:"store"`
	Metadata       jsontext.Value `json:"metadata"`
	ServiceTier    string         `json:"service_tier"`
	SafetyID       string         `json:"safety_identifier"`
	CacheKey       string         `json:"prompt_cache_key"`
	CacheRetention string         `json:"prompt_cache_retention"`
	CacheOptions   jsontext.Value `json:"prompt_cache_options"`
	Verbosity      string         `json:"verbosity"`
	Prediction     jsontext.Value `json:"prediction"`
}

// sampling has the fields about the choice of tokens.
type sampling struct {
	N            *int               `json:"n"`
	Seed         *int64             `json:"seed"`
	MaxTokens    *int               `json:"max_tokens"`
	Temperature  *float32           `json:"temperature"`
	TopP         *float32           `json:"top_p"`
	TopK         *int               `json:"top_k"`
	MinP         *float32           `json:"min_p"`
	Stop         list               `json:"stop"`
	StopTokenIDs []generation.Token `json:"stop_token_ids"`
	LogitBias    map[string]float64 `json:"logit_bias"`
	IgnoreEOS    bool               `json:"ignore_eos"`
	MinTokens    int                `json:"min_tokens"`
	SkipSpecial  *bool              `json:"skip_special_tokens"` // text never has special tokens; token ids always do

	// Ignored: texts never have special tokens.
	Spaces *bool `json:"spaces_between_special_tokens"`
}

// whole has the fields about a request as a whole.
type whole struct {
	Model         string `json:"model"`
	RequestID     string `json:"request_id"` // see Running
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		Strict
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
		Obfuscation  bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	ReturnIDs bool    `json:"return_token_ids"`
	Priority  int64   `json:"priority"` // a lower one is first, as in vLLM
	CacheSalt *string `json:"cache_salt"`
}

// Bounds of requests.
const (
	maxN     = 256 // choices, like protocol.MaxNumOutputs
	maxStops = 32
	maxStop  = 256 // bytes
	maxBias  = 4096
	maxNamed = 20 // models in a message
	maxTop   = 20 // alternatives of a token, as vLLM's default
	// Alternatives of all tokens of an answer together, with the tokens themselves.
	maxTops = 1 << 20
	// MaxSalt is the limit of a cache_salt in bytes.
	MaxSalt = 128
	// MaxPriority is the limit of a priority, and its negative too, as in extra_keys.
	MaxPriority = 100
	maxID       = 256 // bytes of a request_id
)

// Choose returns the adapter that a request names as its model, and sets s to its name for the answer. Without
// adapters, and if none can be loaded, every name means the model.
func Choose(m Model, s *generation.Served, name string) (id generation.AdapterID, err error) {
	if name == "" || name == s.Name {
		return 0, nil
	}
	if id, ok := m.Adapter(name); ok {
		s.Name = name
		return id, nil
	}
	known, more := append([]string{s.Name}, m.Adapters()...), ""
	switch n := len(known); {
	case n == 1 && !s.Adapts:
		return 0, nil
	case n > maxNamed:
		known, more = known[:maxNamed], ", ..."
	}
	return 0, Refuse("model", "%q is not served here; the models are %s%s", name, strings.Join(known, ", "), more)
}

// params returns p with the fields that all requests have in common. p has the defaults.
func (c *sampling) params(m Model, s *generation.Served, w *whole, p generation.Params) (_ generation.Params, err error) {
	set(&p.N, c.N)
	set(&p.MaxTokens, c.MaxTokens)
	set(&p.Temperature, c.Temperature)
	set(&p.TopP, c.TopP)
	set(&p.TopK, c.TopK)
	set(&p.MinP, c.MinP)
	switch {
	case p.N < 1 || p.N > min(maxN, s.Places):
		return p, Refuse("n", "is %d, want 1 to %d (queue_limit: %d)", p.N, min(maxN, s.Places), s.Places)
	case p.MaxTokens < 1:
		return p, Refuse("max_tokens", "is %d, must be at least 1", p.MaxTokens)
	case c.MinTokens < 0 || c.MinTokens > p.MaxTokens:
		return p, Refuse("min_tokens", "is %d, want 0 to max_tokens, which is %d", c.MinTokens, p.MaxTokens)
	case p.Temperature < 0 || p.Temperature > 10:
		return p, Refuse("temperature", "is %g, want 0 to 10", p.Temperature)
	case p.TopP <= 0 || p.TopP > 1:
		return p, Refuse("top_p", "is %g, must be above 0 and at most 1", p.TopP)
	case p.TopK < -1:
		return p, Refuse("top_k", "is %d, want -1 or 0 for all tokens, or a number of them", p.TopK)
	case p.MinP < 0 || p.MinP > 1:
		return p, Refuse("min_p", "is %g, want 0 to 1", p.MinP)
	case w.StreamOptions != nil && !w.Stream:
		return p, Refuse("stream_options", "is for stream: true")
	case w.StreamOptions != nil && w.StreamOptions.Obfuscation:
		return p, Refuse("stream_options.include_obfuscation", "is not supported; remove it")
	case w.Priority < -MaxPriority || w.Priority > MaxPriority:
		return p, Refuse("priority", "is %d, want -%d to %d; a lower one comes first", w.Priority, MaxPriority, MaxPriority)
	case w.CacheSalt != nil && (*w.CacheSalt == "" || len(*w.CacheSalt) > MaxSalt):
		return p, Refuse("cache_salt", "has %d bytes, want 1 to %d", len(*w.CacheSalt), MaxSalt)
	case len(w.RequestID) > maxID:
		return p, Refuse("request_id", "has %d bytes, at most %d are allowed", len(w.RequestID), maxID)
	case len(c.Stop) > maxStops:
		return p, Refuse("stop", "has %d texts, at most %d are allowed", len(c.Stop), maxStops)
	}
	for _, s := range c.Stop {
		if s == "" || len(s) > maxStop {
			return p, Refuse("stop", "has a text of %d bytes, want 1 to %d", len(s), maxStop)
		}
	}
	if len(c.Stop) > 0 {
		p.Stop = &generation.Stop{Texts: c.Stop}
	}
	p.Priority = int(-w.Priority)
	p.Least, p.IgnoreEnd = c.MinTokens, c.IgnoreEOS || c.MinTokens == p.MaxTokens
	set(&p.Salt, w.CacheSalt)
	if p.Adapter, err = Choose(m, s, w.Model); err != nil {
		return p, err
	}
	if p.Suppress, err = suppressed(c.LogitBias, s); err != nil {
		return p, err
	}
	seed := rand.Uint32() >> 1
	if c.Seed != nil {
		seed = uint32(*c.Seed) // any number is a seed
	}
	p.Seeds = make([]uint32, p.N)
	for i := range p.Seeds {
		p.Seeds[i] = seed + uint32(i) // it wraps around
	}
	return p, nil
}

// params returns the settings of the server with the fields of a request.
func (c *common) params(m Model, s *generation.Served) (generation.Params, error) {
	p := generation.Params{N: 1, MaxTokens: s.Longest, Sampling: s.Sampling}
	if c.SkipSpecial != nil && !*c.SkipSpecial && !c.ReturnIDs {
		return p, Refuse("skip_special_tokens", "is false, but text never has special tokens; remove it, or ask for return_token_ids")
	}
	return c.sampling.params(m, s, &c.whole, p)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// list is a list of texts; in JSON also one text.
type list []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *list) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '[' {
		return read(d, (*[]string)(l))
	}
	var one *string
	err := read(d, &one)
	if one != nil {
		*l = list{*one}
	}
	return err
}

// fits refuses a prompt that leaves too few tokens for max_tokens. If the request does not set that, p gets what the
// prompt leaves. field is the name of max_tokens, what the name of the prompt, for the error.
func (c *sampling) fits(p *generation.Params, field, what string, prompt int, s *generation.Served) error {
	if c.MaxTokens == nil {
		p.MaxTokens = min(p.MaxTokens, s.Window-prompt)
	} else if prompt+*c.MaxTokens > s.Window {
		return Refuse(field, "is %d, and %s has %d tokens; the model's context of %d leaves %d", *c.MaxTokens, what, prompt, s.Window, s.Window-prompt)
	}
	return nil
}

// cut cuts a text before the first stop text. why is then stop, otherwise reason.
func (l list) cut(text, reason string) (before, why, stop string) {
	at := len(text)
	for _, s := range l {
		if i := strings.Index(text, s); i >= 0 && i < at {
			at, reason, stop = i, "stop", s
		}
	}
	return text[:at], reason, stop
}

// suppressed returns the tokens that logit_bias excludes. Other values are errors.
func suppressed(bias map[string]float64, s *generation.Served) (ids []generation.Token, err error) {
	if len(bias) > maxBias {
		return nil, Refuse("logit_bias", "has %d tokens, at most %d are allowed", len(bias), maxBias)
	}
	for text, value := range bias {
		id, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil || id < 0 || int(id) >= s.Size:
			return nil, Refuse("logit_bias", "%q is not a token; the vocabulary has %d", text, s.Size)
		case value > -100:
			return nil, Refuse("logit_bias."+text, "is %g; only -100, which excludes the token, is supported", value)
		}
		ids = append(ids, generation.Token(id))
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == s.Size {
		return nil, Refuse("logit_bias", "excludes all %d tokens of the vocabulary; leave some", s.Size)
	}
	return ids, nil
}

// answer is the body of an answer, or of an event of a stream.
type answer[C any] struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []C    `json:"choices"`
	Usage   *usage `json:"usage,omitzero"`
	// PromptIDs is set in chats with return_token_ids.
	PromptIDs []generation.Token `json:"prompt_token_ids,omitempty"`
}

type usage struct {
	Prompt     int           `json:"prompt_tokens"`
	Completion int           `json:"completion_tokens"`
	Total      int           `json:"total_tokens"`
	Details    *usageDetails `json:"prompt_tokens_details,omitzero"` // at the end
}

type usageDetails struct {
	Cached int `json:"cached_tokens"`
}

func usageOf(results ...*generation.Result) *usage {
	u := &usage{Details: &usageDetails{}}
	for _, r := range results {
		u.Prompt, u.Details.Cached = u.Prompt+r.PromptTokens, u.Details.Cached+r.CachedTokens
		for i := range r.Completions {
			u.Completion += len(r.Completions[i].All())
		}
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// finish returns OpenAI's reason why a completion ended.
func finish(f generation.Finish) string {
	switch f {
	case generation.FinishLength:
		return "length"
	case generation.FinishPaused:
		return "abort"
	}
	return "stop"
}
