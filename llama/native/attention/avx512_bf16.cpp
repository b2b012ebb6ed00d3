// Attention with AVX-512's products of pairs of BF16 numbers. Queries, keys, values and weights are rounded to BF16;
// sums are F32. A tile's keys are laid out with 16 cells side by side, its values with pairs of cells side by side, so
// that both products read whole vectors and broadcast one pair of a row.
#if defined(__x86_64__)

#include "attention/attention.h"

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
AGD_TARGET inline void transpose(const pairs * from, size_t from_stride, pairs * to, size_t to_stride) {
    const auto quarter = [&](int row, int at) AGD_TARGET {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + row * from_stride + at));
    };
    for (int at = 0; at < 16; at += 4) {
        __m512i x[4]; // rows i, i+4, i+8 and i+12
        for (int i = 0; i < 4; i++) {
            x[i] = _mm512_castsi128_si512(quarter(i, at));
            x[i] = _mm512_inserti32x4(x[i], quarter(i + 4, at), 1);
            x[i] = _mm512_inserti32x4(x[i], quarter(i + 8, at), 2);
            x[i] = _mm512_inserti32x4(x[i], quarter(i + 12, at), 3);
        }
        const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
        const __m512i c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
        store_pairs(to + (at + 0) * to_stride, _mm512_unpacklo_epi64(a, c));
        store_pairs(to + (at + 1) * to_stride, _mm512_unpackhi_epi64(a, c));
        store_pairs(to + (at + 2) * to_stride, _mm512_unpacklo_epi64(b, d));
        store_pairs(to + (at + 3) * to_stride, _mm512_unpackhi_epi64(b, d));
    }
}

// Puts the numbers of two rows side by side. n is a multiple of 32.
AGD_TARGET inline void interleave(const pairs * a, const pairs * b, pairs * to, int n) {
    alignas(64) static constexpr uint16_t low[32] = { 0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                      8,  40, 9,  41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 };
    const __m512i                         first   = _mm512_load_si512(low);
    const __m512i                         second  = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    for (int d = 0; d < n; d += 32) {
        const __m512i x = load_pairs(a + d / 2), y = load_pairs(b + d / 2);
        store_pairs(to + d, _mm512_permutex2var_epi16(x, first, y));
        store_pairs(to + d + 16, _mm512_permutex2var_epi16(x, second, y));
    }
}

// Reads 16 numbers of a cell, from the d-th on.
template <element E> AGD_TARGET inline vec read(const char * from, int d) {
    if constexpr (E == element::f32) {
        return load(reinterpret_cast<const float *>(from) + d);
    } else if constexpr (E == element::f16) {
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

// nonfinite becomes NaN if a number is not finite.
template <element E> AGD_TARGET inline void round_row(const char * from, pairs * to, int n, vec & nonfinite) {
    for (int d = 0; d < n; d += 32) {
        const vec x = read<E>(from, d), y = read<E>(from, d + 16);
        nonfinite += x * 0.0f + y * 0.0f;
        store_pairs(to + d / 2, rounded(x, y));
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
AGD_TARGET inline void weigh(const vec * score, uint32_t cells, state & st, float * sums, float & keep, pairs * weights) {
    const __m512 hidden = _mm512_set1_ps(-__builtin_inff());
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
    vec s[R][2] = {};
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
        weigh(s[r], e.cells[r], *e.st[r], e.sums[r], e.keep[r], e.weights[r]);
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

struct packed_task : task {
    pairs * q;      // indices x dk
    float * sums;   // indices x W
    pairs * k_rows; // heads x tile x dk
    pairs * v_rows; // heads x tile x dv
    pairs * k;      // dk/2 x tile: a pair of each cell, of one head
    pairs * v;      // tile/2 x dv: the numbers of each two cells
    float * row;    // for types without a reader

    AGD_TARGET packed_task(const operands & o, const group & g, int first, int heads, float * scratch)
        : task(o, g, first, heads) {
        const auto next  = [&](size_t n) { return std::exchange(scratch, scratch + n); };
        const auto words = [&](size_t n) { return reinterpret_cast<pairs *>(next(n)); };
        q                = words(indices() * o.dk / 2);
        out              = next(indices() * o.dv);
        sums             = next(indices() * W);
        k_rows           = words(heads * tile * o.dk / 2);
        v_rows           = words(heads * tile * o.dv / 2);
        k                = words(tile * o.dk / 2);
        v                = words(tile * o.dv / 2);
        row              = next(std::max(o.dk, o.dv));
        st               = reinterpret_cast<state *>(scratch);
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

    AGD_TARGET void read_row(const kv_view & from, int h, cell c, pairs * to, int n, vec & nonfinite) {
        if (c == none) {
            __builtin_memset(to, 0, sizeof(pairs) * n / 2);
            return;
        }
        const char * p = from.data + c * from.cell + (first + h) * from.head;
        switch (from.type) {
            case element::f32: return round_row<element::f32>(p, to, n, nonfinite);
            case element::f16: return round_row<element::f16>(p, to, n, nonfinite);
            case element::bf16: return round_row<element::bf16>(p, to, n, nonfinite);
            case element::q8_0: return round_row<element::q8_0>(p, to, n, nonfinite);
            case element::other:
                from.to_float(p, row, n);
                return round_row<element::f32>(reinterpret_cast<const char *>(row), to, n, nonfinite);
        }
    }

    AGD_TARGET void load_cell(cell c, int at, vec & nonfinite) {
        vec ignored = {}; // the score of a cell that a row does not see is replaced
        for (int h = 0; h < heads; h++) {
            read_row(o.k, h, c, k_rows + (h * tile + at) * o.dk / 2, o.dk, ignored);
        }
        for (int h = 0; h < heads; h++) {
            read_row(o.v, h, c, v_rows + (h * tile + at) * o.dv / 2, o.dv, nonfinite);
        }
    }

    // Lays out the first cells of a head.
    AGD_TARGET void lay_out(int h, int size) {
        const pairs * keys   = k_rows + h * tile * o.dk / 2;
        const pairs * values = v_rows + h * tile * o.dv / 2;
        for (int c = 0; c < size; c += half) {
            for (int d = 0; d < o.dk / 2; d += 16) {
                transpose(keys + c * o.dk / 2 + d, o.dk / 2, k + d * tile + c, tile);
            }
        }
        for (int c = 0; c < size; c += 2) {
            interleave(values + c * o.dv / 2, values + (c + 1) * o.dv / 2, v + c / 2 * o.dv, o.dv);
        }
    }

    // Computes n rows and heads from the i-th of the entries on, R at a time.
    template <int R> AGD_TARGET void rows(int h, int size, const entry * from, int & i, int n) {
        for (; i + R <= n; i += R) {
            entries<R> e;
            for (int r = 0; r < R; r++) {
                const entry & at = from[(i + r) / o.repeat];
                const size_t  x  = index(h, at.row, (i + r) % o.repeat);
                e.q[r]           = q + x * o.dk / 2;
                e.out[r]         = out + x * o.dv;
                e.st[r]          = st + x;
                e.sums[r]        = sums + x * W;
                e.cells[r]       = at.cells;
            }
            size > half ? scores<R, 2>(e, k, o.dk) : scores<R, 1>(e, k, o.dk);
            mix<R, R == 8 ? 2 : R == 4 ? 4 : 8>(e, v, size, o.dv, 0);
        }
    }

    // Computes the loaded tile, of which no row sees more than the first cells, for some entries.
    AGD_TARGET void compute(int size, const entry * from, const entry * to) {
        const int n = static_cast<int>(to - from) * o.repeat;
        for (int h = 0; h < heads; h++) {
            int i = 0;
            lay_out(h, size);
            rows<8>(h, size, from, i, n);
            rows<4>(h, size, from, i, n);
            rows<2>(h, size, from, i, n);
            rows<1>(h, size, from, i, n);
        }
    }
};

} // namespace

AGD_TARGET void compute_avx512_bf16(const operands & o, const group & g, int first, int heads, float * scratch) {
    packed_task t(o, g, first, heads, scratch);
    each_tile(t);
    for (size_t x = 0; x < t.indices(); x++) {
        t.st[x].sum = total(load(t.sums + x * W));
    }
    finish(t);
}

} // namespace agd::attention

#endif
