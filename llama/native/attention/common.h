// What all kernels have in common: a group is computed tile by tile, and each tile is loaded once for all rows of the
// group that see it and all heads that share it. That makes candidates of one prompt cheap.
//
// A row's result depends only on its own cells, bit for bit: whatever is computed beside it, each of its sums has the
// same terms in the same order. Hidden cells have weight 0, and adding 0 times a finite value changes nothing.
//
// A file for each instruction set includes this and a kernel. Before, it defines AGD_TARGET (the attribute), vec and
// veci (W floats or ints), W, and total, the sum of a vec. The instruction set is an attribute of these functions and
// not a flag of the compiler, so that inline functions of the standard library still run on every CPU.

#include "exp2_kernel.h"

using agentd::cell;

constexpr cell none    = agentd::row_lists::none; // zeros
constexpr cell unknown = none - 1;

struct state { // of one row and head
    float max, sum;
};

// What a kernel knows of a group and some heads of k and v. Its other memory belongs to the kernel. The rows of the
// group have an index for each head of q: those of one head of k and v lie side by side.
struct task {
    const operands & o;
    const group &    g;
    int              first, heads;
    float *          out;        // indices x dv
    state *          st;         // of each index
    cell             held[tile]; // that the loaded tile has

    AGD_TARGET task(const operands & o, const group & g, int first, int heads)
        : o(o), g(g), first(first), heads(heads) {
        forget();
    }

    AGD_TARGET void forget() {
        for (cell & c : held) {
            c = unknown;
        }
    }

    // The index of a row for a head of q: the r-th of the h-th head of k and v.
    AGD_TARGET size_t index(int h, size_t row, int r) const { return (h * g.rows.size() + row) * o.repeat + r; }

    AGD_TARGET size_t indices() const { return g.rows.size() * heads * o.repeat; }

    // Calls see(index, row of the batch, head of q).
    template <typename F> AGD_TARGET void each_index(F && see) const {
        for (int h = 0; h < heads; h++) {
            for (size_t i = 0; i < g.rows.size(); i++) {
                for (int r = 0; r < o.repeat; r++) {
                    see(index(h, i, r), g.rows[i], (first + h) * o.repeat + r);
                }
            }
        }
    }
};

AGD_TARGET static inline void store(float * p, vec v) {
    __builtin_memcpy(p, &v, sizeof v);
}

AGD_TARGET static inline float exp2_negative(float x) {
    return exp2_negative(vec{} + x)[0];
}

// Cells lie apart, which no hardware prefetcher follows. So the next tile is prefetched while this one is loaded.
AGD_TARGET static inline void prefetch(const kv_view & c, int head, cell at) {
    const char * from = c.data + at * c.cell + head * c.head;
    const char * end  = from + c.size;
    for (from -= reinterpret_cast<uintptr_t>(from) % 64; from < end; from += 64) { // whole cache lines
        __builtin_prefetch(from, 0, 2);
    }
}

// Loads the cells of a block, with zeros for those that seen excludes. Loads nothing that is there already: the tiles
// of sequences that part have cells in common. Returns whether all values are finite.
template <typename kernel_task>
AGD_TARGET static bool load_tile(kernel_task & t, const block & b, uint32_t seen, const block & next) {
    const cell * cells = t.g.cells.data() + b.first;
    const cell * ahead = t.g.cells.data() + next.first;
    const auto   end   = static_cast<int>(b.size + b.size % 2); // cells are loaded by twos
    vec          nonfinite = {};
    for (int i = 0; i < tile; i++) {
        const cell c = (seen >> i & 1) != 0 ? cells[i] : none;
        if (i < end && c != t.held[i]) {
            t.load_cell(c, i, nonfinite);
            t.held[i] = c;
        }
        if (ahead[i] != none && ahead[i] != c) {
            for (int h = 0; h < t.heads; h++) {
                prefetch(t.o.k, t.first + h, ahead[i]);
                prefetch(t.o.v, t.first + h, ahead[i]);
            }
        }
    }
    if (total(nonfinite) == 0) {
        return true;
    }
    t.forget();
    return false;
}

// Calls the kernel for each tile in turn. It loads cells and computes a tile for some entries.
template <typename kernel_task> AGD_TARGET static void each_tile(kernel_task & t) {
    const auto & blocks = t.g.blocks;
    for (size_t at = 0; at < blocks.size(); at++) {
        const block & b       = blocks[at];
        const block & next    = blocks[at + 1 < blocks.size() ? at + 1 : at];
        const entry * entries = t.g.entries.data();
        if (load_tile(t, b, ~0u, next)) {
            t.compute(b.size, entries + b.begin, entries + b.end);
            continue;
        }
        // A hidden cell has weight 0, but 0 times infinity is NaN. So each row has only the cells that it sees.
        for (const entry * e = entries + b.begin; e < entries + b.end; e++) {
            load_tile(t, b, e->cells, next);
            t.compute(b.size, e, e + 1);
        }
    }
}

// Stores the results.
AGD_TARGET static void finish(const task & t) {
    const operands & o = t.o;
    t.each_index([&](size_t x, uint32_t row, int head) AGD_TARGET {
        float * to  = o.out + (static_cast<size_t>(row) * o.heads + head) * o.dv;
        float   max = t.st[x].max, sum = t.st[x].sum, keep = 1.0f;
        if (o.sinks != nullptr) {
            const float sink = o.sinks[head] * log2e;
            const float top  = sink > max ? sink : max;
            keep             = exp2_negative(max - top);
            sum              = __builtin_fmaf(sum, keep, exp2_negative(sink - top));
        }
        const float factor = sum == 0.0f ? 0.0f : keep / sum; // a row that sees nothing gives 0
        for (int d = 0; d < o.dv; d += W) {
            store(to + d, load(t.out + x * o.dv + d) * factor + 0.0f); // not -0, which hidden cells can change
        }
    });
}
