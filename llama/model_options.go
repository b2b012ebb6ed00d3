package llama

// #include "native/api.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// ModelOption configures New.
type ModelOption func(*modelOptions)

type modelOptions struct {
	gpuLayers   int
	devices     []string // nil: all
	tensorSplit []float32
	splitMode   string
	mmap        *bool
	vocabOnly   bool
	progress    func(float32)
	cancel      context.Context
}

// SetGPULayers sets how many layers GPUs compute; negative means all (the default).
func SetGPULayers(n int) ModelOption { return func(o *modelOptions) { o.gpuLayers = n } }

// SetDevices restricts offloading to the named devices (see Devices). "cpu"
// or "none" alone means no offloading. Without it all GPUs are used.
func SetDevices(names ...string) ModelOption {
	return func(o *modelOptions) { o.devices = append([]string{}, names...) }
}

// SetTensorSplit sets the shares of the model on the GPUs; only their ratios count.
func SetTensorSplit(shares ...float32) ModelOption {
	return func(o *modelOptions) { o.tensorSplit = shares }
}

// Ways of dividing a model among several devices, for SetSplitMode.
const (
	SplitLayer  = "layer"  // each device has some layers, and computes after the device before it
	SplitTensor = "tensor" // each device has a part of all matrices, attention heads and KV cache; all compute at once
)

var splitModes = map[string]C.enum_llama_split_mode{
	SplitLayer: C.LLAMA_SPLIT_MODE_LAYER, SplitTensor: C.LLAMA_SPLIT_MODE_TENSOR,
}

// SetSplitMode sets how the model is divided among several devices; the default is SplitLayer. New
// fails if the backend or the architecture does not support the mode.
func SetSplitMode(mode string) ModelOption { return func(o *modelOptions) { o.splitMode = mode } }

// SetMMap sets whether the file is mapped into memory or read; by default llama.cpp decides.
func SetMMap(on bool) ModelOption { return func(o *modelOptions) { o.mmap = &on } }

// SetVocabOnly loads the vocabulary and the metadata without weights. Such a model can't have contexts.
func SetVocabOnly(on bool) ModelOption { return func(o *modelOptions) { o.vocabOnly = on } }

// SetProgress sets a function that the loading goroutine calls with the loaded fraction, from 0 to 1.
func SetProgress(report func(fraction float32)) ModelOption {
	return func(o *modelOptions) { o.progress = report }
}

// SetCancel makes New fail with the context's cause once ctx is done.
func SetCancel(ctx context.Context) ModelOption { return func(o *modelOptions) { o.cancel = ctx } }

func (o *modelOptions) validate() error {
	if o.gpuLayers > math.MaxInt32 {
		return fmt.Errorf("llama: GPU layers: %d is more than any model has", o.gpuLayers)
	}
	o.gpuLayers = max(o.gpuLayers, -1)
	if o.cancel == nil {
		o.cancel = context.Background()
	}
	if _, ok := splitModes[o.splitMode]; !ok {
		return fmt.Errorf("llama: split mode %q is neither %s nor %s", o.splitMode, SplitLayer, SplitTensor)
	}
	var sum float64
	for i, share := range o.tensorSplit {
		if share < 0 || math.IsNaN(float64(share)) || math.IsInf(float64(share), 0) {
			return fmt.Errorf("llama: tensor split: share %d is %v, not a number from 0 up", i, share)
		}
		sum += float64(share)
	}
	if len(o.tensorSplit) > 0 && sum == 0 {
		return fmt.Errorf("llama: tensor split: all shares are 0")
	}
	return nil
}

// findDevices makes a NULL-terminated list for llama.cpp.
func findDevices(names []string) ([]C.ggml_backend_dev_t, error) {
	var devices []C.ggml_backend_dev_t
	for _, name := range names {
		if len(names) == 1 && (strings.EqualFold(name, "cpu") || strings.EqualFold(name, "none")) {
			break
		}
		var dev C.ggml_backend_dev_t
		cstring(name, func(p *C.char) { dev = C.ggml_backend_dev_by_name(p) })
		if dev == nil || C.ggml_backend_dev_type(dev) == C.GGML_BACKEND_DEVICE_TYPE_CPU {
			return nil, fmt.Errorf("device %q: there are %s to offload to, or \"cpu\" alone", name, offloadNames())
		}
		devices = append(devices, dev)
	}
	return append(devices, nil), nil
}

func offloadNames() string {
	var names []string
	for _, d := range Devices() {
		if d.Type != "cpu" {
			names = append(names, fmt.Sprintf("%q", d.Name))
		}
	}
	if len(names) == 0 {
		return "no devices"
	}
	return strings.Join(names, ", ")
}

// tensorSplit pads the shares with zeros to the length that llama.cpp reads.
func tensorSplit(shares []float32) ([]C.float, error) {
	list := make([]C.float, C.llama_max_devices())
	if len(shares) > len(list) {
		return nil, fmt.Errorf("tensor split: %d shares, at most %d devices", len(shares), len(list))
	}
	for i, share := range shares {
		list[i] = C.float(share)
	}
	return list, nil
}
