package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

const (
	otherwiseGGUF = "give a GGUF file of the model instead"
	noSubwords    = "only byte-level BPE is known; give a GGUF file of the model instead"
)

// Members of tokenizer.json and of its components.
var (
	tokenizerMembers = join(
		use("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model", "decoder"),
		ignore("the library's callers set it for each text", "truncation", "padding"),
		ignore("the version of the format", "version"))
	modelMembers = join(
		use("vocab", "merges", "ignore_merges"),
		only(`"BPE"`, noSubwords, "type"), only("false", noSubwords, "byte_fallback"), only("0", "tokens are not drawn", "dropout"),
		only(`""`, otherwiseGGUF, "continuing_subword_prefix", "end_of_word_suffix"),
		ignore("each byte is a token", "unk_token", "fuse_unk"))
	addedMembers = join(
		use("id", "content", "special"),
		only("false", "texts around the token would change; "+otherwiseGGUF, "single_word", "lstrip", "rstrip"),
		ignore("it matters only before a combining mark", "normalized"))
	splitMembers = join(use("type", "pattern"), only(`"Isolated"`, otherwiseGGUF, "behavior"), only("false", otherwiseGGUF, "invert"))
	// ByteLevel as a pre-tokenizer; byteLevelAfter: as a post-processor or decoder.
	byteLevel      = join(use("type", "use_regex"), only("false", otherwiseGGUF, "add_prefix_space"), ignore("texts have no offsets", "trim_offsets"))
	byteLevelAfter = join(use("type"), ignore("texts have no offsets", "add_prefix_space", "trim_offsets", "use_regex"))
	digitMembers   = join(use("type"), only("true", otherwiseGGUF, "individual_digits"))
	templating     = join(use("type", "single", "special_tokens"), ignore("texts come alone", "pair"))
)

// tokenizerConfigMembers are the members of tokenizer_config.json, except those named ..._token.
var tokenizerConfigMembers = join(
	use("bos_token", "eos_token", "chat_template", "add_bos_token"),
	only("false", otherwiseGGUF, "add_eos_token", "add_prefix_space", "split_special_tokens", "do_lower_case", "use_default_system_prompt"),
	only("", "the checkpoint has code of its own; "+otherwiseGGUF, "auto_map"),
	ignore("tokenizer.json says it", "tokenizer_class", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens",
		"backend", "sp_model_kwargs", "legacy", "from_slow", "tokenizer_file", "fix_mistral_regex", "processor_class", "image_processor_type"),
	ignore("answers are texts of tokens as they are", "clean_up_tokenization_spaces", "spaces_between_special_tokens", "errors", "response_schema"),
	ignore("the library's callers set it for each text", "model_max_length", "max_length", "truncation", "truncation_side", "truncation_strategy",
		"stride", "padding", "padding_side", "pad_to_multiple_of", "pad_token_type_id", "model_input_names", "return_token_type_ids"),
	ignore("a note of who wrote the file", "name_or_path", "special_tokens_map_file", "transformers_version", "is_local", "local_files_only",
		"unsloth_fixed", "chat_template_jinja", "device_map"),
)

// tokenizerConfig has the members of tokenizer_config.json that are used.
type tokenizerConfig struct {
	BOS      json.RawMessage   `json:"bos_token"`
	EOS      json.RawMessage   `json:"eos_token"`
	Template json.RawMessage   `json:"chat_template"`
	AddBOS   *bool             `json:"add_bos_token"`
	names    map[string]string // texts of tokens, with the member that names them
}

// readTokenizerConfig reads tokenizer_config.json. Without that file the result is empty. Errors do not name the file.
func readTokenizerConfig(dir string) (*tokenizerConfig, error) {
	c := &tokenizerConfig{names: map[string]string{}}
	text, err := readFile(dir, vocabularyConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	var all jsonObject
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	known := tokenizerConfigMembers
	for name, value := range all {
		if strings.HasSuffix(name, "_token") && name != "add_bos_token" && name != "add_eos_token" {
			c.names[tokenText(value)] = name
			if _, listed := known[name]; !listed {
				known = join(known, ignore("", name))
			}
		}
	}
	for _, member := range []string{"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"} {
		for _, text := range tokenTexts(all[member]) {
			c.names[text] = member
		}
	}
	delete(c.names, "") // null
	return c, known.read(text, nil, c)
}

// agrees refuses members that contradict tokenizer.json, and tokens that only this file has: the library would add
// them.
func (c *tokenizerConfig) agrees(t *tokenizer, bos *int) error {
	if c.AddBOS != nil && *c.AddBOS != (bos != nil) {
		return fmt.Errorf("add_bos_token is %t, and post_processor of tokenizer.json says otherwise", *c.AddBOS)
	}
	for _, text := range slices.Sorted(maps.Keys(c.names)) {
		if _, known := t.id(text); !known {
			return fmt.Errorf("%s names the token %q, which tokenizer.json does not have; %s", c.names[text], text, otherwiseGGUF)
		}
	}
	return nil
}

// tokenText returns the text of a token: a string, or the member content of an object; "" for null.
func tokenText(raw json.RawMessage) string {
	var token struct{ Content string }
	if json.Unmarshal(raw, &token.Content) != nil && json.Unmarshal(raw, &token) != nil {
		return ""
	}
	return token.Content
}

// tokenTexts returns the texts of a list or a mapping of tokens.
func tokenTexts(raw json.RawMessage) (texts []string) {
	var list []json.RawMessage
	var named jsonObject
	if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &named) == nil {
		list = slices.Collect(maps.Values(named))
	}
	for _, token := range list {
		texts = append(texts, tokenText(token))
	}
	return texts
}

// id returns the id of the token with that text.
func (t *tokenizer) id(text string) (int, bool) {
	for _, a := range t.added {
		if a.Content == text {
			return a.ID, true
		}
	}
	id, ok := t.model.Vocab[text]
	return id, ok
}

const vocabularyConfig = "tokenizer_config.json"

// tokenizer has the members of tokenizer.json that are used.
type tokenizer struct {
	Added     []json.RawMessage `json:"added_tokens"`
	Normal    json.RawMessage   `json:"normalizer"`
	Pre       json.RawMessage   `json:"pre_tokenizer"`
	Post      json.RawMessage   `json:"post_processor"`
	Decoder   json.RawMessage   `json:"decoder"`
	ModelText json.RawMessage   `json:"model"`

	model struct {
		Vocab   map[string]int    `json:"vocab"`
		Merges  []json.RawMessage `json:"merges"` // "a b", or ["a", "b"]
		Ignores bool              `json:"ignore_merges"`
	}
	added []addedToken
}

type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// read reads tokenizer.json, except for the components besides model.
func (t *tokenizer) read(text []byte) error {
	if err := tokenizerMembers.read(text, nil, t); err != nil {
		return err
	}
	if isNull(t.ModelText) {
		return errors.New("it has no model")
	}
	if err := modelMembers.read(t.ModelText, jsonObject{"type": []byte(`"unknown"`)}, &t.model); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	t.added = make([]addedToken, len(t.Added))
	for i, raw := range t.Added {
		if err := addedMembers.read(raw, nil, &t.added[i]); err != nil {
			return fmt.Errorf("added token %.80s: %w", raw, err)
		}
	}
	return t.checkIDs()
}

// checkIDs refuses added tokens whose id is not the library's. The library ignores the ids in the file: a token of the
// model keeps its id, and others get the next ids in order.
func (t *tokenizer) checkIDs() error {
	next := len(t.model.Vocab)
	for _, a := range t.added {
		want, of := t.model.Vocab[a.Content]
		if !of {
			want = next
		}
		if a.ID != want {
			return fmt.Errorf("added token %q has id %d, and the library gives it %d; %s", a.Content, a.ID, want, otherwiseGGUF)
		}
		next = max(next, want+1)
	}
	return nil
}

// component is a component of tokenizer.json: its type, and the components of a Sequence.
type component struct {
	raw      json.RawMessage
	kind     string
	children []component
}

func newComponent(raw json.RawMessage) (c component, err error) {
	if isNull(raw) {
		return c, nil
	}
	var parts struct {
		Type           string            `json:"type"`
		Normalizers    []json.RawMessage `json:"normalizers"`
		PreTokenizers  []json.RawMessage `json:"pretokenizers"`
		PostProcessors []json.RawMessage `json:"processors"`
		Decoders       []json.RawMessage `json:"decoders"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return c, err
	}
	c.raw, c.kind = raw, parts.Type
	for _, raw := range slices.Concat(parts.Normalizers, parts.PreTokenizers, parts.PostProcessors, parts.Decoders) {
		child, err := newComponent(raw)
		if err != nil {
			return c, err
		}
		c.children = append(c.children, child.flat()...)
	}
	return c, nil
}

// flat returns the list of components in nested Sequences.
func (c component) flat() []component {
	switch c.kind {
	case "":
		return nil
	case "Sequence":
		return c.children
	}
	return []component{c}
}

func parts(name string, raw json.RawMessage) ([]component, error) {
	c, err := newComponent(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c.flat(), nil
}

func unknown(name string, c component) error {
	return fmt.Errorf("%s: %.200s is not known; %s", name, c.raw, otherwiseGGUF)
}

// normalizer returns gguf.NormalizerNFC or gguf.NormalizerNone. Others are errors.
func (t *tokenizer) normalizer() (string, error) {
	list, err := parts("normalizer", t.Normal)
	if err != nil {
		return "", err
	}
	kind := gguf.NormalizerNone
	for _, c := range list {
		if c.kind != gguf.NormalizerNFC {
			return "", unknown("normalizer", c)
		}
		kind = gguf.NormalizerNFC
	}
	return kind, nil
}

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spaces       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	largeLetters = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	smallLetters = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	before       = `[^\r\n\p{L}\p{N}]?`
)

// patterns has llama.cpp's names of pre-tokenizers by their regular expression.
var patterns = map[string]string{
	contractions + `|` + before + `\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + spaces:        "llama-bpe",
	contractions + `|` + before + `\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + spaces:             "qwen2",
	contractions + `|` + before + `[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + spaces: "qwen35",
	before + largeLetters + `*` + smallLetters + `+` + contractions + `?|` + before + largeLetters + `+` + smallLetters + `*` + contractions +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + spaces: "gpt-4o",
}

// preTokenizer returns llama.cpp's name of the pre-tokenizer. Every component of a Sequence must be known.
func (t *tokenizer) preTokenizer() (string, error) {
	const name = "pre_tokenizer"
	list, err := parts(name, t.Pre)
	if err != nil {
		return "", err
	}
	var kinds []string
	pre, regex := "", true
	for _, c := range list {
		kinds = append(kinds, c.kind)
		switch c.kind {
		case "Split":
			var p struct{ Pattern struct{ Regex string } }
			if err = splitMembers.read(c.raw, nil, &p); err == nil {
				pre = patterns[p.Pattern.Regex]
			}
			if err == nil && pre == "" {
				err = unknown(name, c)
			}
		case "Digits":
			pre, err = "smollm", digitMembers.read(c.raw, nil, &struct{}{})
		case "ByteLevel":
			var b struct {
				Regex *bool `json:"use_regex"`
			}
			err = byteLevel.read(c.raw, nil, &b)
			regex = b.Regex == nil || *b.Regex
		default:
			err = unknown(name, c)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case slices.Equal(kinds, []string{"Split", "ByteLevel"}) && !regex, slices.Equal(kinds, []string{"Digits", "ByteLevel"}) && regex:
		return pre, nil
	case slices.Equal(kinds, []string{"ByteLevel"}) && regex:
		return "gpt-2", nil
	}
	return "", fmt.Errorf("%s: the sequence %q is not known; %s", name, kinds, otherwiseGGUF)
}

// postProcessor returns the token that the post-processor puts before each text, nil for none.
func (t *tokenizer) postProcessor() (bos *int, err error) {
	const name = "post_processor"
	list, err := parts(name, t.Post)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		switch c.kind {
		case "ByteLevel":
			err = byteLevelAfter.read(c.raw, nil, &struct{}{})
		case "TemplateProcessing":
			bos, err = template(c)
		default:
			err = unknown(name, c)
		}
		if err != nil {
			return nil, err
		}
	}
	return bos, nil
}

// template reads a TemplateProcessing, which may only put one token before a text.
func template(c component) (*int, error) {
	var p struct {
		Single []struct {
			Special  *struct{ ID string } `json:"SpecialToken"`
			Sequence *struct{ ID string } `json:"Sequence"`
		} `json:"single"`
		Tokens map[string]struct{ IDs []int } `json:"special_tokens"`
	}
	if err := templating.read(c.raw, nil, &p); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	n := len(p.Single)
	if n == 0 || p.Single[n-1].Sequence == nil || n > 2 || n == 2 && p.Single[0].Special == nil {
		return nil, unknown("post_processor", c)
	}
	if n == 1 {
		return nil, nil
	}
	ids := p.Tokens[p.Single[0].Special.ID].IDs
	if len(ids) != 1 || ids[0] < 0 {
		return nil, unknown("post_processor", c)
	}
	return &ids[0], nil
}

// write writes the keys of the components that llama.cpp reads.
func (t *tokenizer) write(g *gguf.Metadata) (bos *int, err error) {
	pre, err := t.preTokenizer()
	if err != nil {
		return nil, err
	}
	normalizer, err := t.normalizer()
	if err != nil {
		return nil, err
	}
	decoder, err := parts("decoder", t.Decoder)
	if err != nil {
		return nil, err
	}
	for _, c := range decoder {
		if c.kind != "ByteLevel" {
			return nil, unknown("decoder", c)
		}
		if err := byteLevelAfter.read(c.raw, nil, &struct{}{}); err != nil {
			return nil, fmt.Errorf("decoder: %w", err)
		}
	}
	if bos, err = t.postProcessor(); err != nil {
		return nil, err
	}
	g.Set("tokenizer.ggml.model", "gpt2")
	g.Set("tokenizer.ggml.pre", pre)
	g.Set("tokenizer.ggml.ignore_merges", t.model.Ignores)
	g.Set(gguf.NormalizerKey, normalizer)
	return bos, nil
}
