package synth

import (
	"fmt"
	"hash/fnv"
	"math"
)

// tensor is one tensor to write. Its values are normally distributed with mean
// and dev; fix, if set, changes them afterwards.
type tensor struct {
	name      string
	shape     []int // fastest dimension first, as in ggml
	mean, dev float64
	vector    bool // stays f32
	expert    bool // may be MXFP4
	fix       func(row int, values []float32)
}

func (t *tensor) rows() int {
	n := 1
	for _, d := range t.shape[1:] {
		n *= d
	}
	return n
}

// The first value of the residual stream is a constant: embeddings write it and no layer does. At the output it is
// still a constant, which Bias multiplies. The layers' contributions are larger than the embeddings, so that the next
// token depends on more than the last one.
const (
	biasInput      = 1.0   // first value of each embedding
	biasGain       = 200.0 // weight of the output norm there; large, so that a bias hardly changes the embedding
	residualSpread = 3.5   // about the RMS of the residual stream at the output
	embeddingDev   = 0.3
	attentionGain  = 0.5
	ffnGain        = 6.0
	queryKeyGain   = 2.0 // of the norms of queries and keys, so that attention is not uniform
	rareBias       = -3 * LogitSpread
)

type shapes struct {
	spec   *Spec
	vocab  *vocabulary
	bias   map[int]float32 // by token id
	prefix string          // of the layer
	list   []tensor
}

// tensors returns the tensors of the architecture in file order.
func tensors(spec *Spec, v *vocabulary) []tensor {
	s := &shapes{spec: spec, vocab: v, bias: map[int]float32{}}
	for _, id := range v.rare {
		s.bias[id] = rareBias
	}
	for text, b := range spec.Bias {
		if id, ok := v.id(text); ok {
			s.bias[id] = b
		}
	}
	e := spec.Embedding
	s.embedding("token_embd.weight", spec.Arch != GPTOSS)
	gain := LogitSpread / (embeddingDev * math.Sqrt(float64(e)))
	s.list = append(s.list, tensor{name: "output_norm.weight", shape: []int{e}, mean: gain, vector: true,
		fix: func(_ int, values []float32) { values[0] = biasGain }})
	if spec.Arch == GPTOSS {
		s.embedding("output.weight", true) // this architecture does not share them
	}
	for i := range spec.Layers {
		s.layer(i)
	}
	return s.list
}

// embedding adds a matrix with a row for each token. If biased, the first value
// of a row is the token's bias, which the output multiplies by the constant.
func (s *shapes) embedding(name string, biased bool) {
	s.list = append(s.list, tensor{name: name, shape: []int{s.spec.Embedding, len(s.vocab.tokens)}, dev: embeddingDev,
		fix: func(row int, values []float32) {
			values[0] = biasInput
			if biased {
				values[0] += s.bias[row] / float32(biasGain*biasInput/residualSpread)
			}
		}})
}

// keepConstant clears the row that would change the constant.
func (s *shapes) keepConstant(row int, values []float32) {
	if row%s.spec.Embedding == 0 {
		clear(values)
	}
}

func (s *shapes) add(suffix string, t tensor) {
	t.name = s.prefix + suffix
	s.list = append(s.list, t)
}

func (s *shapes) vector(suffix string, n int, mean, dev float64) {
	s.add(suffix, tensor{shape: []int{n}, mean: mean, dev: dev, vector: true})
}

func (s *shapes) matrix(suffix string, gain float64, shape ...int) {
	s.add(suffix, tensor{shape: shape, dev: gain / math.Sqrt(float64(shape[0]))})
}

// output adds a matrix back into the residual stream.
func (s *shapes) output(suffix string, gain float64, shape ...int) {
	s.add(suffix, tensor{shape: shape, dev: gain / math.Sqrt(float64(shape[0])), fix: s.keepConstant})
}

func (s *shapes) layer(i int) {
	spec := s.spec
	s.prefix = fmt.Sprintf("blk.%d.", i)
	e, q, kv := spec.Embedding, spec.Heads*spec.HeadDim, spec.KVHeads*spec.HeadDim
	recurrent := spec.Arch == Qwen35 && (i+1)%recurrentInterval != 0

	s.vector("attn_norm.weight", e, 1, 0)
	if recurrent {
		s.recurrent()
	} else {
		queries := q
		if spec.Arch == Qwen35 {
			queries = 2 * q // with a gate for each value
		}
		s.matrix("attn_q.weight", 1, e, queries)
		s.matrix("attn_k.weight", 1, e, kv)
		s.matrix("attn_v.weight", 1, e, kv)
		s.output("attn_output.weight", attentionGain, q, e)
	}
	if spec.Arch == Qwen2 || spec.Arch == GPTOSS {
		s.vector("attn_q.bias", q, 0, 0.1)
		s.vector("attn_k.bias", kv, 0, 0.1)
		s.vector("attn_v.bias", kv, 0, 0.1)
	}
	if spec.Arch == Qwen3 || spec.Arch == Qwen3MoE || spec.Arch == Qwen35 && !recurrent {
		s.vector("attn_q_norm.weight", spec.HeadDim, queryKeyGain, 0.1)
		s.vector("attn_k_norm.weight", spec.HeadDim, queryKeyGain, 0.1)
	}
	if spec.Arch == GPTOSS {
		s.vector("attn_output.bias", e, 0, 0)
		s.vector("attn_sinks.weight", spec.Heads, 0, 1)
	}
	if spec.Arch == Qwen35 || spec.Arch == GPTOSS {
		s.vector("post_attention_norm.weight", e, 1, 0)
	} else {
		s.vector("ffn_norm.weight", e, 1, 0)
	}
	if spec.Experts > 0 {
		s.experts()
		return
	}
	s.matrix("ffn_gate.weight", 1, e, spec.FFN)
	s.matrix("ffn_up.weight", 1, e, spec.FFN)
	s.output("ffn_down.weight", ffnGain, spec.FFN, e)
}

// experts adds a mixture-of-experts FFN, with biases for gpt-oss.
func (s *shapes) experts() {
	biases := s.spec.Arch == GPTOSS
	e, f, n := s.spec.Embedding, s.spec.FFN, s.spec.Experts
	dev := func(in int, gain float64) float64 { return gain / math.Sqrt(float64(in)) }
	s.add("ffn_gate_inp.weight", tensor{shape: []int{e, n}, dev: dev(e, 1), vector: true})
	if biases {
		s.vector("ffn_gate_inp.bias", n, 0, 0.1)
	}
	for _, name := range []string{"gate", "up"} {
		s.add("ffn_"+name+"_exps.weight", tensor{shape: []int{e, f, n}, dev: dev(e, 1), expert: true})
		if biases {
			s.add("ffn_"+name+"_exps.bias", tensor{shape: []int{f, n}, dev: 0.1, vector: true})
		}
	}
	s.add("ffn_down_exps.weight", tensor{shape: []int{f, e, n}, dev: dev(f, ffnGain), expert: true, fix: s.keepConstant})
	if biases {
		s.add("ffn_down_exps.bias", tensor{shape: []int{e, n}, vector: true})
	}
}

// Shape of qwen35's recurrent layers, for each head of keys and values.
const (
	stateSize  = 16
	convKernel = 4
)

// recurrent adds a gated delta net layer of qwen35.
func (s *shapes) recurrent() {
	e, keys, values := s.spec.Embedding, s.spec.KVHeads*stateSize, s.spec.Heads*stateSize
	s.matrix("attn_qkv.weight", 1, e, 2*keys+values)
	s.matrix("attn_gate.weight", 1, e, values)
	s.add("ssm_conv1d.weight", tensor{shape: []int{convKernel, 2*keys + values}, dev: 0.5, vector: true})
	s.vector("ssm_dt.bias", s.spec.Heads, 0, 0.5)
	s.vector("ssm_a", s.spec.Heads, -1, 0.1) // decay: negative
	s.matrix("ssm_beta.weight", 1, e, s.spec.Heads)
	s.matrix("ssm_alpha.weight", 1, e, s.spec.Heads)
	s.vector("ssm_norm.weight", stateSize, 1, 0)
	s.output("ssm_out.weight", attentionGain, values, e)
}

// source is a stream of random numbers that depends on the seed and the
// tensor's name only, so that a tensor does not depend on others.
type source uint64

func newSource(seed uint64, name string) source {
	h := fnv.New64a()
	h.Write([]byte(name))
	return source(seed*0x9E3779B97F4A7C15 ^ h.Sum64())
}

// next is SplitMix64.
func (s *source) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// fill draws values, each as the sum of four uniform numbers, which is close enough
// to a normal distribution. One number of the stream gives all four.
func (s *source) fill(values []float32, mean, dev float64) {
	scale, at := float32(dev/(math.Sqrt(4.0/12)*65536)), *s // of four uniform numbers over [0, 65536)
	const even = 0x0000FFFF0000FFFF
	for i := range values {
		z := at.next()
		pairs := z&even + z>>16&even
		values[i] = float32(mean) + scale*float32(int32(pairs)+int32(pairs>>32)-2*65535)
	}
	*s = at
}
