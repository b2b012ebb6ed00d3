package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"agentd/llama/internal/gguf"
)

// ropes has the places in config.json of the parameters of RoPE. As in transformers, rope_scaling has precedence over
// rope_parameters, and both over the other members.
type ropes struct {
	Parameters json.RawMessage `json:"rope_parameters"`
	Scaling    json.RawMessage `json:"rope_scaling"`
	Theta      float64         `json:"rope_theta"`
	Partial    float64         `json:"partial_rotary_factor"`
	Original   int             `json:"original_max_position_embeddings"`
}

// rope has the parameters of RoPE with their names in transformers.
type rope struct {
	Type      string   `json:"rope_type"`
	Theta     float64  `json:"rope_theta"`
	Partial   float64  `json:"partial_rotary_factor"`
	Factor    float64  `json:"factor"`
	Low       float64  `json:"low_freq_factor"`
	High      float64  `json:"high_freq_factor"`
	Original  int      `json:"original_max_position_embeddings"`
	Fast      float64  `json:"beta_fast"`
	Slow      float64  `json:"beta_slow"`
	Truncate  *bool    `json:"truncate"`
	Scale     *float64 `json:"attention_factor"`
	MScale    float64  `json:"mscale"`
	MScaleAll float64  `json:"mscale_all_dim"`
	Sections  []int32  `json:"mrope_section"`
}

// readRope reads the parameters, and sets those that transformers derives. context is max_position_embeddings.
func (s *ropes) readRope(context int) (r rope, err error) {
	name, text := "rope_scaling", s.Scaling
	if isNull(text) || sameJSON(text, "{}") {
		name, text = "rope_parameters", s.Parameters
	}
	if isNull(text) {
		text = []byte("{}")
	}
	if text, err = ofFullAttention(text); err == nil {
		err = r.read(text)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	r.Theta, r.Partial = cmp.Or(r.Theta, s.Theta, 10000), cmp.Or(r.Partial, s.Partial, 1)
	r.Original = cmp.Or(s.Original, r.Original, context)
	r.Fast, r.Slow = cmp.Or(r.Fast, 32), cmp.Or(r.Slow, 1)
	if r.Type == "yarn" {
		r.Factor = cmp.Or(r.Factor, float64(context)/float64(max(r.Original, 1)))
	}
	if positive := min(r.Theta, r.Partial, float64(r.Original), r.Fast, r.Slow); positive <= 0 || r.Type != "default" && r.Factor <= 0 {
		return r, fmt.Errorf("%s: a parameter is missing, or not above 0", name)
	}
	return r, nil
}

func (r *rope) read(text []byte) error {
	var kind struct {
		Type string `json:"rope_type"`
		Old  string `json:"type"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return err
	}
	kind.Type = cmp.Or(kind.Type, kind.Old, "default")
	known, ok := ropeMembers[kind.Type]
	if !ok {
		return fmt.Errorf("rope_type %q is not known; give a GGUF file of the model instead", kind.Type)
	}
	if err := join(ropeMembers[""], known).read(text, nil, r); err != nil {
		return err
	}
	r.Type = kind.Type
	if r.Type == "llama3" && (r.Low <= 0 || r.High <= r.Low) {
		return errors.New("low_freq_factor and high_freq_factor must be above 0, and the second one larger")
	}
	return nil
}

// ofFullAttention returns the parameters of layers with full attention if each kind of layer has its own.
func ofFullAttention(text []byte) ([]byte, error) {
	var kinds jsonObject
	if err := json.Unmarshal(text, &kinds); err != nil {
		return nil, err
	}
	full, nested := kinds["full_attention"]
	if !nested {
		return text, nil
	}
	for kind, parameters := range kinds {
		if !isNull(parameters) && !sameJSON(parameters, string(full)) {
			return nil, fmt.Errorf("%s has other parameters than full_attention; only one set is computed", kind)
		}
	}
	return full, nil
}

// metadata writes the keys that llama.cpp reads. The type llama3 has factors instead, see ropeFactors. A negative
// beta_fast means that YaRN's range is not rounded (third_party/patch).
func (r *rope) metadata(g *gguf.Metadata, prefix string) {
	switch r.Type {
	case "linear":
		g.Set(prefix+"type", "linear")
		g.Set(prefix+"factor", r.Factor)
	case "yarn":
		fast := r.Fast
		if r.Truncate != nil && !*r.Truncate {
			fast = -fast
		}
		g.Set(prefix+"type", "yarn")
		g.Set(prefix+"factor", r.Factor)
		g.Set(prefix+"original_context_length", r.Original)
		g.Set(prefix+"yarn_beta_fast", fast)
		g.Set(prefix+"yarn_beta_slow", r.Slow)
		if scale := r.attentionFactor() / magnitude(r.Factor, 1); scale != 1 {
			g.Set(prefix+"attn_factor", scale) // llama.cpp multiplies it with magnitude(r.Factor, 1)
		}
	}
}

// attentionFactor returns YaRN's factor of queries and keys, by the formula of transformers' _compute_yarn_parameters.
func (r *rope) attentionFactor() float64 {
	switch {
	case r.Scale != nil:
		return *r.Scale
	case r.MScale != 0 && r.MScaleAll != 0:
		return magnitude(r.Factor, r.MScale) / magnitude(r.Factor, r.MScaleAll)
	}
	return magnitude(r.Factor, 1)
}

// magnitude is mscale of YaRN (arXiv 2309.00071).
func magnitude(factor, m float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(factor) + 1
}

// ropeFactors returns the factors by which Llama 3 divides the frequencies of RoPE, nil for other
// types. The formula is that of transformers' _compute_llama3_parameters, in float32.
func (c *config) ropeFactors() []float32 {
	r := c.rope
	if r.Type != "llama3" {
		return nil
	}
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
