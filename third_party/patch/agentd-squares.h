// Products of bfloat16 by the tiles of AMX.
//
// Weights are loaded where they lie, as 16 rows of 32. Activations are panels (agentd-columns.h), whose words lie as the
// instruction wants those of its second factor. Each sum is one chain in the order of the elements, whatever else is in a
// tile.
#ifndef AGENTD_SQUARES_H
#define AGENTD_SQUARES_H

#include "agentd-amx.h"
#include "agentd-columns.h"

#if defined(AGENTD_AMX) && defined(AGENTD_BFLOATS)
#define AGENTD_SQUARES
#endif

namespace {
namespace agentd_products {

using namespace agentd_amx;

// Whether products of these weights are made of tiles, whatever the number of rows.
template <class W> bool uses_tiles() { return W::dot == kind::bfloats && has_amx(); }

#if defined(AGENTD_SQUARES)
// Loads the words of 16 rows of weights, from `row` and `word` on. What the matrix does not have is 0.
template <int T> AGENTD_INLINE void load_weights(const matrices & a, int64_t row, int64_t word) {
    const uint8_t * from = a.weights + row * a.stride + word * sizeof(float);
    const int64_t   left = a.k * sizeof(ggml_bf16_t) - word * sizeof(float);
    if (row + lanes <= a.m && left >= static_cast<int64_t>(cache_line)) {
        load_tile<T>(from, a.stride);
        return;
    }
    alignas(cache_line) uint8_t some[lanes][cache_line] = {};
    for (int64_t i = 0; i < std::min<int64_t>(lanes, a.m - row); i++) {
        std::memcpy(some[i], from + i * a.stride, std::min<int64_t>(left, cache_line));
    }
    load_tile<T>(some, cache_line);
}

// Writes the sums of 16 rows of weights and a panel of `width` rows of activations.
template <int T> void store_sums(const matrices & a, int64_t row, int64_t panel, int width) {
    const int64_t rows = std::min<int64_t>(lanes, a.m - row);
    if (rows <= 0) {
        return;
    }
    if (width == 1 && rows == lanes) {
        store_tile<T>(a.row(panel * lanes) + row, sizeof(float));
        return;
    }
    alignas(cache_line) float sums[lanes][lanes];
    store_tile<T>(sums, cache_line);
    ints out[lanes];
    if (width <= few) {
        const ints at = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), all(lanes));
        for (int n = 0; n < width; n++) {
            out[n] = _mm512_i32gather_epi32(at, &sums[0][n], sizeof(float));
        }
    } else {
        rows_from(lanes, [&](int i) { return sums[i]; }).line(0, out, [](const uint8_t * p) { return _mm512_load_si512(p); });
    }
    for (int n = 0; n < width; n++) {
        _mm512_mask_storeu_epi32(a.row(panel * lanes + n) + row, (1 << rows) - 1, out[n]);
    }
}

// Computes the columns of the result that 32 rows of weights make, from `row` on, for one or two panels of activations,
// from `panel` on. Nothing is prefetched: the processor does that as well.
template <bool Two> void squares(const matrices & a, int64_t row, int64_t panel, int width, int width_beside) {
    const int64_t words = panel_words(a.k), size = width * sizeof(float), size_beside = width_beside * sizeof(float);
    const char *  x = a.x + panel * words * sizeof(ints), *beside = x + words * sizeof(ints);
    clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
    for (int64_t word = 0; word < words; word += lanes) {
        load_weights<4>(a, row, word);
        load_tile<6>(x + word * size, size);
        multiply_bfloats<0, 4, 6>();
        load_weights<5>(a, row + lanes, word);
        multiply_bfloats<1, 5, 6>();
        if constexpr (Two) {
            load_tile<7>(beside + word * size_beside, size_beside);
            multiply_bfloats<2, 4, 7>();
            multiply_bfloats<3, 5, 7>();
        }
    }
    store_sums<0>(a, row, panel, width);
    store_sums<1>(a, row + lanes, panel, width);
    if constexpr (Two) {
        store_sums<2>(a, row, panel + 1, width_beside);
        store_sums<3>(a, row + lanes, panel + 1, width_beside);
    }
}

// Computes what `group` does, for activations in panels.
inline void group_of_squares(const matrices & a, int64_t row, tiles_in_use & tiles) {
    for (int64_t n = 0; n < a.n; n += 2 * lanes) {
        const int width = panel_width(a.n - n), beside = panel_width(a.n - n - lanes);
        tiles.panels(width, std::max(beside, 1));
        (beside > 0 ? squares<true> : squares<false>)(a, row, n / lanes, width, beside);
    }
}

#endif

// Computes what `group` does, for activations in panels.
template <class W> void group_of_panels(const matrices & a, int64_t row, int64_t next, tiles_in_use & tiles) {
    GGML_UNUSED(a), GGML_UNUSED(row), GGML_UNUSED(next), GGML_UNUSED(tiles);
#if defined(AGENTD_BFLOATS)
    if constexpr (W::dot == kind::bfloats) {
#if defined(AGENTD_SQUARES)
        if (has_amx()) {
            group_of_squares(a, row, tiles);
            return;
        }
#endif
        group_of_columns<W>(a, row, next);
    }
#endif
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_SQUARES_H
