// What all kernels have in common: a group is computed tile by tile. Each tile is loaded once for all rows of the
// group that see it and all heads that share it, which makes candidates of one prompt cheap.
//
// A row's result depends only on its own cells, bit for bit: whatever is computed beside it, each of its sums has the
// same terms in the same order. Hidden cells have weight 0, and adding 0 times a finite value changes nothing.
//
// A file for each instruction set includes this and a kernel. Before, it defines AGD_TARGET (the attribute), vec and
// veci (W floats or ints), W, and total, the sum of a vec. The instruction set is an attribute of these functions and
// not a flag of the compiler, so that inline functions of the standard library still run on every CPU.

#include "exp2_kernel.h"

using agentd::cell;

constexpr cell none = agentd::row_lists::none;

struct state { // of one row and head
    float max, sum;
};

// What a kernel knows of a group and some heads of k and v. Its other memory belongs to the kernel. The rows of the
// group have an index for each head of q: rows of one head of k and v are side by side.
struct task {
    const operands & o;
    const group &    g;
    int              first, heads;
    float *          out; // indices x dv
    state *          st;  // of each index

    AGD_TARGET task(const operands & o, const group & g, int first, int heads)
        : o(o), g(g), first(first), heads(heads) {}

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
