package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"agentd/llama/internal/gguf"
)

// config is what is read of config.json.
type config struct {
	Architectures []string `json:"architectures"`
	Quantization  *struct {
		Method string `json:"quant_method"`
	} `json:"quantization_config"`
	hyperparameters
	Text *hyperparameters `json:"text_config"` // of models that also see images
}

type hyperparameters struct {
	VocabSize    int     `json:"vocab_size"`
	Context      int     `json:"max_position_embeddings"`
	Width        int     `json:"hidden_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      int     `json:"num_key_value_heads"`
	HeadSize     int     `json:"head_dim"`
	FeedForward  int     `json:"intermediate_size"`
	ExpertWidth  int     `json:"moe_intermediate_size"`
	Experts      int     `json:"num_experts"`
	LocalExperts int     `json:"num_local_experts"`
	ExpertsUsed  int     `json:"num_experts_per_tok"`
	Window       int     `json:"sliding_window"`
	Tied         *bool   `json:"tie_word_embeddings"`
	Epsilon      float64 `json:"rms_norm_eps"`
	Theta        float64 `json:"rope_theta"`
	Rope         *rope   `json:"rope_parameters"`
	RopeScaling  *rope   `json:"rope_scaling"` // its name before transformers 5
	BOS          *int    `json:"bos_token_id"`
	Partial      float64 `json:"partial_rotary_factor"`
	linearAttention
}

// rope are the parameters of rotary positions, as transformers names them.
type rope struct {
	Type     string  `json:"rope_type"`
	OldType  string  `json:"type"`
	Theta    float64 `json:"rope_theta"`
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Original int     `json:"original_max_position_embeddings"`
	Fast     float64 `json:"beta_fast"`
	Slow     float64 `json:"beta_slow"`
	Scale    float64 `json:"attention_factor"`
	Partial  float64 `json:"partial_rotary_factor"`
	Sections []int32 `json:"mrope_section"`
}

// maxSize bounds all sizes in config.json, far beyond what models have.
const maxSize = 1 << 24

// readConfig reads config.json, with one name for each value.
func readConfig(dir string) (*config, error) {
	var c config
	if err := readJSON(dir, "config.json", &c); err != nil {
		return nil, err
	}
	if c.Text != nil {
		c.hyperparameters = *c.Text
	}
	h := &c.hyperparameters
	path := filepath.Join(dir, "config.json")
	for _, n := range []int{h.VocabSize, h.Context, h.Width, h.Layers, h.Heads, h.KVHeads, h.HeadSize, h.FeedForward, h.ExpertWidth, h.Experts,
		h.LocalExperts, h.ExpertsUsed, h.Window, h.Kernel, h.KeySize, h.ValueSize, h.KeyHeads, h.ValueHeads, h.Interval} {
		if n < 0 || n > maxSize {
			return nil, fmt.Errorf("%s: it has a size of %d", path, n)
		}
	}
	if h.Rope == nil {
		h.Rope = h.RopeScaling
	}
	if h.Rope == nil {
		h.Rope = &rope{}
	}
	set(&h.Rope.Theta, h.Theta)
	set(&h.Rope.Type, h.Rope.OldType)
	set(&h.Rope.Partial, h.Partial)
	set(&h.Experts, h.LocalExperts)
	set(&h.KVHeads, h.Heads)
	return &c, nil
}

// set sets a value that is not there.
func set[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// metadata writes what llama.cpp reads of a model's shape under the prefix of its architecture.
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
	turned, partial := c.headSize(), c.Rope.Partial
	if prefix == linear {
		set(&partial, 0.25) // as transformers and the converter
		turned, partial = int(float64(turned)*partial), 0
	}
	if partial != 0 && partial != 1 {
		return errors.New("partial_rotary_factor is not known; give a GGUF file of the model instead")
	}
	g.Set(prefix+".rope.dimension_count", turned)
	g.Set(prefix+".attention.layer_norm_rms_epsilon", c.Epsilon)
	if c.Rope.Theta > 0 {
		g.Set(prefix+".rope.freq_base", c.Rope.Theta)
	}
	return c.ropeMetadata(g, prefix+".rope.scaling.")
}

func (c *config) headSize() int {
	if c.HeadSize > 0 {
		return c.HeadSize
	}
	return c.Width / max(c.Heads, 1)
}

func (c *config) ropeMetadata(g *gguf.Metadata, prefix string) error {
	switch r := c.Rope; strings.ToLower(r.Type) {
	case "", "default", "llama3": // llama3: see ropeFactors
	case "linear":
		g.Set(prefix+"type", "linear")
		g.Set(prefix+"factor", r.Factor)
	case "yarn":
		g.Set(prefix+"type", "yarn")
		g.Set(prefix+"factor", r.Factor)
		g.Set(prefix+"original_context_length", r.Original)
		for key, value := range map[string]float64{"yarn_attn_factor": r.Scale, "yarn_beta_fast": r.Fast, "yarn_beta_slow": r.Slow} {
			if value != 0 {
				g.Set(prefix+key, value)
			}
		}
	default:
		return fmt.Errorf("rope_type %q is not known; give a GGUF file of the model instead", r.Type)
	}
	return nil
}

// ropeFactors are the factors by which Llama 3 divides the frequencies of its rotary positions, nil
// for other models. The formula is that of transformers' _compute_llama3_parameters, in float32.
func (c *config) ropeFactors() []float32 {
	r := *c.Rope
	if !strings.EqualFold(r.Type, "llama3") {
		return nil
	}
	set(&r.Theta, 10000)
	set(&r.Factor, 8)
	set(&r.Low, 1)
	set(&r.High, 4)
	set(&r.Original, 8192)
	factors := make([]float32, c.headSize()/2)
	for i := range factors {
		exponent := float32(2*i) / float32(c.headSize())
		frequency := 1 / float32(math.Pow(r.Theta, float64(exponent)))
		wave := float32(2*math.Pi) / frequency
		switch {
		case float64(wave) < float64(r.Original)/r.High:
			factors[i] = 1
		case float64(wave) > float64(r.Original)/r.Low:
			factors[i] = float32(r.Factor)
		default:
			smooth := (float32(r.Original)/wave - float32(r.Low)) / float32(r.High-r.Low)
			factors[i] = 1 / ((1-smooth)/float32(r.Factor) + smooth)
		}
	}
	return factors
}

// UnmarshalJSON reads a rope whose layers differ by kind: its parameters for full attention.
func (r *rope) UnmarshalJSON(text []byte) error {
	type plain rope
	var nested struct {
		Full *plain `json:"full_attention"`
	}
	if err := json.Unmarshal(text, &nested); err == nil && nested.Full != nil {
		*r = rope(*nested.Full)
		return nil
	}
	return json.Unmarshal(text, (*plain)(r))
}
