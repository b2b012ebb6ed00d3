package llama

// #include "native/api.h"
import "C"

import "strconv"

// SetGather makes devices list the cells that each row sees and compute attention over
// these alone, in all contexts that the process makes from then on. Close other contexts
// first. Off, the default, they go through all cells of the cache up to the last one in use.
// A device gathers where the cache has 4096 cells in use or more and at least twice as many
// as the rows see; see [Model.GathersOn]. ErrIncompatible: llama.cpp lacks agentd's patch,
// which counts the cells of each step.
func SetGather(on bool) error {
	install()
	var cerr *C.char
	if !C.agd_gather(C.bool(on), &cerr) {
		return native(ErrIncompatible, takeString(cerr))
	}
	return nil
}

// GathersOn reports whether the named device (see Devices) can gather for this model with
// keys and values of the given type (see SetKVType).
func (m *Model) GathersOn(device, kvType string) bool {
	ptr, err := m.acquire()
	if err != nil {
		return false
	}
	defer m.release()
	heads, kvHeads := int64(C.llama_model_n_head(ptr)), int64(C.llama_model_n_head_kv(ptr))
	if heads <= 0 || kvHeads <= 0 { // no attention in the first layer
		return false
	}
	length := func(key string) C.int64_t {
		n, err := strconv.Atoi(m.metadata[m.metadata["general.architecture"]+".attention."+key])
		if err != nil || n <= 0 {
			n = int(C.llama_model_n_embd(ptr)) / int(heads)
		}
		return C.int64_t(n)
	}
	var dev C.ggml_backend_dev_t
	cstring(device, func(p *C.char) { dev = C.ggml_backend_dev_by_name(p) })
	return bool(C.agd_gathers(dev, length("key_length"), length("value_length"), C.int64_t(heads/kvHeads), C.int32_t(kvTypes[kvType])))
}

// gathered counts the attentions that had a bound with which a device gathers, in all contexts.
func gathered() uint64 { return uint64(C.agd_gathered()) }
