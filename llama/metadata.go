package llama

// #include "gguf.h"
// #include "native/api.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// divisors are integers in the metadata by which llama.cpp divides, without a check, while it loads a
// model or builds its graph. A division by zero ends the process.
var divisors = []struct {
	key    string   // after the name of the architecture
	only   []string // architectures that divide by it; nil: all
	except []string // architectures that accept zero
}{
	{key: "full_attention_interval"},
	{key: "wkv.head_size"},
	{key: "experts_per_group"},
	{key: "ssm.time_step_rank"},
	{key: "ssm.group_count", except: []string{"plamo2"}},
	{key: "attention.output_group_count", only: []string{"deepseek4"}},
	{key: "interleave_moe_layer_step", only: []string{"ernie4_5-moe"}},
}

// others has the errors for GGUF files that are not models, by general.type and general.architecture.
var others = map[string]error{
	"clip": ErrIsVision, "mmproj": ErrIsVision, "adapter": ErrIsAdapter,
	"imatrix": errors.New("it is an importance matrix for quantizing, not a model"), "controlvector": errors.New("it is a control vector, not a model"),
}

// checkMetadata refuses files that are not models, and divisors that are zero. It ignores a file that can't
// be read, which the loader refuses.
func checkMetadata(path string) error {
	var g *C.struct_gguf_context
	cstring(path, func(p *C.char) { g = C.gguf_init_from_file(p, C.struct_gguf_init_params{no_alloc: true}) })
	if g == nil {
		return nil
	}
	defer C.gguf_free(g)
	find := func(key string, kind C.enum_gguf_type) C.int64_t {
		id := C.int64_t(-1)
		cstring(key, func(k *C.char) { id = C.gguf_find_key(g, k) })
		if id >= 0 && C.gguf_get_kv_type(g, id) != kind {
			return -1
		}
		return id
	}
	text := func(key string) string {
		if id := find(key, C.GGUF_TYPE_STRING); id >= 0 {
			return C.GoString(C.gguf_get_val_str(g, id))
		}
		return ""
	}
	arch := text("general.architecture")
	if err := cmp.Or(others[text("general.type")], others[arch]); err != nil {
		return err
	}
	for _, d := range divisors {
		if d.only != nil && !slices.Contains(d.only, arch) || slices.Contains(d.except, arch) {
			continue
		}
		key := arch + "." + d.key
		if id := find(key, C.GGUF_TYPE_UINT32); id >= 0 && C.gguf_get_val_u32(g, id) == 0 {
			return fmt.Errorf("the metadata %s is 0, but must be at least 1", key)
		}
	}
	return nil
}

// checkRotation refuses numbers of rotated dimensions (RoPE) with which the first decode would fail an
// assertion or not end.
func checkRotation(ptr *C.struct_llama_model, metadata map[string]string) error {
	if C.llama_model_rope_type(ptr) == C.LLAMA_ROPE_TYPE_NONE {
		return nil
	}
	arch := metadata["general.architecture"] + "."
	for _, suffix := range []string{"", "_swa"} {
		key := arch + "rope.dimension_count" + suffix
		n, err := strconv.ParseUint(metadata[key], 10, 32)
		if err != nil {
			continue // absent, or one for each layer
		}
		length, err := strconv.ParseUint(metadata[arch+"attention.key_length"+suffix], 10, 32)
		switch {
		case n == 0 || n%2 != 0:
			return fmt.Errorf("the metadata %s is %d, but must be even and at least 2", key, n)
		case err == nil && n > length:
			return fmt.Errorf("the metadata %s is %d, more than the %d of %sattention.key_length%s", key, n, length, arch, suffix)
		}
	}
	key := arch + "rope.scaling.yarn_beta_fast"
	if fast, err := strconv.ParseFloat(metadata[key], 32); err == nil && fast < 0 {
		// third_party/patch
		var ends [2]C.float
		if C.ggml_rope_yarn_corr_dims(64, 4096, 150000, -32, 1, &ends[0]); ends[0] == C.float(int(ends[0])) {
			return fmt.Errorf("the metadata %s is negative: the range of YaRN is not rounded, but this llama.cpp rounds it, without agentd's patch", key)
		}
	}
	return nil
}
