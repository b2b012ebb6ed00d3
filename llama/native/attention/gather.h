// Attention over the cells that a row sees, on devices. ggml's attention on CUDA and Vulkan goes through all cells of
// the cache up to the last one in use, unless FLASH_ATTN_EXT has a bound of the cells that a row sees: operation
// parameter 4. Then it lists the cells of each row, or on CUDA also of each tile of rows, and reads only these. A bound
// that is too small would drop cells without an error, so each evaluation counts its own masks.
#pragma once

#include "ggml-backend.h"

#include <atomic>

namespace agd::attention {

// Whether evaluations set bounds.
extern std::atomic<bool> gathering;

// Asks llama.cpp to count the cells that rows see, of the masks of a graph whose attention a device gathers. To be called
// before the graph's inputs are set; set_bounds, on the same thread, after that.
void ask_counts(ggml_backend_sched_t sched, ggml_cgraph * graph);

// Sets the bounds of that graph. An attention whose mask was not counted gets none: it goes through all cells.
void set_bounds();

} // namespace agd::attention
