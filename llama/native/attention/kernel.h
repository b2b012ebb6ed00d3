// Computes softmax(q k' scale) v exactly, with a running maximum and sum for each row and head (the online softmax
// of Milakov and Gimelshein, arXiv:1805.02867), tile by tile as in FlashAttention (arXiv:2205.14135). Keys and values
// of a tile are converted to F32.
//
// A file that includes this defines, beside what common.h needs, ROWS (heads of q computed at once), fused (a * b + c,
// rounded once), sums, and load_f16, load_bf16 and load_i8, which read W numbers as floats.

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
AGD_TARGET static inline void convert(const kv_view & c, int head, cell at, float * to, int n, vec & nonfinite) {
    if (at == none) {
        __builtin_memset(to, 0, sizeof(float) * n);
        return;
    }
    const char * from = c.data + at * c.cell + head * c.head;
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

// Cells lie apart, which no hardware prefetcher follows. So the next tile is prefetched while this one is loaded.
AGD_TARGET static inline void prefetch(const kv_view & c, int head, cell at) {
    const char * from = c.data + at * c.cell + head * c.head;
    const char * end  = from + c.size;
    for (from -= reinterpret_cast<uintptr_t>(from) % 64; from < end; from += 64) { // whole cache lines
        __builtin_prefetch(from, 0, 2);
    }
}

struct exact_task : task {
    static constexpr cell unknown = none - 1;

    float * q;          // indices x dk, scaled so that weights are powers of 2
    float * k;          // heads x tile x dk
    float * v;          // heads x tile x dv
    cell    held[tile]; // that k and v have; none: zeros

    AGD_TARGET exact_task(const operands & o, const group & g, int first, int heads, float * scratch)
        : task(o, g, first, heads) {
        std::fill_n(held, tile, unknown);
        q                  = scratch;
        out                = q + indices() * o.dk;
        k                  = out + indices() * o.dv;
        v                  = k + heads * tile * o.dk;
        st                 = reinterpret_cast<state *>(v + heads * tile * o.dv);
        const float factor = o.scale * log2e;
        each_index([&](size_t x, uint32_t row, int head) AGD_TARGET {
            const auto * from = reinterpret_cast<const float *>(o.q + row * o.q_row + head * o.q_head);
            for (int d = 0; d < o.dk; d += W) {
                store(q + x * o.dk + d, load(from + d) * factor);
            }
            __builtin_memset(out + x * o.dv, 0, sizeof(float) * o.dv);
            st[x] = { -__builtin_inff(), 0.0f };
        });
    }

    AGD_TARGET void load_cell(cell c, int at, vec & nonfinite) {
        vec ignored = {}; // the score of a cell that a row does not see is replaced
        for (int h = 0; h < heads; h++) {
            convert(o.k, first + h, c, k + (h * tile + at) * o.dk, o.dk, ignored);
        }
        for (int h = 0; h < heads; h++) {
            convert(o.v, first + h, c, v + (h * tile + at) * o.dv, o.dv, nonfinite);
        }
    }

    // Loads the cells of a block, with zeros for those that seen excludes. Loads nothing that is there already: the
    // tiles of sequences that part have cells in common. Returns whether all values are finite.
    AGD_TARGET bool load_tile(const block & b, uint32_t seen, const block & next) {
        const cell * cells     = g.cells.data() + b.first;
        const cell * ahead     = g.cells.data() + next.first;
        vec          nonfinite = {};
        for (int i = 0; i < tile; i++) {
            const cell c = (seen >> i & 1) != 0 ? cells[i] : none;
            if (i < static_cast<int>(b.size) && c != held[i]) {
                load_cell(c, i, nonfinite);
                held[i] = c;
            }
            for (int h = first; ahead[i] != none && ahead[i] != c && h < first + heads; h++) {
                prefetch(o.k, h, ahead[i]);
                prefetch(o.v, h, ahead[i]);
            }
        }
        if (total(nonfinite) == 0) {
            return true;
        }
        std::fill_n(held, tile, unknown);
        return false;
    }

    AGD_TARGET void compute(const block & b, const block & next) {
        const entry * from = g.entries.data() + b.begin;
        const entry * to   = g.entries.data() + b.end;
        if (load_tile(b, ~0u, next)) {
            compute(b.size, from, to);
            return;
        }
        // A hidden cell has weight 0, but 0 times infinity is NaN. So each row has only the cells that it sees.
        for (; from < to; from++) {
            load_tile(b, from->cells, next);
            compute(b.size, from, from + 1);
        }
    }

    // Computes the loaded tile, of which no row sees more than the first cells, for some entries.
    AGD_TARGET void compute(int size, const entry * from, const entry * to) {
        for (int h = 0; h < heads; h++) {
            compute(h, size, from, to);
        }
    }

    AGD_TARGET void compute(int h, int size, const entry * from, const entry * to) {
        const float * keys   = k + h * tile * o.dk;
        const float * values = v + h * tile * o.dv;
        const float * qs[4]; // the first ROWS are used
        float *       outs[4];
        state *       states[4];
        uint32_t      cells[4];
        int           filled = 0;
        for (const entry * e = from; e < to; e++) {
            for (int r = 0; r < o.repeat; r++) {
                const size_t x = index(h, e->row, r);
                qs[filled]     = q + x * o.dk;
                outs[filled]   = out + x * o.dv;
                states[filled] = st + x;
                cells[filled]  = e->cells;
                if (++filled < ROWS && (e + 1 < to || r + 1 < o.repeat)) {
                    continue;
                }
                switch (filled) {
                    case 1: rows_of_tile<1>(qs, cells, keys, values, size, o.dk, o.dv, states, outs); break;
                    case 2: rows_of_tile<2>(qs, cells, keys, values, size, o.dk, o.dv, states, outs); break;
                    case 3: rows_of_tile<3>(qs, cells, keys, values, size, o.dk, o.dv, states, outs); break;
                    default: rows_of_tile<ROWS>(qs, cells, keys, values, size, o.dk, o.dv, states, outs); break;
                }
                filled = 0;
            }
        }
    }
};

AGD_TARGET static void compute(const operands & o, const group & g, int first, int heads, float * scratch) {
    exact_task t(o, g, first, heads, scratch);
    for (size_t i = 0; i < g.blocks.size(); i++) {
        t.compute(g.blocks[i], g.blocks[i + 1 < g.blocks.size() ? i + 1 : i]);
    }
    finish(t);
}
