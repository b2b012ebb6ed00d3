package llama

// #include "native/api.h"
import "C"

import "strings"

// Placement is the memory of a context and its model on one device.
type Placement struct {
	Device  string // Device.Name; "CPU" for host memory
	Layers  int    // number of the model's layers
	Weights uint64 // bytes; contexts of one model share them
	Memory  uint64 // bytes of the KV cache and of recurrent state
	Compute uint64 // bytes of buffers for the evaluation of graphs
}

// Placement returns the memory on each device, host memory first. With SplitTensor llama.cpp reports
// all devices as one.
func (c *Context) Placement() []Placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() != nil {
		return nil
	}
	var uses [maxPlaces]C.struct_agd_use
	n := min(int(C.agd_context_uses(c.ptr, &uses[0], maxPlaces)), maxPlaces)
	list := make([]Placement, 0, n)
	for _, u := range uses[:n] {
		p := Placement{Device: "CPU", Layers: int(u.layers), Weights: uint64(u.weights), Memory: uint64(u.memory), Compute: uint64(u.compute)}
		if u.device != nil {
			p.Device = strings.TrimSpace(C.GoString(C.ggml_backend_dev_name(u.device)))
		}
		list = append(list, p)
	}
	return list
}
