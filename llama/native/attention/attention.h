// Attention for the CPU, made for agents: many short rows over one unified KV
// cache, whose cells are shared. See attention_backend.cpp for what it is to
// llama.cpp, attention_plan.cpp for who shares what, attention_kernel.h for the
// computation.
#pragma once

#include "agentd-mask.h" // third_party/patch

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace agd::attention {

constexpr int tile      = 32; // cells computed at once: the bits of one word
constexpr int max_group = 64; // rows that share a tile once it is loaded: the bits of a row_set

using row_set = uint64_t; // rows of a group

// entry says which cells of a block a row of the group sees.
struct entry {
    uint32_t row;
    uint32_t cells; // bit i: the i-th
};

// block is a tile for the rows that see cells of it: consecutive cells, or some
// that are gathered.
struct block {
    uint32_t first;      // cell, or where the gathered ones begin in group::cells
    uint32_t gathered;   // how many; 0: the tile's consecutive ones
    uint32_t begin, end; // entries
};

// group is some rows of the batch with all that they see.
struct group {
    std::vector<uint32_t> rows; // of the batch, at most max_group
    std::vector<block>    blocks;
    std::vector<entry>    entries; // of the blocks
    std::vector<uint32_t> cells;   // that are gathered
};

// visible says which cells (a multiple of tile) each row sees: as bits, if they are given, or
// as values (F16: 0 is seen, -inf is not).
struct visible {
    const agentd::bit_rows * bits;
    const uint16_t *         values;
    size_t                   stride; // of a row of values
    int                      rows, cells;
};

// plan groups the rows of a mask. groups is how many there shall be at least, if there
// are enough rows. Values are some ten megabytes with a full cache, and reading them
// is a part of a prompt's time: threads share it.
void plan(const visible & mask, int groups, int threads, std::vector<group> & out);

// mask_bits are what masks of a graph have for their rows. A pointer to each is kept.
using mask_bits = std::vector<std::unique_ptr<agentd::bit_rows>>;

// use_bits decides which masks of a graph are written as bits. bits_of says whose a node is: what
// the backend has that computes it, if that is one of ours, or null.
void use_bits(ggml_backend_sched_t sched, ggml_cgraph * graph, mask_bits * (*bits_of)(ggml_backend_sched_t, ggml_tensor *));

// element is how keys or values are kept: what the kernels read themselves, or not.
enum class element { f16, bf16, q8_0, other };

// kept is the keys or values of a cache. Strides and sizes are in bytes.
struct kept {
    const char * data;
    size_t       cell, head; // strides
    size_t       size;       // of one cell and head
    element      type;
    void (*to_float)(const void * from, float * to, int64_t n); // of other
};

// operands are the tensors of one attention. Strides are in bytes.
struct operands {
    const char *  q;
    kept          k, v;
    float *       out; // rows x heads x dv
    const float * sinks; // a logit for each head, that takes weight from all cells; or null
    size_t        q_row, q_head;
    int           dk, dv;
    int           heads;  // of q
    int           repeat; // heads of q for each of k and v
    float         scale;
};

// scratch_floats is how many floats compute needs beside its operands.
size_t scratch_floats(const operands & o);

// compute does the rows of a group for one head of k and v; scratch is aligned to 64 bytes.
using kernel = void (*)(const operands & o, const group & g, int head, float * scratch);

void compute_avx512(const operands & o, const group & g, int head, float * scratch);
void compute_avx2(const operands & o, const group & g, int head, float * scratch);

} // namespace agd::attention
