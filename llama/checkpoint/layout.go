package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentd/llama/internal/gguf"
)

// architecture describes how a model class of transformers is stored in a GGUF file.
type architecture struct {
	name      string            // general.architecture; qwen35: see linear.go
	modelType string            // model_type in config.json
	members   members           // of config.json, besides everyConfig
	defaults  string            // defaults of config.json's members, as JSON
	images    bool              // the text model's configuration is in text_config
	layer     map[string]string // names of a layer's tensors in the file by those in the checkpoint, without .weight or .bias
	biases    []string          // modules of a layer that may have a bias, see config.biases
	permute   bool              // the rows of queries and keys must be permuted, see permuted
}

const gptOSS = "gpt-oss"

// Names of a layer's tensors in the file, by those in the checkpoint.
var (
	inLayer = map[string]string{
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
		"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	}
	inDense = with(inLayer, map[string]string{"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"})
	inNorms = map[string]string{"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
	inMoE   = with(inLayer, map[string]string{
		"mlp.gate":              "ffn_gate_inp",
		"mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
	})
)

// outside has the names of tensors outside of layers.
var outside = map[string]string{"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

var attention = []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}

// architectures has the known architectures by the class in config.json's architectures.
var architectures = map[string]architecture{
	"LlamaForCausalLM":    {name: "llama", modelType: "llama", members: llamaOnly, defaults: llamaDefaults, layer: inDense, permute: true},
	"Qwen2ForCausalLM":    {name: "qwen2", modelType: "qwen2", members: windows, defaults: qwen2Defaults, layer: inDense, biases: attention[:3]},
	"Qwen3ForCausalLM":    {name: "qwen3", modelType: "qwen3", members: join(noBias, windows), defaults: qwen3Defaults, layer: with(inDense, inNorms)},
	"Qwen3MoeForCausalLM": {name: "qwen3moe", modelType: "qwen3_moe", members: join(noBias, windows, moeOnly), defaults: qwen3MoeDefaults, layer: with(inMoE, inNorms)},
	"GptOssForCausalLM": {name: gptOSS, modelType: "gpt_oss", members: gptOSSOnly, defaults: gptOSSDefaults, layer: with(inMoE, map[string]string{
		"post_attention_layernorm": "post_attention_norm", "self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp",
	}), biases: append(slices.Clone(attention), "mlp.router", "mlp.experts.gate_up_proj", "mlp.experts.down_proj")},
	"Qwen3_5ForCausalLM": {name: linear, modelType: "qwen3_5_text", members: hybridOnly, defaults: hybridDefaults, layer: inHybrid, biases: []string{"linear_attn.dt"}},
	"Qwen3_5ForConditionalGeneration": { // its text
		name: linear, modelType: "qwen3_5", members: hybridOnly, defaults: hybridDefaults, images: true, layer: inHybrid, biases: []string{"linear_attn.dt"},
	},
}

func with(base, more map[string]string) map[string]string {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

func architectureOf(classes []string) (*architecture, error) {
	for _, class := range classes {
		if a, ok := architectures[class]; ok {
			return &a, nil
		}
	}
	return nil, fmt.Errorf("architectures %q are not known, only %s; give a GGUF file of the model instead",
		classes, strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
}

// named is a parsed name of a tensor in the checkpoint: model.layers.3.mlp.experts.7.up_proj.weight has layer 3,
// part mlp.experts.up_proj, expert 7 and kind weight. layer and expert are -1 if the name has none.
type named struct {
	layer, expert int
	part, kind    string
}

func parse(name string) named {
	n := named{layer: -1, expert: -1}
	part, inLayer := strings.CutPrefix(strings.Replace(name, "language_model.", "", 1), "model.layers.")
	if inLayer {
		number, rest, _ := strings.Cut(part, ".")
		if layer, err := strconv.Atoi(number); err == nil {
			n.layer, part = layer, rest
		}
	}
	if number, rest, ok := strings.Cut(strings.TrimPrefix(part, "mlp.experts."), "."); ok && strings.HasPrefix(part, "mlp.experts.") {
		if expert, err := strconv.Atoi(number); err == nil {
			n.expert, part = expert, "mlp.experts."+rest
		}
	}
	n.part, n.kind = part, "weight"
	for _, kind := range []string{".weight", ".bias", "_bias", "_blocks", "_scales"} {
		if short, ok := strings.CutSuffix(part, kind); ok {
			n.part, n.kind = short, kind[1:]
			break
		}
	}
	return n
}

// layout returns the tensors of the GGUF file.
func (a *architecture) layout(c *config, t *tensors, path string) ([]gguf.Tensor, error) {
	l := layout{architecture: a, config: c, experts: map[string][]*stored{}}
	if c.Tied {
		if err := t.tie(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		s := t.byName[name]
		if err := l.add(parse(name), s, t); err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", s.file.Name(), name, err)
		}
	}
	for name, parts := range l.experts {
		if len(parts) != c.Experts || slices.Contains(parts, nil) {
			return nil, fmt.Errorf("%s: tensor %s: not each of %d experts is there", path, name, c.Experts)
		}
		o, err := stacked(name, parts)
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", path, name, err)
		}
		l.list = append(l.list, o)
	}
	if factors := c.ropeFactors(); factors != nil {
		l.list = append(l.list, constant("rope_freqs.weight", factors))
	}
	slices.SortFunc(l.list, func(x, y gguf.Tensor) int { return strings.Compare(x.Name, y.Name) })
	return l.list, l.complete(path)
}

// layout collects the tensors of the file.
type layout struct {
	*architecture
	config  *config
	list    []gguf.Tensor
	experts map[string][]*stored // the experts' matrices that become one tensor, by its name
}

// add adds the tensor or tensors of the file for a tensor of the checkpoint.
func (l *layout) add(n named, s *stored, t *tensors) error {
	c := l.config
	if n.layer >= c.Layers || n.layer < -1 || n.expert >= c.Experts || n.expert < -1 {
		return fmt.Errorf("config.json has %d layers with %d experts", c.Layers, c.Experts)
	}
	switch {
	case strings.HasSuffix(n.part, "rotary_emb.inv_freq"), l.name == linear && beside(n.part):
		return nil
	case n.kind == "bias" && !slices.Contains(c.biases(l.architecture), n.part):
		return errors.New("config.json says that this module has no bias")
	case n.kind == "scales": // with its blocks
		return nil
	case n.part == "mlp.experts.gate_up_proj":
		return l.split(n, s, t)
	case n.kind == "blocks":
		scales := t.byName[strings.TrimSuffix(s.name, "_blocks")+"_scales"]
		return l.append(mxfp4(l.in(n), s, scales, all))
	}
	name := l.in(n)
	switch {
	case name == "":
		return fmt.Errorf("%s has no tensor of that name", l.name)
	case n.expert >= 0:
		if l.experts[name] == nil {
			l.experts[name] = make([]*stored, c.Experts)
		}
		l.experts[name][n.expert] = s
		return nil
	case l.transposes(n):
		return l.append(transposed(name, s, all))
	case l.name == linear:
		return l.append(c.hybrid(name, n, s))
	}
	return l.append(l.matrix(name, n.part, s, c.Heads, c.KVHeads))
}

// matrix returns a tensor of the file, permuted if it is one of queries or keys and the architecture needs that.
func (a *architecture) matrix(name, part string, s *stored, heads, kvHeads int) (gguf.Tensor, error) {
	switch {
	case a.permute && part == "self_attn.q_proj":
		return permuted(name, s, heads)
	case a.permute && part == "self_attn.k_proj":
		return permuted(name, s, kvHeads)
	}
	return plain(name, s)
}

func (l *layout) append(o gguf.Tensor, err error) error {
	if err == nil {
		l.list = append(l.list, o)
	}
	return err
}

// in returns the name in the file, "" for an unknown tensor.
func (l *layout) in(n named) string {
	kind := "." + strings.Replace(n.kind, "blocks", "weight", 1)
	name, at := outside[n.part], ""
	if n.layer >= 0 {
		name, at = l.layer[n.part], fmt.Sprintf("blk.%d.", n.layer)
	}
	switch name {
	case "":
		return ""
	case "ssm_a":
		kind = ""
	}
	return at + name + kind
}

// transposes reports whether the experts' matrices must be transposed: GPT-OSS's have their inputs
// as rows, unless they are MXFP4.
func (l *layout) transposes(n named) bool {
	return l.name == gptOSS && n.part == "mlp.experts.down_proj" && n.kind == "weight"
}

// split adds gate and up of gate_up_proj: in GPT-OSS its even and odd rows, otherwise its first and second half.
func (l *layout) split(n named, s *stored, t *tensors) error {
	for i, part := range []string{"mlp.experts.gate_proj", "mlp.experts.up_proj"} {
		half := n
		half.part = part
		name, take := l.in(half), halves(i)
		if l.name == gptOSS {
			take = everyOther(i)
		}
		var err error
		switch {
		case n.kind == "blocks":
			err = l.append(mxfp4(name, s, t.byName[strings.TrimSuffix(s.name, "_blocks")+"_scales"], take))
		case l.name == gptOSS && n.kind == "weight":
			err = l.append(transposed(name, s, take))
		default:
			err = l.append(taken(name, s, take))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// biases returns the modules of a layer that have a bias.
func (c *config) biases(a *architecture) []string {
	list := a.biases
	if a.members["attention_bias"].word == used && c.AttentionBias {
		list = append(slices.Clone(list), attention...)
	}
	if c.MLPBias {
		list = append(slices.Clone(list), "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
	}
	return list
}

// complete checks that each layer has the tensors of the first one. llama.cpp reports other missing tensors.
func (l *layout) complete(path string) error {
	have := map[string]bool{}
	for _, o := range l.list {
		have[o.Name] = true
	}
	for _, o := range l.list {
		rest, first := strings.CutPrefix(o.Name, "blk.0.")
		for i := 1; first && (l.name != linear || !ofOneKind(rest)) && i < l.config.Layers; i++ {
			if name := fmt.Sprintf("blk.%d.%s", i, rest); !have[name] {
				return fmt.Errorf("%s: the checkpoint has no tensor for %s", path, name)
			}
		}
	}
	needed := []string{"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight"}
	if !l.config.Tied {
		needed = append(needed, "output.weight")
	}
	for _, module := range l.config.biases(l.architecture) {
		if name := l.in(named{part: module, kind: "bias"}); name != "" && l.name != linear {
			needed = append(needed, name)
		}
	}
	for _, name := range needed {
		if !have[name] {
			return fmt.Errorf("%s: the checkpoint has no tensor for %s", filepath.Clean(path), name)
		}
	}
	return nil
}
