package load

import (
	"fmt"
	"strconv"

	"agentd/scheduler"
)

// kvBytes has the bytes of one element of the KV cache by type. In block formats 32 elements share a scale.
var kvBytes = map[string]float64{
	"f32": 4, "f16": 2, "bf16": 2,
	"q8_0": 34.0 / 32, "q5_1": 24.0 / 32, "q5_0": 22.0 / 32, "q4_1": 20.0 / 32, "q4_0": 18.0 / 32, "iq4_nl": 18.0 / 32,
}

// cellBytes returns the bytes of one cell of the KV cache: keys and values of every layer. It reads the metadata of the
// architecture. Missing keys have llama.cpp's defaults.
func cellBytes(metadata map[string]string, architecture, kvType string) float64 {
	number := func(key string, otherwise int) int {
		n, err := strconv.Atoi(metadata[architecture+"."+key])
		if err != nil || n <= 0 { // absent, or a list with a value for each layer
			return otherwise
		}
		return n
	}
	heads := number("attention.head_count", 1)
	kvHeads := number("attention.head_count_kv", heads)
	headDim := number("embedding_length", 0) / max(heads, 1)
	keys := number("attention.key_length", headDim)
	values := number("attention.value_length", headDim)
	return float64(number("block_count", 0)) * float64(kvHeads) * float64(keys+values) * kvBytes[kvType]
}

// contextLimit returns the most cells of a KV cache whose size Open chooses. On the CPU, the contexts of a small
// model together have at most smallCache bytes, but each has the trained context.
func contextLimit(gpu bool, trained, contexts int, weights uint64, perCell float64) int {
	limit := choose(0, gpu, autoContextGPU, autoContextCPU)
	if gpu || weights > smallModel || perCell == 0 {
		return limit
	}
	return min(limit, max(trained, int(smallCache/perCell)/contexts))
}

// fitContext returns the default number of cells of a KV cache: the model's trained context, at least minShared, at
// most limit, and within 1/memoryShare of the free memory. It is a multiple of 256, as llama.cpp requires.
func fitContext(trained, limit int, free uint64, perCell float64) int {
	cells := limit
	if trained > 0 {
		cells = min(cells, max(trained, minShared))
	}
	if free > 0 && perCell > 0 {
		cells = min(cells, int(float64(free)/memoryShare/perCell))
	}
	cells = max(cells, min(minAutoContext, max(trained, 256)))
	return (cells + 255) / 256 * 256
}

// hostCells returns the number of evicted cells that each context can keep in its part of that many megabytes. The
// error says that they are more than free, the free bytes of host memory (0: unknown), or too few.
func hostCells(megabytes int, free uint64, contexts int, perCell float64) (int, error) {
	if megabytes == 0 {
		return 0, nil
	}
	bytes := uint64(megabytes) * 1e6
	if free > 0 && bytes > free {
		return 0, fmt.Errorf("Config.CacheRAM %d is more than the %d MB of free memory; lower it", megabytes, free/1e6)
	}
	cells := int(float64(bytes) / float64(contexts) / perCell)
	if cells < scheduler.MinHostCells {
		return 0, fmt.Errorf("Config.CacheRAM %d holds %d tokens for each context, which is too few; raise it or set it to 0", megabytes, cells)
	}
	return cells, nil
}
