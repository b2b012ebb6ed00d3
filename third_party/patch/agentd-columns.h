// Products of bfloat16 and many rows of activations, for processors that multiply bfloat16.
//
// The activations become the panels: a vector has one word of each of 16 rows. Weights are read where they lie, one word
// for all lanes at a time, so that the larger matrix needs no unpacking. Each sum is the chain of agentd-tiles.h.
#ifndef AGENTD_COLUMNS_H
#define AGENTD_COLUMNS_H

#include "agentd-tiles.h"

namespace {
namespace agentd_products {

// Words of each row in a panel of k elements: a multiple of the lanes, of which the last ones may be 0.
inline int64_t panel_words(int64_t k) { return GGML_PAD(k / 2, lanes); }

#if defined(AGENTD_BFLOATS)
constexpr int beside = 8, most_panels = 3; // rows of weights, and panels of activations, of a tile

// The width of a panel with the first of n rows of activations.
inline int panel_width(int64_t n) { return static_cast<int>(std::clamp<int64_t>(n, 0, lanes)); }

// Makes a block of a panel of some rows, whose words have as many lanes as the panel is wide.
template <class W> void pack_block(const panel_rows & from, int width, int64_t k, int64_t e, char * panel) {
    ints words[lanes];
    from.line(e * sizeof(float), words, [left = k - e](const uint8_t * p) {
        const ints low = words_of(p, left), high = words_of(p + sizeof low, std::max<int64_t>(left - lanes, 0));
        return reinterpret_cast<ints>(_mm512_cvtne2ps_pbh(reinterpret_cast<floats>(high), reinterpret_cast<floats>(low)));
    });
    for (int i = 0; i < lanes; i++) {
        _mm512_mask_storeu_epi32(panel + (e / W::pack + i) * width * sizeof(float), (1 << width) - 1, words[i]);
    }
}

// Whether n rows of activations end with at most half a panel, which takes half the time.
inline bool ends_with_half(int64_t n) { return (n - 1) % lanes < lanes / 2; }

// add_words for the lower half of the lanes.
AGENTD_INLINE floats add_half(floats sum, floats a, const char * b) {
    const auto half = [](floats v) { return _mm512_castps512_ps256(v); };
    const __m256 values = _mm256_loadu_ps(reinterpret_cast<const float *>(b));
    return _mm512_castps256_ps512(_mm256_dpbf16_ps(half(sum), reinterpret_cast<__m256bh>(half(a)), reinterpret_cast<__m256bh>(values)));
}

// Writes the sums of a panel, a vector for each of 8 rows of weights: those of an activation are beside each other, and
// the activations group_rows apart.
AGENTD_INLINE void transpose(const floats (&v)[beside], float * to) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), last = _mm512_add_epi64(first, _mm512_set1_epi64(4));
    const auto    pairs = [](floats x) { return AGENTD_MM(castps_pd)(x); };
    __m512d       fours[2][4]; // of four rows of weights: activation 4 * n + i is the quarter n of vector i
    AGENTD_EACH(half, 2) {
        const floats * r      = v + 4 * half;
        const __m512d  low[]  = { pairs(_mm512_unpacklo_ps(r[0], r[1])), pairs(_mm512_unpacklo_ps(r[2], r[3])) };
        const __m512d  high[] = { pairs(_mm512_unpackhi_ps(r[0], r[1])), pairs(_mm512_unpackhi_ps(r[2], r[3])) };
        fours[half][0]        = _mm512_unpacklo_pd(low[0], low[1]);
        fours[half][1]        = _mm512_unpackhi_pd(low[0], low[1]);
        fours[half][2]        = _mm512_unpacklo_pd(high[0], high[1]);
        fours[half][3]        = _mm512_unpackhi_pd(high[0], high[1]);
    }
    AGENTD_EACH(i, 4) {
        const auto put = [&](int n, __m256d x) { _mm256_storeu_ps(to + (4 * n + i) * group_rows, _mm256_castpd_ps(x)); };
        AGENTD_EACH(n, 2) {
            const __m512d some = _mm512_permutex2var_pd(fours[0][i], n == 0 ? first : last, fours[1][i]);
            put(2 * n, _mm512_castpd512_pd256(some)), put(2 * n + 1, _mm512_extractf64x4_pd(some, 1));
        }
    }
}

// Computes `beside` columns of the result, from `row` on, for V panels of activations, from `panel` on. The last one may
// be half of one. `ahead` is what to prefetch, or null. `to` has group_rows numbers for each activation.
template <class W, int V, bool Half>
__attribute__((noinline)) void columns(const matrices & a, int64_t row, int64_t panel, const uint8_t * ahead, float * to) {
    constexpr int whole = V - Half;
    constexpr int line  = cache_line / sizeof(float);
    const int64_t words = a.k / W::pack, panel_size = panel_words(a.k) * sizeof(ints);
    const char *  w[beside], *x = a.x + panel * panel_size;
    floats        sums[V][beside] = {};
    for (int i = 0; i < beside; i++) {
        w[i] = reinterpret_cast<const char *>(a.weights + std::min(row + i, a.m - 1) * a.stride);
    }
    const auto add = [&](int64_t word) __attribute__((always_inline)) {
        const auto at = [&](int v) { return x + v * panel_size + word * sizeof(ints); };
        floats     values[V];
        AGENTD_EACH(v, whole) { values[v] = _mm512_loadu_ps(reinterpret_cast<const float *>(at(v))); }
        AGENTD_EACH(i, beside) {
            const floats weight = all_of(w[i] + word * sizeof(float));
            AGENTD_EACH(v, whole) { sums[v][i] = add_words<W>(sums[v][i], weight, values[v]); }
            if constexpr (Half) {
                sums[whole][i] = add_half(sums[whole][i], weight, at(whole));
            }
        }
    };
    int64_t word = 0;
    while (word + line <= words) {
        for (int i = 0; i < beside && ahead != nullptr; i++) {
            _mm_prefetch(reinterpret_cast<const char *>(ahead + i * a.stride + word * sizeof(float)), _MM_HINT_T1);
        }
        for (const int64_t end = word + line; word < end; word += 4) {
            AGENTD_EACH(i, 4) { add(word + i); }
        }
    }
    for (; word < words; word++) {
        add(word);
    }
    AGENTD_EACH(v, V) { transpose(sums[v], to + v * lanes * group_rows); }
}

// Computes what `group` does, for activations in panels. Whole lines of the result are written: the strides of a result
// are often powers of two, so that parts of lines would have left the cache before the next part comes.
template <class W> void group_of_columns(const matrices & a, int64_t row, int64_t next) {
    alignas(floats) float result[most_panels * lanes * group_rows];
    const int64_t all = (a.n + lanes - 1) / lanes, tiles = (all + most_panels - 1) / most_panels;
    const int64_t end = std::min(a.m, row + group_rows);
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t from = all * t / tiles, upto = all * (t + 1) / tiles;
        for (int64_t r = row; r < end; r += beside) {
            const uint8_t * ahead = t == 0 ? a.weights + (r + beside < end ? r + beside : next) * a.stride : nullptr;
            with_number<most_panels>(upto - from, [&](auto V) {
                const auto some = upto == all && ends_with_half(a.n) ? columns<W, V, true> : columns<W, V, false>;
                some(a, r, from, ahead, result + r - row);
            });
        }
        const float * some = result;
        for (int64_t n = from * lanes; n < std::min(a.n, upto * lanes); n++, some += group_rows) {
            float * to = a.row(n) + row;
            if (end - row == group_rows) {
                AGENTD_EACH(i, group_rows / 8) { _mm256_storeu_ps(to + 8 * i, _mm256_load_ps(some + 8 * i)); }
            } else {
                std::memcpy(to, some, (end - row) * sizeof(float));
            }
        }
    }
}
#endif

} // namespace agentd_products
} // namespace

#endif // AGENTD_COLUMNS_H
