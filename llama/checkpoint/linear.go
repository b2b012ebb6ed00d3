package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

// Qwen 3.5 has layers with linear attention (a gated delta net) and, in most models one of four, with full
// attention. llama.cpp's converter describes what its file has: norms as factors instead of their
// distance from 1, the decay instead of its logarithm, and the heads of values in another order.

// linear is the name of Qwen 3.5's architecture in a GGUF file.
const linear = "qwen35"

var inHybrid = with(with(inDense, inNorms), map[string]string{
	"post_attention_layernorm": "post_attention_norm",
	"linear_attn.in_proj_qkv":  "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
	"linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta",
	"linear_attn.conv1d": "ssm_conv1d", "linear_attn.dt": "ssm_dt", "linear_attn.A_log": "ssm_a",
	"linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
})

// beside reports whether a tensor is not used: one of the vision encoder, or for multi-token prediction.
func beside(part string) bool {
	return strings.HasPrefix(part, "model.visual.") || strings.HasPrefix(strings.TrimPrefix(part, "model."), "mtp.")
}

// ofOneKind reports whether a tensor exists only in layers with linear, or only in layers with full attention.
func ofOneKind(name string) bool {
	return strings.HasPrefix(name, "ssm_") || strings.HasPrefix(name, "attn_") && name != "attn_norm.weight"
}

// linearAttention has the parameters of layers with linear attention.
type linearAttention struct {
	Kernel     int      `json:"linear_conv_kernel_dim"`
	KeySize    int      `json:"linear_key_head_dim"`
	ValueSize  int      `json:"linear_value_head_dim"`
	KeyHeads   int      `json:"linear_num_key_heads"`
	ValueHeads int      `json:"linear_num_value_heads"`
	Interval   int      `json:"full_attention_interval"`
	LayerTypes []string `json:"layer_types"`
}

// hybridMetadata writes the keys that llama.cpp reads for linear attention.
func (c *config) hybridMetadata(g *gguf.Metadata) error {
	a := &c.linearAttention
	if min(a.Kernel, a.KeySize, a.KeyHeads, a.ValueHeads) <= 0 || a.KeySize != a.ValueSize || a.ValueHeads%a.KeyHeads != 0 {
		return fmt.Errorf("linear attention has %d heads of %d for keys and %d of %d for values, and a kernel of %d; "+
			"the sizes must be equal, and the heads for values a multiple", a.KeyHeads, a.KeySize, a.ValueHeads, a.ValueSize, a.Kernel)
	}
	g.Set(linear+".ssm.conv_kernel", a.Kernel)
	g.Set(linear+".ssm.state_size", a.KeySize)
	g.Set(linear+".ssm.group_count", a.KeyHeads)
	g.Set(linear+".ssm.time_step_rank", a.ValueHeads)
	g.Set(linear+".ssm.inner_size", a.ValueSize*a.ValueHeads)
	g.Set(linear+".full_attention_interval", a.Interval)
	if len(a.LayerTypes) > 0 {
		recurrent := make([]bool, c.Layers)
		for i, kind := range a.LayerTypes {
			recurrent[i] = kind == "linear_attention"
		}
		g.Set(linear+".attention.recurrent_layers", recurrent)
	}
	sections := []int32{11, 11, 10, 0} // the converter's, where the checkpoint has none
	if s := c.Sections; len(s) > 0 {
		sections = append(slices.Clone(s), 0, 0, 0)[:4]
	}
	g.Set(linear+".rope.dimension_sections", sections)
	return nil
}

// hybrid returns a tensor of Qwen 3.5 in the form that llama.cpp reads.
func (c *config) hybrid(name string, n named, s *stored) (gguf.Tensor, error) {
	a := &c.linearAttention
	if n.part == "linear_attn.conv1d" && len(s.shape) == 3 && s.shape[1] == 1 {
		squeezed := *s
		squeezed.shape = []int64{s.shape[0], s.shape[2]}
		s = &squeezed
	}
	switch n.part {
	case "linear_attn.in_proj_qkv", "linear_attn.conv1d":
		return a.tiled(name, s, 2*a.KeyHeads, a.ValueSize)
	case "linear_attn.in_proj_z":
		return a.tiled(name, s, 0, a.ValueSize)
	case "linear_attn.in_proj_a", "linear_attn.in_proj_b", "linear_attn.dt":
		return a.tiled(name, s, 0, 1)
	case "linear_attn.A_log":
		o, err := a.tiled(name, s, 0, 1)
		return mapped(o, func(v float32) float32 { return float32(-math.Exp(float64(v))) }), err
	case "linear_attn.out_proj":
		if len(s.shape) != 2 || s.shape[1] != int64(a.ValueHeads*a.ValueSize) {
			return gguf.Tensor{}, fmt.Errorf("its shape is %v for %d heads of %d", s.shape, a.ValueHeads, a.ValueSize)
		}
		size := a.ValueSize * int(dtypes[s.dtype])
		return rearrange(name, s.shape, []*stored{s}, func(row []byte) []byte { return pieces(row, a.ValueHeads, size, a.from) })
	}
	o, err := plain(name, s)
	if n.kind == "weight" && strings.HasSuffix(n.part, "norm") && n.part != "linear_attn.norm" {
		o = mapped(o, func(v float32) float32 { return v + 1 })
	}
	return o, err
}

// from returns the checkpoint's index of value head i of the file. The checkpoint groups value heads by their key head;
// the file has the first value head of each key head, then the second of each, and so on.
func (a *linearAttention) from(i int) int {
	return i%a.KeyHeads*(a.ValueHeads/a.KeyHeads) + i/a.KeyHeads
}

// tiled returns a tensor with its value heads, of that many rows each, in the order of the file. The heads before first
// stay in place.
func (a *linearAttention) tiled(name string, s *stored, first, rows int) (gguf.Tensor, error) {
	heads := first + a.ValueHeads
	if s.shape[0] != int64(heads*rows) {
		return gguf.Tensor{}, fmt.Errorf("its shape is %v; it must have %d heads of %d", s.shape, heads, rows)
	}
	byHead := *s
	byHead.shape = append([]int64{int64(heads), int64(rows)}, s.shape[1:]...)
	byHead.order = func(i int64) int64 {
		if i < int64(first) {
			return i
		}
		return int64(first + a.from(int(i)-first))
	}
	return rearrange(name, s.shape, []*stored{&byHead}, same)
}

// mapped returns an F32 tensor with f applied to each value.
func mapped(o gguf.Tensor, f func(float32) float32) gguf.Tensor {
	write := o.Data
	o.Data = func(w io.Writer) error {
		if o.Kind != gguf.F32 {
			return errors.New("its values must be F32")
		}
		return write(mapping{w, f})
	}
	return o
}

// mapping is a writer that applies f to each float32.
type mapping struct {
	to io.Writer
	f  func(float32) float32
}

func (m mapping) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i += 4 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(p[i:]))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(m.f(v)))
	}
	return m.to.Write(out)
}
