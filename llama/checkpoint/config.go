package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"agentd/llama/internal/gguf"
)

// config has the members of config.json that are used.
type config struct {
	hyperparameters
	rope
}

type hyperparameters struct {
	Architectures []string        `json:"architectures"`
	Type          string          `json:"model_type"`
	Quantization  json.RawMessage `json:"quantization_config"`
	Text          json.RawMessage `json:"text_config"` // of vision-language models

	VocabSize     int             `json:"vocab_size"`
	Context       int             `json:"max_position_embeddings"`
	Width         int             `json:"hidden_size"`
	Layers        int             `json:"num_hidden_layers"`
	Heads         int             `json:"num_attention_heads"`
	KVHeads       int             `json:"num_key_value_heads"`
	HeadSize      int             `json:"head_dim"`
	FeedForward   int             `json:"intermediate_size"`
	ExpertWidth   int             `json:"moe_intermediate_size"`
	Experts       int             `json:"num_experts"`
	LocalExperts  int             `json:"num_local_experts"`
	ExpertsUsed   int             `json:"num_experts_per_tok"`
	Window        int             `json:"sliding_window"`
	UseWindow     bool            `json:"use_sliding_window"`
	FullLayers    *int            `json:"max_window_layers"`
	Tied          bool            `json:"tie_word_embeddings"`
	AttentionBias bool            `json:"attention_bias"`
	MLPBias       bool            `json:"mlp_bias"`
	Epsilon       float64         `json:"rms_norm_eps"`
	BOS           *int            `json:"bos_token_id"`
	EOS           json.RawMessage `json:"eos_token_id"`
	ropes
	linearAttention
}

// maxSize bounds all sizes in config.json, far above the sizes of any model.
const maxSize = 1 << 24

// readConfig reads config.json of a model of a known architecture. Absent members get the defaults of transformers'
// configuration class.
func readConfig(dir string) (*config, *architecture, error) {
	text, err := readFile(dir, "config.json")
	if err != nil {
		return nil, nil, err
	}
	c := &config{}
	a, err := c.read(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, "config.json"), err)
	}
	return c, a, nil
}

func (c *config) read(text []byte) (*architecture, error) {
	var named struct {
		Architectures []string `json:"architectures"`
	}
	if err := json.Unmarshal(text, &named); err != nil {
		return nil, err
	}
	a, err := architectureOf(named.Architectures)
	if err != nil {
		return nil, err
	}
	if err := a.readMembers(text, &c.hyperparameters); err != nil {
		return nil, err
	}
	if c.Quantization != nil {
		if err := quantizationMembers.read(c.Quantization, nil, &struct{}{}); err != nil {
			return nil, fmt.Errorf("quantization_config: %w", err)
		}
	}
	c.Experts, c.KVHeads = cmp.Or(c.Experts, c.LocalExperts), cmp.Or(c.KVHeads, c.Heads)
	h := &c.hyperparameters
	for _, n := range []int{h.VocabSize, h.Context, h.Width, h.Layers, h.Heads, h.KVHeads, h.HeadSize, h.FeedForward, h.ExpertWidth, h.Experts,
		h.ExpertsUsed, h.Window, h.Kernel, h.KeySize, h.ValueSize, h.KeyHeads, h.ValueHeads, h.Interval, h.Original} {
		if n < 0 || n > maxSize {
			return nil, fmt.Errorf("it has a size of %d", n)
		}
	}
	if h.Epsilon <= 0 {
		return nil, fmt.Errorf("rms_norm_eps is %v", h.Epsilon)
	}
	if err := c.windows(a); err != nil {
		return nil, err
	}
	c.rope, err = c.readRope(c.Context)
	return a, err
}

// readMembers reads config.json, or the text_config within it.
func (a *architecture) readMembers(text []byte, h *hyperparameters) error {
	var defaults jsonObject
	if err := json.Unmarshal([]byte(a.defaults), &defaults); err != nil {
		return err
	}
	if a.images {
		var whole hyperparameters
		if err := imagesConfig.read(text, nil, &whole); err != nil {
			return err
		}
		if whole.Text == nil || whole.Type != "" && whole.Type != a.modelType {
			return fmt.Errorf("model_type is %q, and text_config %.20s; %s has a text_config", whole.Type, whole.Text, a.modelType)
		}
		if err := join(everyConfig, a.members).read(whole.Text, defaults, h); err != nil {
			return fmt.Errorf("text_config: %w", err)
		}
		h.Tied = whole.Tied
		if !isNull(whole.EOS) {
			h.EOS = whole.EOS
		}
		h.Type = ""
	} else if err := join(everyConfig, a.members).read(text, defaults, h); err != nil {
		return err
	}
	if h.Type != "" && h.Type != a.modelType {
		return fmt.Errorf("model_type is %q; architectures %q have %q", h.Type, h.Architectures, a.modelType)
	}
	return nil
}

// windows refuses sliding-window attention, except that of GPT-OSS, which llama.cpp computes.
func (c *config) windows(a *architecture) error {
	kinds := []string{"full_attention"}
	switch a.name {
	case gptOSS:
		kinds = append(kinds, "sliding_attention")
	case linear:
		kinds = append(kinds, "linear_attention")
	}
	for _, kind := range c.LayerTypes {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("layer_types has %q; only %q are computed", kind, kinds)
		}
	}
	if n := len(c.LayerTypes); n != 0 && n != c.Layers {
		return fmt.Errorf("layer_types has %d elements for %d layers", n, c.Layers)
	}
	full := c.FullLayers != nil && *c.FullLayers >= c.Layers || c.LayerTypes != nil
	if c.UseWindow && c.Window > 0 && !full {
		return errors.New("use_sliding_window is true; attention to a window is not computed")
	}
	return nil
}

// metadata writes the model's shape with the keys that llama.cpp reads; prefix is the architecture's.
func (c *config) metadata(g *gguf.Metadata, prefix string) error {
	for _, v := range []struct {
		key    string
		value  int
		needed bool
	}{
		{"vocab_size", c.VocabSize, true}, {"block_count", c.Layers, true}, {"context_length", c.Context, true},
		{"embedding_length", c.Width, true}, {"attention.head_count", c.Heads, true}, {"attention.head_count_kv", c.KVHeads, true},
		{"feed_forward_length", c.FeedForward, false}, {"expert_count", c.Experts, false}, {"expert_used_count", c.ExpertsUsed, false},
		{"expert_feed_forward_length", c.ExpertWidth, false}, {"attention.key_length", c.HeadSize, false}, {"attention.value_length", c.HeadSize, false},
	} {
		switch {
		case v.value > 0:
			g.Set(prefix+"."+v.key, v.value)
		case v.needed:
			return fmt.Errorf("it does not say %s", v.key)
		}
	}
	turned := c.headSize()
	if prefix == linear {
		turned = int(float64(turned) * c.Partial)
	} else if c.Partial != 1 {
		return errors.New("partial_rotary_factor is not known; give a GGUF file of the model instead")
	}
	g.Set(prefix+".rope.dimension_count", turned)
	g.Set(prefix+".attention.layer_norm_rms_epsilon", c.Epsilon)
	g.Set(prefix+".rope.freq_base", c.Theta)
	c.rope.metadata(g, prefix+".rope.scaling.")
	if prefix == gptOSS {
		g.Set(prefix+".attention.sliding_window", c.Window)
		if c.LayerTypes != nil {
			windowed := make([]bool, c.Layers)
			for i, kind := range c.LayerTypes {
				windowed[i] = kind == "sliding_attention"
			}
			g.Set(prefix+".attention.sliding_window_pattern", windowed)
		}
	}
	return nil
}

func (c *config) headSize() int {
	if c.HeadSize > 0 {
		return c.HeadSize
	}
	return c.Width / max(c.Heads, 1)
}
