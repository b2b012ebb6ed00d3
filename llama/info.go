package llama

// #include "native/api.h"
import "C"

import (
	"maps"
	"math"
	"strconv"
	"unsafe"
)

// ModelInfo describes a model file.
type ModelInfo struct {
	Architecture string // general.architecture: "qwen3", "gpt-oss"
	Name         string // general.name, "" if the file has none
	Description  string // in one line: architecture, size, file type
	Params       uint64
	SizeBytes    uint64 // of all tensors

	ContextTrain  int // context length of the training
	Embedding     int
	Layers        int
	SlidingWindow int  // 0: none
	Recurrent     bool // a recurrent state instead of a KV cache, as in Mamba
	Hybrid        bool // layers of both kinds, as in Qwen 3.5

	FileType     string         // llama.cpp's name: "F16", "Q8_0", "Q4_K - Medium"
	TensorTypes  map[string]int // number of tensors of each ggml type; empty with SetVocabOnly
	ExpertTypes  map[string]int // the same for tensors with more than two dimensions, mostly experts
	Quantized    bool           // some tensor is quantized
	NativeMXFP4  bool           // some tensor is MXFP4, the type in which GPT-OSS is published
	ChatTemplate bool           // the file has a chat template
}

func readInfo(m *Model) ModelInfo {
	info := ModelInfo{
		Architecture:  m.metadata["general.architecture"],
		Name:          m.metadata["general.name"],
		Params:        uint64(C.llama_model_n_params(m.ptr)),
		SizeBytes:     uint64(C.llama_model_size(m.ptr)),
		ContextTrain:  int(uint32(C.llama_model_n_ctx_train(m.ptr))),
		Embedding:     int(C.llama_model_n_embd(m.ptr)),
		Layers:        int(C.llama_model_n_layer(m.ptr)),
		SlidingWindow: int(C.llama_model_n_swa(m.ptr)),
		Recurrent:     bool(C.llama_model_is_recurrent(m.ptr)),
		Hybrid:        bool(C.llama_model_is_hybrid(m.ptr)),
		FileType:      C.GoString(C.llama_ftype_name(C.llama_model_ftype(m.ptr))),
		TensorTypes:   map[string]int{},
		ExpertTypes:   map[string]int{},
		ChatTemplate:  C.llama_model_chat_template(m.ptr, nil) != nil,
	}
	// llama_model_desc guesses the size from the number of layers.
	info.Description = info.Architecture + " " + sizeName(info.Params) + " " + info.FileType
	var counts, experts [C.GGML_TYPE_COUNT]C.int32_t
	C.agd_model_tensor_types(m.ptr, &counts[0], &experts[0])
	for t, n := range counts {
		if n == 0 {
			continue
		}
		typ := C.enum_ggml_type(t)
		name := C.GoString(C.ggml_type_name(typ))
		info.TensorTypes[name], info.ExpertTypes[name] = int(n), int(experts[t])
		info.Quantized = info.Quantized || bool(C.ggml_is_quantized(typ))
		info.NativeMXFP4 = info.NativeMXFP4 || typ == C.GGML_TYPE_MXFP4
	}
	return info
}

// sizeName writes a number of parameters as in names of models: 135M, 1.7B, 32B.
func sizeName(params uint64) string {
	size, unit := float64(params)/1e6, "M"
	if size >= 999.5 {
		size, unit = size/1e3, "B"
	}
	if size < 9.95 {
		return strconv.FormatFloat(math.Round(size*10)/10, 'f', -1, 64) + unit
	}
	return strconv.FormatFloat(size, 'f', 0, 64) + unit
}

// Metadata returns a copy of the file's key-value pairs as text, without arrays.
func (m *Model) Metadata() map[string]string { return maps.Clone(m.metadata) }

func readMetadata(ptr *C.struct_llama_model) map[string]string {
	n := C.llama_model_meta_count(ptr)
	meta := make(map[string]string, int(n))
	for i := range n {
		key := modelString(func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_model_meta_key_by_index(ptr, i, buf, size)
		})
		meta[key] = modelString(func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_model_meta_val_str_by_index(ptr, i, buf, size)
		})
	}
	return meta
}

// modelString returns the string that a C function writes like snprintf.
func modelString(read func(buf *C.char, size C.size_t) C.int32_t) string {
	buf := make([]byte, 256)
	for {
		n := int(read((*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf))))
		if n < 0 {
			return ""
		}
		if n < len(buf) {
			return string(buf[:n])
		}
		buf = make([]byte, n+1)
	}
}

// SamplingDefault returns the sampling parameter general.sampling.NAME of the model file, nil if it has none.
func (m *Model) SamplingDefault(name string) *float32 {
	f, err := strconv.ParseFloat(m.metadata["general.sampling."+name], 32)
	if err != nil || math.IsNaN(f) {
		return nil
	}
	v := float32(f)
	return &v
}
