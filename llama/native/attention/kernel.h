// Computes softmax(q k' scale) v exactly, with a running maximum and sum for each row and head (the online softmax
// of Milakov and Gimelshein, arXiv:1805.02867), tile by tile as in FlashAttention (arXiv:2205.14135). A tile of keys
// and values is converted to F32 once for all rows of the group that see it and all heads that share it. That makes
// candidates of one prompt cheap.
//
// A row's result depends only on its own cells, bit for bit: whatever is computed beside it, each of its sums has the
// same terms in the same order. Hidden cells have weight 0, and adding 0 times a finite value changes nothing.
//
// A file for each instruction set includes this. Before, it defines AGD_TARGET (the attribute), vec and veci (W
// floats or ints), W, ROWS (heads of q computed at once), fused(a, b, c) = a * b + c rounded once, and load_f16, load_bf16 and load_i8, which read W numbers as
// floats. The instruction set is an attribute of these functions and not a flag of the compiler, so that inline
// functions of the standard library still run on every CPU.

struct state { // of one row and head
    float max, sum;
};

#include "exp2_kernel.h"

AGD_TARGET static inline void store(float * p, vec v) {
    __builtin_memcpy(p, &v, sizeof v);
}

AGD_TARGET static inline float exp2_negative(float x) {
    return exp2_negative(vec{} + x)[0];
}

// s[r][c] = q_r . k_c for R rows and the first cells of a tile, at least size.
template <int R> AGD_TARGET static inline void scores(const float * const * q, const float * k, int dk, int size,
                                                      float (*s)[tile]) {
    for (int c = 0; c < size; c += 4) {
        vec sum[R][4] = {};
        for (int d = 0; d < dk; d += W) {
            vec key[4];
            for (int j = 0; j < 4; j++) {
                key[j] = load(k + (c + j) * dk + d);
            }
            for (int r = 0; r < R; r++) {
                const vec x = load(q[r] + d);
                for (int j = 0; j < 4; j++) {
                    sum[r][j] = fused(x, key[j], sum[r][j]);
                }
            }
        }
        sums<R>(sum, s, c);
    }
}

// out_r = out_r * keep_r + sum over c of s[r][c] * v_c, N vectors of W values at once.
template <int R, int N>
AGD_TARGET static inline void mix(float * const * out, const float * keep, const float (*s)[tile], const float * v,
                                  int size, int dv, int d) {
    vec sum[R][N];
    for (int r = 0; r < R; r++) {
        for (int n = 0; n < N; n++) {
            sum[r][n] = load(out[r] + d + n * W) * keep[r];
        }
    }
    for (int c = 0; c < size; c++) {
        vec value[N];
        for (int n = 0; n < N; n++) {
            value[n] = load(v + c * dv + d + n * W);
        }
        for (int r = 0; r < R; r++) {
            const vec w = vec{} + s[r][c];
            for (int n = 0; n < N; n++) {
                sum[r][n] = fused(w, value[n], sum[r][n]);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int n = 0; n < N; n++) {
            store(out[r] + d + n * W, sum[r][n]);
        }
    }
}

// Replaces the scores of a tile by weights. cells has a bit for each cell that the row sees.
AGD_TARGET static inline float weigh(float * s, uint32_t cells, state & st) {
    vec x[tile / W];
    vec top = vec{} + st.max;
    vec sum = {};
    for (int i = 0; i < tile / W; i++) {
        const veci bits  = (veci{} + static_cast<int>(cells >> (i * W))) & lane_bits();
        const vec  score = load(s + i * W);
        x[i]             = bits != 0 ? score : vec{} - __builtin_inff();
        top              = x[i] > top ? x[i] : top;
        sum += bits != 0 ? score * 0.0f : vec{}; // NaN and infinity must show in the result
    }
    const float max  = highest(top);
    const float keep = exp2_negative(st.max - max);
    for (int i = 0; i < tile / W; i++) {
        const vec w = exp2_negative(x[i] - max);
        sum += w;
        store(s + i * W, w);
    }
    st.max = max;
    st.sum = __builtin_fmaf(st.sum, keep, total(sum));
    return keep;
}

// One tile for R rows and heads.
template <int R>
AGD_TARGET static inline void rows_of_tile(const float * const * q, const uint32_t * cells, const float * k,
                                           const float * v, int size, int dk, int dv, state * const * st,
                                           float * const * out) {
    alignas(64) float s[R][tile];
    float             keep[R];
    scores<R>(q, k, dk, size, s);
    for (int r = 0; r < R; r++) {
        keep[r] = weigh(s[r], cells[r], *st[r]);
    }
    int d = 0;
    for (; d + COLUMNS * W <= dv; d += COLUMNS * W) {
        mix<R, COLUMNS>(out, keep, s, v, size, dv, d);
    }
    for (; d < dv; d += W) {
        mix<R, 1>(out, keep, s, v, size, dv, d);
    }
}

// The working memory of one group and head.
struct work {
    const operands & o;
    float *          q;   // rows x repeat x dk, scaled so that weights are powers of 2
    float *          out; // rows x repeat x dv
    state *          st;  // rows x repeat
    float *          k;   // tile x dk
    float *          v;   // tile x dv
    agentd::cell     held[tile]; // that k and v have; none: zeros
};

constexpr agentd::cell none    = agentd::row_lists::none;
constexpr agentd::cell unknown = none - 1; // k and v have something else

// Computes the loaded tile, of which no row sees more than the first cells, for n entries.
AGD_TARGET static void tile_for(work & w, int size, const entry * entries, int n) {
    const float *    q[ROWS];
    float *          out[ROWS];
    state *          st[ROWS];
    uint32_t         cells[ROWS];
    const operands & o      = w.o;
    int              filled = 0;
    const int        count  = n * o.repeat;
    for (int i = 0; i < count; i++) {
        const entry & e = entries[i / o.repeat];
        const size_t  x = static_cast<size_t>(e.row) * o.repeat + i % o.repeat;
        q[filled]       = w.q + x * o.dk;
        out[filled]     = w.out + x * o.dv;
        st[filled]      = w.st + x;
        cells[filled]   = e.cells;
        if (++filled < ROWS && i + 1 < count) {
            continue;
        }
        switch (filled) {
            case 1: rows_of_tile<1>(q, cells, w.k, w.v, size, o.dk, o.dv, st, out); break;
            case 2: rows_of_tile<2>(q, cells, w.k, w.v, size, o.dk, o.dv, st, out); break;
            case 3: rows_of_tile<3>(q, cells, w.k, w.v, size, o.dk, o.dv, st, out); break;
            default: rows_of_tile<ROWS>(q, cells, w.k, w.v, size, o.dk, o.dv, st, out); break;
        }
        filled = 0;
    }
}

// Stores W values. nonfinite becomes NaN if one of them is not finite.
AGD_TARGET static inline void converted(float * to, vec x, vec & nonfinite) {
    nonfinite += x * 0.0f;
    store(to, x);
}

// Q8_0 is blocks of a factor, F16, and 32 bytes (block_q8_0 in ggml-common.h).
AGD_TARGET static inline void convert_q8_0(const char * from, float * to, int n, vec & nonfinite) {
    for (int d = 0; d < n; d += 32, from += 34) {
        uint16_t bits;
        __builtin_memcpy(&bits, from, sizeof bits);
        const vec factor = vec{} + _cvtsh_ss(bits);
        for (int i = 0; i < 32; i += W) {
            converted(to + d + i, load_i8(from + 2 + i) * factor, nonfinite);
        }
    }
}

// Converts the n values of a cell and head.
AGD_TARGET static inline void convert(const kv_view & c, int head, uint32_t cell, float * to, int n, vec & nonfinite) {
    const char * from = c.data + cell * c.cell + head * c.head;
    switch (c.type) {
        case element::f32:
            for (int d = 0; d < n; d += W) {
                converted(to + d, load(reinterpret_cast<const float *>(from) + d), nonfinite);
            }
            break;
        case element::f16:
            for (int d = 0; d < n; d += W) {
                converted(to + d, load_f16(from + 2 * d), nonfinite);
            }
            break;
        case element::q8_0: convert_q8_0(from, to, n, nonfinite); break;
        case element::bf16:
            for (int d = 0; d < n; d += W) {
                converted(to + d, load_bf16(from + 2 * d), nonfinite);
            }
            break;
        case element::other:
            c.to_float(from, to, n);
            for (int d = 0; d < n; d += W) {
                nonfinite += load(to + d) * 0.0f;
            }
            break;
    }
}

// Cells of one head lie kilobytes apart, which no hardware prefetcher follows. So the next tile is prefetched while
// this one is loaded.
AGD_TARGET static inline void prefetch(const kv_view & c, int head, uint32_t cell) {
    const char * from = c.data + cell * c.cell + head * c.head;
    const char * end  = from + c.size;
    for (from -= reinterpret_cast<uintptr_t>(from) % 64; from < end; from += 64) { // whole cache lines
        __builtin_prefetch(from, 0, 2);
    }
}

// Loads cells, with zeros for those that no entry sees. Loads nothing that is there already: the tiles of sequences
// that part have cells in common. Prefetches the cells next. Returns whether all values are finite.
AGD_TARGET static bool load_tile(work & w, int head, const agentd::cell * cells, int size, uint32_t seen,
                                 const agentd::cell * next, int next_size) {
    const operands & o       = w.o;
    vec              ignored = {}; // the score of a cell that a row does not see is replaced
    vec              nonfinite = {};
    for (int i = 0; i < tile; i++) {
        const agentd::cell c = i < size && (seen >> i & 1) != 0 ? cells[i] : none;
        if (i < size && c != w.held[i]) {
            float * k = w.k + i * o.dk;
            float * v = w.v + i * o.dv;
            if (c == none) {
                __builtin_memset(k, 0, sizeof(float) * o.dk);
                __builtin_memset(v, 0, sizeof(float) * o.dv);
            } else {
                convert(o.k, head, c, k, o.dk, ignored);
                convert(o.v, head, c, v, o.dv, nonfinite);
            }
            w.held[i] = c;
        }
        if (i < next_size && next[i] != none && next[i] != c) {
            prefetch(o.k, head, next[i]);
            prefetch(o.v, head, next[i]);
        }
    }
    if (total(nonfinite) == 0) {
        return true;
    }
    for (agentd::cell & c : w.held) {
        c = unknown;
    }
    return false;
}

AGD_TARGET static void begin(work & w, const group & g, int head) {
    const operands & o      = w.o;
    const float      factor = o.scale * 1.44269504f; // log2(e): weights are powers of 2
    for (size_t i = 0; i < g.rows.size(); i++) {
        for (int r = 0; r < o.repeat; r++) {
            const size_t  x    = i * o.repeat + r;
            const float * from = reinterpret_cast<const float *>(o.q + g.rows[i] * o.q_row +
                                                                 (head * o.repeat + r) * o.q_head);
            for (int d = 0; d < o.dk; d += W) {
                store(w.q + x * o.dk + d, load(from + d) * factor);
            }
            for (int d = 0; d < o.dv; d += W) {
                store(w.out + x * o.dv + d, vec{});
            }
            w.st[x] = { -__builtin_inff(), 0.0f };
        }
    }
}

AGD_TARGET static void end(work & w, const group & g, int head) {
    const operands & o = w.o;
    for (size_t i = 0; i < g.rows.size(); i++) {
        for (int r = 0; r < o.repeat; r++) {
            const size_t x   = i * o.repeat + r;
            const int    h   = head * o.repeat + r;
            float *      to  = o.out + (static_cast<size_t>(g.rows[i]) * o.heads + h) * o.dv;
            float        max = w.st[x].max, sum = w.st[x].sum, keep = 1.0f;
            if (o.sinks != nullptr) {
                const float sink = o.sinks[h] * 1.44269504f;
                const float top  = sink > max ? sink : max;
                keep             = exp2_negative(max - top);
                sum              = sum * keep + exp2_negative(sink - top);
            }
            const float factor = sum == 0.0f ? 0.0f : keep / sum; // a row that sees nothing gives 0
            for (int d = 0; d < o.dv; d += W) {
                store(to + d, load(w.out + x * o.dv + d) * factor + 0.0f); // not -0, which hidden cells can change
            }
        }
    }
}

AGD_TARGET static void compute(const operands & o, const group & g, int head, float * scratch) {
    const size_t heads = static_cast<size_t>(max_group) * o.repeat;
    work         w     = { o, scratch, nullptr, nullptr, nullptr, nullptr, {} };
    w.out              = w.q + heads * o.dk;
    w.k                = w.out + heads * o.dv;
    w.v                = w.k + tile * o.dk;
    w.st               = reinterpret_cast<state *>(w.v + tile * o.dv);
    for (agentd::cell & c : w.held) {
        c = unknown;
    }
    begin(w, g, head);
    for (size_t at = 0; at < g.blocks.size(); at++) {
        const block &        b       = g.blocks[at];
        const block &        next    = at + 1 < g.blocks.size() ? g.blocks[at + 1] : b;
        const agentd::cell * cells   = g.cells.data() + b.first;
        const int            size    = static_cast<int>(b.size);
        const entry *        entries = g.entries.data() + b.begin;
        const int            n       = static_cast<int>(b.end - b.begin);
        if (load_tile(w, head, cells, size, ~0u, g.cells.data() + next.first, static_cast<int>(next.size))) {
            tile_for(w, size, entries, n);
            continue;
        }
        // A hidden cell has weight 0, but 0 times infinity is NaN. So each row has only the cells that it sees.
        for (int i = 0; i < n; i++) {
            load_tile(w, head, cells, size, entries[i].cells, nullptr, 0);
            tile_for(w, size, entries + i, 1);
        }
    }
    end(w, g, head);
}
