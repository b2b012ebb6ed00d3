// Products of floats, and of bfloat16 and the few rows of activations of an expert. Neither weights nor activations are
// transposed, which would cost more than the product.
//
// A sum has a vector of partial sums: one for each word of a vector of elements. One tree of additions makes the sum of
// them, whatever else is in the tile, so that its bits depend on two rows only.
#ifndef AGENTD_DOTS_H
#define AGENTD_DOTS_H

#include "agentd-tiles.h"

namespace {
namespace agentd_products {

constexpr int widest_dots = 4; // rows of activations of a tile

inline floats both(floats a, floats b) {
    return AGENTD_MM(add_ps)(a, b);
}

// The sum of the lanes of each vector, in the lane of its number.
AGENTD_INLINE floats sums_of(floats (&v)[lanes]) {
    floats pairs[lanes / 2], fours[lanes / 4];
    AGENTD_EACH(i, lanes / 2) {
        pairs[i] = both(AGENTD_MM(unpacklo_ps)(v[2 * i], v[2 * i + 1]), AGENTD_MM(unpackhi_ps)(v[2 * i], v[2 * i + 1]));
    }
    AGENTD_EACH(i, lanes / 4) {
        const auto a = AGENTD_MM(castps_pd)(pairs[2 * i]), b = AGENTD_MM(castps_pd)(pairs[2 * i + 1]);
        fours[i] = both(AGENTD_MM(castpd_ps)(AGENTD_MM(unpacklo_pd)(a, b)),
                        AGENTD_MM(castpd_ps)(AGENTD_MM(unpackhi_pd)(a, b)));
    }
#if defined(AGENTD_AVX512)
    const auto halves = [](floats a, floats b) {
        return both(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return halves(halves(fours[0], fours[1]), halves(fours[2], fours[3]));
#else
    return both(_mm256_permute2f128_ps(fours[0], fours[1], 0x20), _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
#endif
}

// Computes some columns of the result, from `row` on, for N rows of activations, from `first` on. `ahead` is a row to
// prefetch beside each, or null. Few rows of weights are read at once: those whose distance is a power of two share few
// places of the cache.
template <class W, int N> __attribute__((noinline)) void dots(const matrices & a, int64_t row, int64_t end,
                                                              int64_t first, const uint8_t * ahead) {
    constexpr int    rows = lanes / N, at_once = rows > 5 ? 4 : rows; // of weights
    constexpr size_t size = W::size * W::pack / W::block;             // of a word's weights
    const int64_t    words = a.k / W::pack;
    const uint8_t *  x[N];
    floats           sums[lanes] = {}; // those of an activation are beside each other
    AGENTD_EACH(n, N) {
        x[n] = reinterpret_cast<const uint8_t *>(a.x + (first + n) * a.x_stride);
    }
    for (int part = 0; part < rows; part += at_once) {
        const uint8_t *w[at_once], *next = ahead != nullptr ? ahead + part * a.stride : nullptr;
        floats         some[at_once][N] = {};
        AGENTD_EACH(i, at_once) {
            w[i] = a.weights + std::min(row + part + i, a.m - 1) * a.stride;
        }
        const auto add = [&](int64_t word, int64_t left) __attribute__((always_inline)) {
            floats values[N];
            AGENTD_EACH(n, N) {
                values[n] = reinterpret_cast<floats>(words_of(x[n] + word * sizeof(float), left));
                asm("" : "+v"(values[n])); // is loaded once, and not by each product
            }
            AGENTD_EACH(i, at_once) {
                floats weight = W::words(w[i] + word * size, left);
                asm("" : "+v"(weight));
                AGENTD_EACH(n, N) {
                    some[i][n] = add_words<W>(some[i][n], weight, values[n]);
                }
            }
        };
        constexpr int line = cache_line / size; // words
        int64_t       word = 0;
        for (; word + line <= words; word += line) {
            for (int i = 0; i < at_once && next != nullptr; i++) {
                _mm_prefetch(reinterpret_cast<const char *>(next + i * a.stride + word * size), _MM_HINT_T1);
            }
            AGENTD_EACH(i, line / lanes) { add(word + i * lanes, lanes); }
        }
        for (; word < words; word += lanes) {
            add(word, words - word);
        }
        AGENTD_EACH(i, at_once) AGENTD_EACH(n, N) { sums[n * rows + part + i] = some[i][n]; }
    }
    alignas(floats) float result[lanes];
    AGENTD_MM(store_ps)(result, sums_of(sums));
    const int64_t count = std::min<int64_t>(rows, end - row);
    AGENTD_EACH(n, N) {
        std::memcpy(a.row(first + n) + row, result + n * rows, count * sizeof(float));
    }
}

// Computes what `group` does.
template <class W> void group_of_dots(const matrices & a, int64_t row, int64_t next) {
    const int64_t tiles = (a.n + widest_dots - 1) / widest_dots, end = std::min(a.m, row + group_rows);
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t   first = a.n * t / tiles;
        const uint8_t * ahead = t == 0 ? a.weights + next * a.stride : nullptr;
        with_number<widest_dots>(a.n * (t + 1) / tiles - first, [&](auto N) {
            for (int64_t r = row; r < end; r += lanes / N) {
                dots<W, N>(a, r, end, first, ahead != nullptr ? ahead + (r - row) * a.stride : nullptr);
            }
        });
    }
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_DOTS_H
