// The kernel of ggml's CUDA code that lists the cells which a row or a tile of rows sees, run on the CPU: the lists are
// those of plain loops over the mask, and with the bounds of agentd-mask.h no cell is dropped. compact_test.go cuts the
// kernel out of llama.cpp's tree. Each thread of a block is a coroutine.
#include "agentd-mask.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>

#include <ucontext.h>

namespace cuda {

struct dim3 {
    int x = 1, y = 1, z = 1;
};
struct half {
    uint16_t bits;
};

constexpr int WARP_SIZE = 32;
constexpr int threads   = 256; // of a block
dim3          threadIdx, blockIdx, blockDim, gridDim;

ucontext_t            block, thread[threads];
std::vector<char>     stacks(threads * size_t{ 1 << 16 });
std::function<void()> kernel;
int                   running = 0;
bool                  ended[threads];
uint32_t              votes[threads / WARP_SIZE][2];
int                   voted[threads];

// All threads of a block take the same way through the kernel, so each turn takes all of them to the same place.
void __syncthreads() {
    swapcontext(&thread[running], &block);
}

uint32_t __ballot_sync(uint32_t, bool vote) {
    const int  me = running;
    uint32_t & of = votes[me / WARP_SIZE][voted[me]++ % 2];
    of            = (me % WARP_SIZE == 0 ? 0 : of) | uint32_t{ vote } << (me % WARP_SIZE);
    __syncthreads();
    return of;
}

int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
}
float __half2float(half h) {
    return h.bits == 0 ? 0 : -INFINITY;
}
void ggml_cuda_pdl_sync() {}
void ggml_cuda_pdl_lc() {}

void run_block() {
    for (int t = 0; t < threads; t++) {
        getcontext(&thread[t]);
        thread[t].uc_stack.ss_sp   = stacks.data() + t * stacks.size() / threads;
        thread[t].uc_stack.ss_size = stacks.size() / threads;
        thread[t].uc_link          = &block;
        ended[t]                   = false;
        voted[t]                   = 0;
        makecontext(&thread[t], [] { kernel(), ended[running] = true; }, 0);
    }
    for (bool more = true; more;) {
        more = false;
        for (running = 0; running < threads; running++) {
            if (!ended[running]) {
                threadIdx.x = running;
                swapcontext(&block, &thread[running]);
                more |= !ended[running];
            }
        }
    }
}

using std::isfinite;
using std::min;
#define __launch_bounds__(...)
#define __global__
#define __shared__ static
#include "compact.inc"
#undef __shared__

} // namespace cuda

namespace {

std::mt19937 rng{ 5 };

int below(int n) {
    return static_cast<int>(rng() % static_cast<unsigned>(n));
}

void check(bool ok, const char * what, int line) {
    if (!ok) {
        std::fprintf(stderr, "compact.cpp:%d: not so: %s\n", line, what);
        std::exit(1);
    }
}
#define CHECK(x) check((x), #x, __LINE__)

constexpr int size = 2304; // cells: more than one turn of the kernel's loop

struct batch {
    std::vector<int32_t>   sequences, pos;
    std::vector<int32_t *> seq_id;
    uint32_t               n_tokens;
};

// A forest of sequences, each forked from another or empty, over cells in any order.
std::vector<agentd::position_set> forest() {
    std::vector<uint32_t> free(size);
    for (int i = 0; i < size; i++) {
        free[i] = i;
    }
    std::shuffle(free.begin(), free.end(), rng);
    std::vector<agentd::position_set> list;
    for (int s = 0; s < 20; s++) {
        agentd::position_set of;
        int                  n = 0;
        if (s > 0 && below(3) > 0) {
            const agentd::position_set & from = list[below(s)];
            const int                    most = below(static_cast<int>(from.size()) + 1);
            from.each(0, most, [&](uint32_t c) { of.insert({ n++, c }); });
        }
        for (int more = 1 + below(90); more > 0 && !free.empty(); more--) {
            of.insert({ n++, free.back() });
            free.pop_back();
        }
        list.push_back(of);
    }
    return list;
}

template <int ncols1>
void compare(const std::vector<uint16_t> & mask, int rows, int bound) {
    const int            tiles = (rows + ncols1 - 1) / ncols1;
    std::vector<int32_t> indices(tiles * bound, 7), counts(tiles, 7);
    for (int t = 0; t < tiles; t++) {
        cuda::blockIdx = { t, 0, 0 };
        cuda::gridDim  = { tiles, 1, 1 };
        cuda::blockDim = { cuda::threads, 1, 1 };
        cuda::kernel   = [&] {
            const auto * m = reinterpret_cast<const cuda::half *>(mask.data());
            if (rows % ncols1 != 0) {
                cuda::flash_attn_mask_to_sparse_indices<ncols1, true>(m, indices.data(), counts.data(), size, rows,
                                                                      bound, size, 0);
            } else {
                cuda::flash_attn_mask_to_sparse_indices<ncols1, false>(m, indices.data(), counts.data(), size, rows,
                                                                       bound, size, 0);
            }
        };
        cuda::run_block();
    }
    for (int t = 0; t < tiles; t++) {
        std::vector<int32_t> want;
        for (int c = 0; c < size; c++) {
            bool seen = false;
            for (int r = t * ncols1; r < std::min(rows, (t + 1) * ncols1); r++) {
                seen |= mask[r * size + c] == 0;
            }
            if (seen) {
                want.push_back(c);
            }
        }
        CHECK(counts[t] == static_cast<int32_t>(want.size()));
        want.resize(bound, -1);
        CHECK(std::equal(want.begin(), want.end(), indices.begin() + t * bound));
    }
}

void forests() {
    const std::vector<agentd::position_set> sequences = forest();
    batch                                   b;
    for (int s : { 3, 1, 4, 15, 9, 2, 6, 5, 8, 7, 11, 0, 14 }) { // some have several rows
        const int n = static_cast<int>(sequences[s].size());
        for (int i = std::min(n, 1 + below(3) * below(5)); i > 0; i--) {
            b.sequences.push_back(s);
            b.pos.push_back(n - i);
        }
    }
    b.n_tokens = b.pos.size();
    for (int32_t & s : b.sequences) {
        b.seq_id.push_back(&s);
    }
    std::vector<uint16_t>            mask(size * b.n_tokens, 7);
    agentd::row_lists                counts;
    static const agentd::graph_hooks hooks{};
    ggml_tensor                      t{};
    counts.count = true;
    t.ne[0] = size, t.ne[1] = b.n_tokens;
    t.type = GGML_TYPE_F16, t.data = mask.data(), t.extra = &counts;
    agentd::installed() = &hooks;
    const int window    = below(3) == 0 ? 1 + below(60) : 0;
    CHECK(agentd::fill_mask(&t, b, window, [&](int s) -> const auto & { return sequences[s]; }));
    compare<1>(mask, static_cast<int>(b.n_tokens), counts.row_cells);
    compare<agentd::tile_rows>(mask, static_cast<int>(b.n_tokens), counts.tile_cells);
}

} // namespace

int main() {
    for (int i = 0; i < 8; i++) {
        forests();
    }
    std::puts("ok");
}
