// Attention on the CPU for many short rows over one unified KV cache, whose cells the rows share: see README.md.
#pragma once

#include "agentd-mask.h" // third_party/patch

#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace agd::attention {

constexpr int tile      = agentd::row_lists::chunk; // positions computed at once: the bits of one word
constexpr int max_group = 64;                       // rows that share a tile once it is loaded

constexpr float log2e = 1.44269504f; // scores have this factor, so that weights are powers of 2

// The cells of a block that one row of the group sees.
struct entry {
    uint32_t row;
    uint32_t cells; // bit i: the i-th
};

// A tile for the rows that see cells of it: those at the positions n * tile to (n + 1) * tile - 1, for some n.
struct block {
    uint32_t first;      // of its cells in group::cells, where it has a whole tile
    uint32_t size;       // the rest of the tile is seen by no row
    uint32_t begin, end; // entries
};

// Some rows of the batch with all that they see. The blocks of a row have the order of positions.
struct group {
    std::vector<uint32_t>     rows; // of the batch, at most max_group
    std::vector<block>        blocks;
    std::vector<entry>        entries; // of the blocks
    std::vector<agentd::cell> cells;   // row_lists::none: no row sees one
};

// Which cells each row sees.
struct mask_view {
    const agentd::row_lists * lists;  // used if not null
    const uint16_t *          values; // F16: 0 is visible, -inf is not
    size_t                    stride; // of a row of values
    int                       rows, cells;
};

// Splits the rows of a mask into at least the given number of groups, if there are enough rows, and plans each.
// A mask of values has no positions; its cells count as positions in their order.
void plan(const mask_view & mask, int groups, int threads, std::vector<group> & out);

// The masks of a graph that are lists. A tensor keeps a pointer to each.
using mask_lists = std::vector<std::unique_ptr<agentd::row_lists>>;

// Decides which masks of a graph llama.cpp writes as lists. lists_of returns the lists of the backend that computes a
// node, or null if the backend is not ours.
void use_lists(ggml_backend_sched_t sched, ggml_cgraph * graph,
               mask_lists * (*lists_of)(ggml_backend_sched_t, ggml_tensor *) );

// Types of keys and values. The kernels read all but other themselves.
enum class element { f32, f16, bf16, q8_0, other };

// The keys or values of a cache. Strides and sizes are in bytes.
struct kv_view {
    const char * data;
    size_t       cell, head; // strides
    size_t       size;       // of one cell and head
    element      type;
    void (*to_float)(const void * from, float * to, int64_t n); // of other
};

// Keys or values of a ggml type, with n values for each cell and head.
kv_view make_kv_view(const void * data, ggml_type type, size_t cell, size_t head, int64_t n);

// The tensors of one attention. Strides are in bytes.
struct operands {
    const char *  q;
    kv_view       k, v;
    float *       out;   // rows x heads x dv
    const float * sinks; // a logit for each head, which takes weight from all cells; or null
    size_t        q_row, q_head;
    int           dk, dv;
    int           heads;  // of q
    int           repeat; // heads of q for each of k and v
    float         scale;
};

// The floats that a kernel needs for some heads of k and v beside its operands.
size_t scratch_floats(const operands & o, int heads);

// Computes the rows of a group for some heads of k and v, from the first on. scratch is aligned to 64 bytes.
using kernel = void (*)(const operands & o, const group & g, int first, int heads, float * scratch);

void compute_avx512(const operands & o, const group & g, int first, int heads, float * scratch);
void compute_avx2(const operands & o, const group & g, int first, int heads, float * scratch);
void compute_avx512_bf16(const operands & o, const group & g, int first, int heads, float * scratch);
void compute_amx_bf16(const operands & o, const group & g, int first, int heads, float * scratch);
bool can_use_amx(); // whether the processor and Linux let this process

// How many heads a kernel had best compute at once. The heads of a cell lie side by side in the cache.
int heads_at_once(const operands & o, const group & g);

constexpr int max_kernels = 2;

// The kernels that this CPU can run, the best first, ended by null. They compute in F32.
const kernel * kernels();

// Faster kernels, which round queries, keys, values and weights to BF16, as kernels() lists its own. They are for
// operands that are packable, and for models whose products round activations to so few bits.
const kernel * packed_kernels();
bool           packable(const operands & o); // dk and dv are multiples of 32, and the cache has F16, BF16 or Q8_0

// The best kernel for a model whose products round activations, or do not. It must not depend on the batch.
kernel kernel_for(const operands & o, bool rounds);

// Whether the products of a graph round activations to BF16 or to 8 bits. The first weights decide, which every graph
// of a model has.
bool rounds_activations(ggml_cgraph * graph);

// A buffer of floats for one thread.
class scratch_buffer {
    struct aligned_free {
        void operator()(float * p) const { ::operator delete[](p, std::align_val_t{ 64 }); }
    };
    std::unique_ptr<float[], aligned_free> data;
    size_t                                 size = 0;

  public:
    float * reserve(size_t n);
    float * get() const { return data.get(); }
};

} // namespace agd::attention
