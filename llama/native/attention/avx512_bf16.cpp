// Attention with AVX-512's products of pairs of BF16 numbers. Queries, keys, values and weights are rounded to BF16;
// sums are F32. A tile's keys are laid out with 16 cells side by side, its values with pairs of cells side by side, so
// that both products read whole vectors and broadcast one pair of a row.
#if defined(__x86_64__)

#include "attention/attention.h"

#include "agentd-amx.h" // third_party/patch

#include <immintrin.h>

#include <algorithm>
#include <utility>

#define AGD_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c")))

namespace agd::attention {

namespace {

#include "attention/avx512.h"
#include "attention/common.h"

constexpr int half = 16; // cells of a vector

using pairs = uint32_t; // two BF16 numbers

AGD_TARGET inline __m512i load_pairs(const pairs * p) {
    return _mm512_loadu_si512(p);
}

AGD_TARGET inline void store_pairs(pairs * p, __m512i x) {
    _mm512_storeu_si512(p, x);
}

AGD_TARGET inline __m512i rounded(vec first, vec second) {
    return (__m512i) _mm512_cvtne2ps_pbh((__m512) second, (__m512) first);
}

// sum + the product of pairs. The order of additions is that of the instruction.
AGD_TARGET inline vec products(vec sum, __m512i a, __m512i b) {
    return (vec) _mm512_dpbf16_ps((__m512) sum, (__m512bh) a, (__m512bh) b);
}

// Transposes 16 x 16 pairs.
AGD_TARGET inline void transpose(const __m512i * row, pairs * to, size_t stride) {
    __m512i x[16];
    for (int i = 0; i < 16; i += 4) { // the pairs of each four rows side by side, 4 columns apart
        const __m512i a = _mm512_unpacklo_epi32(row[i], row[i + 1]), b = _mm512_unpackhi_epi32(row[i], row[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(row[i + 2], row[i + 3]),
                      d = _mm512_unpackhi_epi32(row[i + 2], row[i + 3]);
        x[i]            = _mm512_unpacklo_epi64(a, c);
        x[i + 1]        = _mm512_unpackhi_epi64(a, c);
        x[i + 2]        = _mm512_unpacklo_epi64(b, d);
        x[i + 3]        = _mm512_unpackhi_epi64(b, d);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88), b = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
        store_pairs(to + i * stride, _mm512_shuffle_i32x4(a, c, 0x88));
        store_pairs(to + (i + 4) * stride, _mm512_shuffle_i32x4(b, d, 0x88));
        store_pairs(to + (i + 8) * stride, _mm512_shuffle_i32x4(a, c, 0xdd));
        store_pairs(to + (i + 12) * stride, _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}

// Reads 16 numbers of a cell, from the d-th on.
template <element E> AGD_TARGET inline vec read(const char * from, int d) {
    if constexpr (E == element::f16) {
        return load_f16(from + 2 * d);
    } else if constexpr (E == element::bf16) {
        return load_bf16(from + 2 * d);
    } else { // Q8_0 is blocks of a factor, F16, and 32 bytes (block_q8_0 in ggml-common.h)
        from += d / 32 * 34;
        uint16_t bits;
        __builtin_memcpy(&bits, from, sizeof bits);
        return load_i8(from + 2 + d % 32) * (vec{} + _cvtsh_ss(bits));
    }
}

// Prefetches the cells of a tile in small steps, which the computation of another one has between them.
struct prefetcher {
    const operands & o;
    const cell *     cells;
    int              first, heads;
    int              i = 0, part = -1; // a cell; its keys of each head and then its values
    const char *     at = nullptr, *end = nullptr;

    AGD_TARGET void lines(int n) {
        while (n > 0) {
            if (at >= end) {
                if (++part == 2 * heads) {
                    part = 0;
                    i++;
                }
                while (i < tile && cells[i] == none) {
                    i++;
                }
                if (i >= tile) {
                    part = 2 * heads - 1;
                    return;
                }
                const kv_view & c = part < heads ? o.k : o.v;
                at                = c.data + cells[i] * c.cell + (first + part % heads) * c.head;
                end               = at + c.size;
                at -= reinterpret_cast<uintptr_t>(at) % 64; // whole cache lines
            }
            for (; n > 0 && at < end; n--, at += 64) {
                __builtin_prefetch(at, 0, 2);
            }
        }
    }
};

// Lines to prefetch for each two cells that are laid out, of keys and of values: somewhat more than these have.
constexpr int step = 12;

// Lays out the numbers of half a tile: the d-th pairs of all cells side by side, the next ones tile words apart.
template <element E>
AGD_TARGET inline void lay_out_keys(const char * const * cells, size_t head, pairs * to, int n, prefetcher & next) {
    for (int d = 0; d < n; d += 32) {
        __m512i row[half];
        for (int i = 0; i < half; i++) {
            row[i] = rounded(read<E>(cells[i] + head, d), read<E>(cells[i] + head, d + 16));
        }
        transpose(row, to + d / 2 * tile, tile);
        next.lines(2 * step);
    }
}

// Lays out the numbers of two cells by turns. top becomes the highest of them, without their signs.
template <element E>
AGD_TARGET inline void lay_out_values(const char * a, const char * b, pairs * to, int n, __m512i & top) {
    alignas(64) static constexpr uint16_t turns[32] = { 0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    const __m512i order = _mm512_load_si512(turns), sign = _mm512_set1_epi16(static_cast<short>(0x8000));
    for (int d = 0; d < n; d += W) {
        const __m512i x = rounded(read<E>(a, d), read<E>(b, d));
        top             = _mm512_max_epu16(top, _mm512_andnot_si512(sign, x));
        store_pairs(to + d, _mm512_permutexvar_epi16(order, x));
    }
}

// What the weights of a tile are computed from, and what is computed, for R rows and heads.
template <int R> struct entries {
    const pairs * q[R];
    float *       out[R];
    state *       st[R];
    float *       sums[R]; // W partial sums of weights
    uint32_t      cells[R];
    float         keep[R];
    pairs         weights[R][tile / 2];
};

// Makes weights of the scores of one row. The maximum changes only where a score exceeds it.
AGD_TARGET inline void weigh(vec s0, vec s1, uint32_t cells, state & st, float * sums, float & keep, pairs * weights) {
    const __m512 hidden   = _mm512_set1_ps(-__builtin_inff());
    const vec    score[2] = { s0, s1 };
    vec          x[2], sum = load(sums);
    __mmask16    higher = 0;
    for (int i = 0; i < 2; i++) {
        const auto seen = static_cast<__mmask16>(cells >> (i * half));
        x[i]            = (vec) _mm512_mask_mov_ps(hidden, seen, (__m512) score[i]);
        higher |= _mm512_cmp_ps_mask((__m512) x[i], _mm512_set1_ps(st.max), _CMP_GT_OQ);
        // NaN and infinity must show in the result.
        sum = (vec) _mm512_mask3_fmadd_ps((__m512) score[i], _mm512_setzero_ps(), (__m512) sum, seen);
    }
    keep = 1;
    if (higher != 0) {
        const float top = std::max(st.max, std::max(highest(x[0]), highest(x[1])));
        keep            = exp2_negative(st.max - top);
        st.max          = top;
        sum *= keep;
    }
    const __m512i w = rounded(exp2_negative(x[0] - st.max), exp2_negative(x[1] - st.max));
    store_pairs(weights, w);
    // What is added is what the values are multiplied with.
    sum += (vec) _mm512_slli_epi32(w, 16);
    sum += (vec) _mm512_and_si512(w, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
    store(sums, sum);
}

// The scores of the first H * half cells of a tile, as weights.
template <int R, int H> AGD_TARGET inline void scores(entries<R> & e, const pairs * k, int dk) {
    vec s[R][H] = {};
    for (int d = 0; d < dk / 2; d++) {
        __m512i key[H];
        for (int h = 0; h < H; h++) {
            key[h] = load_pairs(k + d * tile + h * half);
        }
        for (int r = 0; r < R; r++) {
            const __m512i x = _mm512_set1_epi32(e.q[r][d]);
            for (int h = 0; h < H; h++) {
                s[r][h] = products(s[r][h], key[h], x);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        weigh(s[r][0], H == 2 ? s[r][H - 1] : vec{}, e.cells[r], *e.st[r], e.sums[r], e.keep[r], e.weights[r]);
    }
}

// Adds the first cells of a tile to N vectors of the outputs at a time, from the d-th number on.
template <int R, int N> AGD_TARGET inline void mix(const entries<R> & e, const pairs * v, int size, int dv, int d) {
    for (; d + N * W <= dv; d += N * W) {
        vec sum[R][N];
        for (int r = 0; r < R; r++) {
            for (int n = 0; n < N; n++) {
                sum[r][n] = load(e.out[r] + d + n * W) * e.keep[r];
            }
        }
        for (int c = 0; c < (size + 1) / 2; c++) {
            __m512i value[N];
            for (int n = 0; n < N; n++) {
                value[n] = load_pairs(v + c * dv + d + n * W);
            }
            for (int r = 0; r < R; r++) {
                const __m512i x = _mm512_set1_epi32(e.weights[r][c]);
                for (int n = 0; n < N; n++) {
                    sum[r][n] = products(sum[r][n], value[n], x);
                }
            }
        }
        for (int r = 0; r < R; r++) {
            for (int n = 0; n < N; n++) {
                store(e.out[r] + d + n * W, sum[r][n]);
            }
        }
    }
    if constexpr (N > 1) {
        mix<R, N / 2>(e, v, size, dv, d);
    }
}

using namespace agentd_amx;

#if defined(AGENTD_AMX)
// Computes n rows and heads, R at most, by the tiles of AMX. They add in another order than scores and mix.
template <int R>
AGD_TARGET void multiply(entries<R> & e, int n, const pairs * k, const pairs * v, int dk, int dv,
                         tiles_in_use & tiles) {
    alignas(64) pairs q[R * W];
    alignas(64) float sums[2][R][W];
    alignas(64) float scores[2][R][W];
    tiles.rows(n);
    clear_tile<0>(), clear_tile<1>();
    for (int d = 0; d < dk / 2; d += W) {
        for (int r = 0; r < n; r++) {
            store_pairs(q + r * W, load_pairs(e.q[r] + d));
        }
        load_tile<4>(q, 64);
        load_tile<5>(k + d * tile, tile * sizeof(pairs));
        load_tile<6>(k + d * tile + half, tile * sizeof(pairs));
        multiply_bfloats<0, 4, 5>(), multiply_bfloats<1, 4, 6>();
    }
    store_tile<0>(scores[0], 64), store_tile<1>(scores[1], 64);
    for (int r = 0; r < n; r++) {
        weigh(load(scores[0][r]), load(scores[1][r]), e.cells[r], *e.st[r], e.sums[r], e.keep[r], e.weights[r]);
    }
    load_tile<4>(e.weights, sizeof e.weights[0]);
    const auto mix = [&](auto part, int d) AGD_TARGET {
        constexpr int i = decltype(part)::value;
        clear_tile<i>();
        load_tile<5 + i>(v + d + i * W, dv * sizeof(pairs));
        multiply_bfloats<i, 4, 5 + i>();
        store_tile<i>(sums[i], 64);
    };
    for (int d = 0; d < dv; d += 2 * W) { // dv is a multiple of 32
        mix(std::integral_constant<int, 0>(), d), mix(std::integral_constant<int, 1>(), d);
        for (int r = 0; r < n; r++) {
            for (int i = 0; i < 2; i++) {
                float * out = e.out[r] + d + i * W;
                store(out, load(out) * e.keep[r] + load(sums[i][r]));
            }
        }
    }
}
#endif

template <bool Tiles> struct packed_task : task {
    pairs *      q;     // indices x dk
    float *      sums;  // indices x W
    pairs *      k;     // dk/2 x tile: a pair of each cell
    pairs *      v;     // tile/2 x dv: the numbers of each two cells
    tiles_in_use tiles;

    const char * keys[tile];   // of the cells of a tile, of the first head in the cache
    const char * values[tile]; // the same

    AGD_TARGET packed_task(const operands & o, const group & g, int first, int heads, float * scratch)
        : task(o, g, first, heads) {
        const auto next    = [&](size_t n) { return std::exchange(scratch, scratch + n); };
        q                  = reinterpret_cast<pairs *>(next(indices() * o.dk / 2));
        out                = next(indices() * o.dv);
        sums               = next(indices() * W);
        k                  = reinterpret_cast<pairs *>(next(tile * o.dk / 2));
        v                  = reinterpret_cast<pairs *>(next(tile * o.dv / 2));
        st                 = reinterpret_cast<state *>(scratch);
        const float factor = o.scale * log2e;
        each_index([&](size_t x, uint32_t row, int head) AGD_TARGET {
            const auto * from = reinterpret_cast<const float *>(o.q + row * o.q_row + head * o.q_head);
            for (int d = 0; d < o.dk; d += 32) {
                store_pairs(q + (x * o.dk + d) / 2, rounded(load(from + d) * factor, load(from + d + 16) * factor));
            }
            __builtin_memset(out + x * o.dv, 0, sizeof(float) * o.dv);
            store(sums + x * W, vec{});
            st[x] = { -__builtin_inff(), 0.0f };
        });
    }

    // Finds where the cells of a block are, those that seen excludes at another one: any finite number does.
    AGD_TARGET void find(const block & b, uint32_t seen) {
        const cell * cells = g.cells.data() + b.first;
        for (int i = 0; i < tile; i++) {
            seen &= ~(static_cast<uint32_t>(cells[i] == none) << i);
        }
        for (int i = 0; i < tile; i++) {
            const size_t c = cells[(seen >> i & 1) != 0 ? i : __builtin_ctz(seen)];
            keys[i]        = o.k.data + c * o.k.cell;
            values[i]      = o.v.data + c * o.v.cell;
        }
    }

    template <element E> AGD_TARGET void lay_out_keys(int size, size_t head, prefetcher & next) {
        for (int c = 0; c < size; c += half) {
            agd::attention::lay_out_keys<E>(keys + c, head, k + c, o.dk, next);
        }
    }

    template <element E> AGD_TARGET bool lay_out_values(int size, size_t head, prefetcher & next) {
        __m512i top = _mm512_setzero_si512();
        for (int c = 0; c < size; c += 2) {
            agd::attention::lay_out_values<E>(values[c] + head, values[c + 1] + head, v + c / 2 * o.dv, o.dv, top);
            next.lines(step);
        }
        for (int c = (size + 1) / 2; Tiles && c < tile / 2; c++) { // 0 times what is there may be NaN
            __builtin_memset(v + c * o.dv, 0, o.dv * sizeof(pairs));
        }
        return _mm512_cmpge_epu16_mask(top, _mm512_set1_epi16(0x7f80)) == 0; // infinity
    }

    // Lays out the cells that were found, of a head. Returns whether all values are finite.
    AGD_TARGET bool lay_out(int size, int head, prefetcher & next) {
        const size_t k_head = head * o.k.head, v_head = head * o.v.head;
        switch (o.k.type) {
            case element::f16: lay_out_keys<element::f16>(size, k_head, next); break;
            case element::bf16: lay_out_keys<element::bf16>(size, k_head, next); break;
            case element::q8_0: lay_out_keys<element::q8_0>(size, k_head, next); break;
            default: break; // not packable
        }
        switch (o.v.type) {
            case element::f16: return lay_out_values<element::f16>(size, v_head, next);
            case element::bf16: return lay_out_values<element::bf16>(size, v_head, next);
            case element::q8_0: return lay_out_values<element::q8_0>(size, v_head, next);
            default: return true;
        }
    }

    // Computes n rows and heads from the i-th of the entries on, R at a time.
    template <int R> AGD_TARGET void rows(int h, int size, const entry * from, int & i, int n) {
        for (int count = R; (count = std::min(R, n - i)) == R || (Tiles && count > 0); i += count) {
            entries<R> e;
            for (int r = 0; r < count; r++) {
                const entry & at = from[(i + r) / o.repeat];
                const size_t  x  = index(h, at.row, (i + r) % o.repeat);
                e.q[r]           = q + x * o.dk / 2;
                e.out[r]         = out + x * o.dv;
                e.st[r]          = st + x;
                e.sums[r]        = sums + x * W;
                e.cells[r]       = at.cells;
            }
#if defined(AGENTD_AMX)
            if constexpr (Tiles) {
                multiply(e, count, k, v, o.dk, o.dv, tiles);
                continue;
            }
#endif
            size > half ? scores<R, 2>(e, k, o.dk) : scores<R, 1>(e, k, o.dk);
            mix<R, R == 8 ? 2 : R == 4 ? 4 : 8>(e, v, size, o.dv, 0);
        }
    }

    AGD_TARGET void rows(int h, int size, const entry * from, const entry * to) {
        const int n = static_cast<int>(to - from) * o.repeat;
        int       i = 0;
        if constexpr (Tiles) {
            rows<16>(h, size, from, i, n);
            return;
        }
        rows<8>(h, size, from, i, n);
        rows<4>(h, size, from, i, n);
        rows<2>(h, size, from, i, n);
        rows<1>(h, size, from, i, n);
    }

    AGD_TARGET void compute(const block & b, const block & following) {
        const entry * from = g.entries.data() + b.begin;
        const entry * to   = g.entries.data() + b.end;
        prefetcher    next{ o, g.cells.data() + following.first, first, heads };
        find(b, ~0u);
        for (int h = 0; h < heads; h++) {
            if (lay_out(b.size, first + h, next)) {
                rows(h, b.size, from, to);
                continue;
            }
            // A hidden cell has weight 0, but 0 times infinity is NaN. So each row has only the cells that it sees.
            for (const entry * e = from; e < to; e++) {
                find(b, e->cells);
                lay_out(b.size, first + h, next);
                rows(h, b.size, e, e + 1);
            }
            find(b, ~0u);
        }
    }
};

template <bool Tiles>
AGD_TARGET void compute(const operands & o, const group & g, int first, int heads, float * scratch) {
    packed_task<Tiles> t(o, g, first, heads, scratch);
    for (size_t i = 0; i < g.blocks.size(); i++) {
        t.compute(g.blocks[i], g.blocks[i + 1 < g.blocks.size() ? i + 1 : i]);
    }
    for (size_t x = 0; x < t.indices(); x++) {
        t.st[x].sum = total(load(t.sums + x * W));
    }
    finish(t);
}

} // namespace

void compute_avx512_bf16(const operands & o, const group & g, int first, int heads, float * scratch) {
    compute<false>(o, g, first, heads, scratch);
}

void compute_amx_bf16(const operands & o, const group & g, int first, int heads, float * scratch) {
    compute<true>(o, g, first, heads, scratch);
}

bool can_use_amx() {
    return agentd_amx::has_amx();
}

} // namespace agd::attention

#endif
