// Products of bfloat16 and many rows of activations, for processors that multiply bfloat16.
//
// The activations become the panels: a vector has one word of each of 16 rows. Weights are read where they lie, one word
// for all lanes at a time, so that the larger matrix needs no unpacking. Each sum is the chain of agentd-tiles.h.
#ifndef AGENTD_COLUMNS_H
#define AGENTD_COLUMNS_H

#include "agentd-tiles.h"

#if defined(AGENTD_BFLOATS)
namespace {
namespace agentd_products {

constexpr int beside = 8, most_panels = 3; // rows of weights, and panels of activations, of a tile
// Bytes of activations that stay in the second-level cache while a group of weights is multiplied with them.
constexpr int64_t chunk = 512 * 1024;

// Words of each row in a panel of k elements: a multiple of the lanes, of which the last ones may be 0.
inline int64_t panel_words(int64_t k) { return GGML_PAD(k / 2, lanes); }

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

// Computes `beside` columns of the result, from `row` on, for V panels of activations, from `panel` on. The last one may
// be half of one. `ahead` is what to prefetch, or null.
template <class W, int V, bool Half>
__attribute__((noinline)) void columns(const matrices & a, int64_t row, int64_t panel, const uint8_t * ahead) {
    constexpr int whole = V - Half;
    constexpr int line  = cache_line / sizeof(float);
    const int64_t words = a.k / W::pack, panel_size = panel_words(a.k) * sizeof(ints);
    const char *  w[beside], *x = a.x + panel * panel_size;
    floats        sums[beside][V] = {};
    for (int i = 0; i < beside; i++) {
        w[i] = reinterpret_cast<const char *>(a.weights + std::min(row + i, a.m - 1) * a.stride);
    }
    for (int64_t from = 0; from < words; from += line) {
        for (int i = 0; i < beside && ahead != nullptr; i++) {
            _mm_prefetch(reinterpret_cast<const char *>(ahead + i * a.stride + from * sizeof(float)), _MM_HINT_T1);
        }
        _Pragma("GCC unroll 4") for (int64_t word = from; word < std::min<int64_t>(words, from + line); word++) {
            const auto at = [&](int v) { return x + v * panel_size + word * sizeof(ints); };
            floats     values[V];
            AGENTD_EACH(v, whole) { values[v] = _mm512_loadu_ps(reinterpret_cast<const float *>(at(v))); }
            AGENTD_EACH(i, beside) {
                const floats weight = all_of(w[i] + word * sizeof(float));
                AGENTD_EACH(v, whole) { sums[i][v] = add_words<W>(sums[i][v], weight, values[v]); }
                if constexpr (Half) {
                    sums[i][whole] = add_half(sums[i][whole], weight, at(whole));
                }
            }
        }
    }
    alignas(floats) float rows[beside][V * lanes];
    AGENTD_EACH(i, beside) AGENTD_EACH(v, V) { _mm512_store_ps(rows[i] + v * lanes, sums[i][v]); }
    const int64_t count = std::min<int64_t>(beside, a.m - row), first = panel * lanes;
    for (int64_t n = 0; n < std::min<int64_t>(a.n - first, V * lanes); n++) {
        float * to = a.row(first + n) + row;
        for (int i = 0; i < count; i++) {
            to[i] = rows[i][n];
        }
    }
}

// columns for v panels.
template <class W, int V, class... Args> void columns_of(int64_t v, bool half, Args &&... args) {
    if (v == V) {
        half ? columns<W, V, true>(args...) : columns<W, V, false>(args...);
    } else if constexpr (V > 1) {
        columns_of<W, V - 1>(v, half, args...);
    }
}

// Computes what `group` does, for activations in panels.
template <class W> void group_of_columns(const matrices & a, int64_t row, int64_t next) {
    const int64_t all = (a.n + lanes - 1) / lanes, most = std::max<int64_t>(most_panels, chunk / (a.k / W::pack * sizeof(ints)));
    const int64_t chunks = (all + most - 1) / most, end = std::min(a.m, row + group_rows);
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t first = all * c / chunks, count = all * (c + 1) / chunks - first;
        const int64_t tiles = (count + most_panels - 1) / most_panels;
        for (int64_t r = row; r < end; r += beside) {
            const uint8_t * ahead = c == 0 ? a.weights + (r + beside < end ? r + beside : next) * a.stride : nullptr;
            for (int64_t t = 0; t < tiles; t++) {
                const int64_t from = first + count * t / tiles, to = first + count * (t + 1) / tiles;
                columns_of<W, most_panels>(to - from, to == all && ends_with_half(a.n), a, r, from, ahead);
                ahead = nullptr;
            }
        }
    }
}

} // namespace agentd_products
} // namespace
#endif

#endif // AGENTD_COLUMNS_H
