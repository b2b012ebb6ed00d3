package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

const adapterFile = "adapter_model.safetensors"

// Base describes the model of an adapter.
type Base struct {
	Architecture   string // general.architecture
	Heads, KVHeads int    // attention heads: of queries, and of keys and values
}

// adapterMembers are the members of adapter_config.json, which PEFT calls LoraConfig.
var adapterMembers = join(
	use("peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern"),
	ignore("the tensors say it", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "qalora_group_size"),
	ignore(noTraining, "lora_dropout", "eva_config", "corda_config", "lora_ga_config", "loftq_config", "inference_mode", "runtime_config"),
	ignore("a note of who wrote the file", "base_model_name_or_path", "revision", "task_type", "auto_mapping", "peft_version", "megatron_core"),
	only(`true, false, "gaussian", "orthogonal", "eva"`, "the adapter belongs to a changed model; convert it to a plain LoRA", "init_lora_weights"),
	only("false", noPlain, "use_dora", "fan_in_fan_out", "use_qalora", "lora_bias", "ensure_weight_tying"),
	only(`"none"`, noPlain, "bias"),
	only("[]", noPlain, "modules_to_save", "target_parameters"),
	only("{}", noPlain, "alpha_pattern"),
	only("", noPlain, "trainable_token_indices", "layer_replication", "megatron_config", "use_bdlora", "arrow_config", "kasa_config",
		"velora_config", "monteclora_config"),
	only("", "activated LoRA is not served", "alora_invocation_tokens"),
)

const (
	noPlain         = "merge the adapter into its model"
	adapterDefaults = `{"r": 8, "lora_alpha": 8}`
)

// adapterConfig has the members of adapter_config.json that are used.
type adapterConfig struct {
	Type   string         `json:"peft_type"`
	Alpha  float64        `json:"lora_alpha"` // after reading: adapter.lora.alpha
	Rank   int            `json:"r"`
	RSLoRA bool           `json:"use_rslora"`
	Ranks  map[string]int `json:"rank_pattern"`
}

// IsAdapterDirectory reports whether path is a directory with a PEFT adapter.
func IsAdapterDirectory(path string) bool { return isFile(filepath.Join(path, "adapter_config.json")) }

// WriteAdapter writes a LoRA adapter of Hugging Face's PEFT as a GGUF file for base. dir must contain
// adapter_config.json and adapter_model.safetensors. Errors name the file.
func WriteAdapter(w io.Writer, dir string, base Base) error {
	var c adapterConfig
	_ = json.Unmarshal([]byte(adapterDefaults), &c) // it is valid
	text, err := readFile(dir, "adapter_config.json")
	if err != nil {
		return err
	}
	if _ = json.Unmarshal(text, &c); json.Valid(text) && !strings.EqualFold(c.Type, "LORA") { // with other members
		err = fmt.Errorf("peft_type is %q; only LORA is known", c.Type)
	} else if err = adapterMembers.read(text, nil, &c); err == nil {
		err = c.scale()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "adapter_config.json"), err)
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
		o, err := a.adapterTensor(t.byName[name], base, &c)
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
	g.Set("adapter.lora.alpha", c.Alpha)
	return g.Write(w, list)
}

// scale makes Alpha adapter.lora.alpha, for which llama.cpp scales by alpha/rank; with rsLoRA, PEFT scales by
// alpha/sqrt(rank).
func (c *adapterConfig) scale() error {
	switch {
	case c.RSLoRA && (len(c.Ranks) > 0 || c.Rank <= 0):
		return errors.New("use_rslora needs one rank for all modules")
	case c.RSLoRA: // PEFT divides by the root of the rank
		c.Alpha *= math.Sqrt(float64(c.Rank))
	}
	return nil
}

// checkRank refuses a module whose matrices have another rank than PEFT gives it.
func (c *adapterConfig) checkRank(module string, rank int64) error {
	want := []int{}
	for pattern, r := range c.Ranks {
		if is, err := regexp.MatchString(`^(.*\.)?(`+pattern+`)$`, module); is || err != nil { // only Python reads it
			want = append(want, r)
		}
	}
	if !slices.Contains(want, int(rank)) && (len(want) > 0 || int(rank) != c.Rank) {
		return fmt.Errorf("its rank is %d, and r or rank_pattern is %d; correct these", rank, append(want, c.Rank)[0])
	}
	return nil
}

// adapterTensor returns lora_a or lora_b of a matrix of the model.
func (a *architecture) adapterTensor(s *stored, base Base, c *adapterConfig) (gguf.Tensor, error) {
	module, part, _ := strings.Cut(strings.TrimPrefix(s.name, "base_model.model."), ".lora_")
	if part != "A.weight" && part != "B.weight" || len(s.shape) != 2 {
		return gguf.Tensor{}, errors.New("it is not a matrix lora_A or lora_B of a linear layer; merge the adapter into its model")
	}
	n := parse(module + ".weight")
	to := a.layer[n.part]
	if n.layer < 0 || to == "" || n.expert >= 0 || strings.HasPrefix(n.part, "mlp.experts") || strings.HasPrefix(n.part, "linear_attn.") || strings.HasSuffix(to, "_norm") {
		return gguf.Tensor{}, errors.New("adapters for that module are not known; merge the adapter into its model")
	}
	if err := c.checkRank(module, s.shape[part[0]-'A']); err != nil {
		return gguf.Tensor{}, err
	}
	to = fmt.Sprintf("blk.%d.%s.weight.lora_%s", n.layer, to, strings.ToLower(part[:1]))
	if part[0] == 'A' {
		return plain(to, s)
	}
	return a.matrix(to, n.part, s, base.Heads, base.KVHeads)
}
