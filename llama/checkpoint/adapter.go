package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

const adapterFile = "adapter_model.safetensors"

// Base is the model of an adapter, as its GGUF file describes it.
type Base struct {
	Architecture   string // general.architecture
	Heads, KVHeads int
}

// adapterConfig is what is read of adapter_config.json.
type adapterConfig struct {
	Type    string         `json:"peft_type"`
	Alpha   float64        `json:"lora_alpha"`
	Rank    int            `json:"r"`
	RSLoRA  bool           `json:"use_rslora"`
	DoRA    bool           `json:"use_dora"`
	Whole   []string       `json:"modules_to_save"`
	Alphas  map[string]any `json:"alpha_pattern"`
	Ranks   map[string]any `json:"rank_pattern"`
	Rotated bool           `json:"fan_in_fan_out"`
}

// IsAdapterDirectory reports whether path is a directory with a PEFT adapter.
func IsAdapterDirectory(path string) bool { return isFile(filepath.Join(path, "adapter_config.json")) }

// WriteAdapter writes a LoRA adapter of Hugging Face's PEFT as a GGUF file for base. dir has
// adapter_config.json and adapter_model.safetensors. Errors name the file.
func WriteAdapter(w io.Writer, dir string, base Base) error {
	configPath := filepath.Join(dir, "adapter_config.json")
	var c adapterConfig
	if err := readJSON(dir, "adapter_config.json", &c); err != nil {
		return err
	}
	alpha, err := c.alpha()
	if err != nil {
		return fmt.Errorf("%s: %w", configPath, err)
	}
	var a *architecture
	for _, known := range architectures {
		if known.name == base.Architecture {
			a = &known
		}
	}
	if a == nil {
		return fmt.Errorf("%s: PEFT adapters for %s models are not known; give a GGUF file of the adapter instead", dir, base.Architecture)
	}
	t := &tensors{byName: map[string]*stored{}}
	defer t.close()
	if err := t.open(filepath.Join(dir, adapterFile)); err != nil {
		return err
	}
	var list []gguf.Tensor
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		o, err := a.adapterTensor(t.byName[name], base)
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", filepath.Join(dir, adapterFile), name, err)
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: it has no tensors", filepath.Join(dir, adapterFile))
	}
	g := &gguf.Metadata{}
	g.Set("general.architecture", a.name)
	g.Set("general.type", "adapter")
	g.Set("adapter.type", "lora")
	g.Set("general.name", filepath.Base(filepath.Clean(dir)))
	g.Set("adapter.lora.alpha", alpha)
	return g.Write(w, list)
}

// alpha is the numerator of an adapter's scale, whose denominator is the rank for llama.cpp.
func (c *adapterConfig) alpha() (float64, error) {
	switch {
	case !strings.EqualFold(c.Type, "LORA"):
		return 0, fmt.Errorf("peft_type is %q; only LORA is known", c.Type)
	case c.DoRA || c.Rotated || len(c.Whole) > 0 || len(c.Alphas) > 0:
		return 0, errors.New("use_dora, fan_in_fan_out, modules_to_save and alpha_pattern are not known; merge the adapter into its model")
	case c.RSLoRA && (len(c.Ranks) > 0 || c.Rank <= 0):
		return 0, errors.New("use_rslora needs one rank for all modules")
	case c.RSLoRA: // PEFT divides by the root of the rank
		return c.Alpha * math.Sqrt(float64(c.Rank)), nil
	}
	return c.Alpha, nil
}

// adapterTensor is one of the two matrices that change a matrix of the model.
func (a *architecture) adapterTensor(s *stored, base Base) (gguf.Tensor, error) {
	name := strings.TrimPrefix(s.name, "base_model.model.")
	module, part, ok := strings.Cut(name, ".lora_")
	letter, rest, _ := strings.Cut(part, ".")
	if !ok || letter != "A" && letter != "B" || rest != "weight" || len(s.shape) != 2 {
		return gguf.Tensor{}, errors.New("it is not a matrix lora_A or lora_B of a linear layer; merge the adapter into its model")
	}
	n := parse(module + ".weight")
	to := a.layer[n.part]
	if n.layer < 0 || to == "" || n.expert >= 0 || strings.HasPrefix(n.part, "mlp.experts") || strings.HasPrefix(n.part, "linear_attn.") || strings.HasSuffix(to, "_norm") {
		return gguf.Tensor{}, errors.New("adapters for that module are not known; merge the adapter into its model")
	}
	to = fmt.Sprintf("blk.%d.%s.weight.lora_%s", n.layer, to, strings.ToLower(letter))
	if letter == "A" {
		return plain(to, s)
	}
	return a.matrix(to, n.part, s, base.Heads, base.KVHeads)
}
