// Products of floats, and of bfloat16 and the few rows of activations of an expert. Neither weights nor activations are
// transposed, which would cost more than the product.
//
// A sum has a vector of partial sums: one for each word of a vector of elements; with F32 and AVX2 four vectors, the
// chains, which take turns. One tree of additions makes the sum of them, whatever else is in the tile, so that its bits
// depend on two rows only.
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
// prefetch beside each, or null. AtOnce rows of weights are read at once. They are few: those whose distance is a power
// of two share few places of the cache, and processors prefetch one row best.
template <class W, int N, int AtOnce> __attribute__((noinline)) void dots(const matrices & a, int64_t row, int64_t end,
                                                                          int64_t first, const uint8_t * ahead) {
    constexpr int    rows = lanes / N; // of weights
    constexpr size_t size = W::size * W::pack / W::block; // of a word's weights
    const int64_t    words = a.k / W::pack;
    const uint8_t *  x[N];
    floats           sums[lanes] = {}; // those of an activation are beside each other
    AGENTD_EACH(n, N) {
        x[n] = reinterpret_cast<const uint8_t *>(a.x + (first + n) * a.x_stride);
    }
    for (int part = 0; part < rows; part += AtOnce) {
        using tile = floats[AtOnce][N];
        const uint8_t *w[AtOnce], *next = ahead != nullptr ? ahead + part * a.stride : nullptr;
        tile           some[W::chains] = {};
        int64_t        word            = 0;
        AGENTD_EACH(i, AtOnce) {
            w[i] = a.weights + std::min(row + part + i, a.m - 1) * a.stride;
        }
        const auto add = [&](tile & to, int64_t word, int64_t left) __attribute__((always_inline)) {
            floats values[N];
            AGENTD_EACH(n, N) {
                values[n] = reinterpret_cast<floats>(words_of(x[n] + word * sizeof(float), left));
                asm("" : "+v"(values[n])); // is loaded once, and not by each product
            }
            AGENTD_EACH(i, AtOnce) {
                floats weight = W::words(w[i] + word * size, left);
                asm("" : "+v"(weight));
                AGENTD_EACH(n, N) {
                    to[i][n] = add_words<W>(to[i][n], weight, values[n]);
                }
            }
        };
        // Adds blocks with so many vectors for each chain, whose sums are in registers meanwhile.
        const auto add_blocks = [&](auto vectors, const uint8_t * next) __attribute__((always_inline)) {
            constexpr int each = vectors, share = each * lanes, length = W::chains * share; // words of a chain, and of all
            for (; word + length <= words; word += length) {
                AGENTD_EACH(c, W::chains) {
                    for (size_t at = c * share * size; next != nullptr && at < (c + 1) * share * size; at += cache_line) {
                        for (int i = 0; i < AtOnce; i++) {
                            _mm_prefetch(reinterpret_cast<const char *>(next + i * a.stride + word * size + at), _MM_HINT_T1);
                        }
                    }
                    tile now;
                    AGENTD_EACH(i, AtOnce) AGENTD_EACH(n, N) { now[i][n] = some[c][i][n]; }
                    AGENTD_EACH(i, each) { add(now, word + (i * W::chains + c) * lanes, lanes); }
                    AGENTD_EACH(i, AtOnce) AGENTD_EACH(n, N) { some[c][i][n] = now[i][n]; }
                }
            }
        };
        if constexpr (W::chains == 1) {
            add_blocks(std::integral_constant<int, cache_line / size / lanes>(), next);
        } else if constexpr (N > 1) {
            add_blocks(std::integral_constant<int, 8>(), next);
            add_blocks(std::integral_constant<int, 2>(), next);
        }
        add_blocks(std::integral_constant<int, 1>(), nullptr);
        AGENTD_EACH(c, W::chains) {
            if (word < words) {
                add(some[c], word, words - word);
                word += lanes;
            }
        }
        AGENTD_EACH(i, AtOnce) AGENTD_EACH(n, N) {
            AGENTD_EACH(c, W::chains - 1) { some[0][i][n] = both(some[0][i][n], some[c + 1][i][n]); }
            sums[n * rows + part + i] = some[0][i][n];
        }
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
            constexpr int rows = lanes / N;
            const auto    all  = [&](auto at_once) {
                for (int64_t r = row; r < end; r += rows) {
                    dots<W, N, at_once>(a, r, end, first, ahead != nullptr ? ahead + (r - row) * a.stride : nullptr);
                }
            };
            if constexpr (W::chains == 1) {
                all(std::integral_constant<int, (rows > 5 ? 4 : rows)>());
            } else if (N > 1 && tiles > 1) {
                all(std::integral_constant<int, N == 1 ? 1 : rows>());
            } else {
                all(std::integral_constant<int, 1>());
            }
        });
    }
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_DOTS_H
