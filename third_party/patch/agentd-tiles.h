// Products of unpacked weights and rows of activations.
//
// A thread unpacks a part of a group of panels (agentd-panels.h) into its first-level cache, multiplies that with all
// rows of the batch, and meanwhile prefetches the weights that it unpacks next. Quantized weights take activations that
// are rounded to bytes in blocks of 32, as in ggml's Q8_0; BF16 weights take BF16 where the processor multiplies that,
// and all others take F32.
#ifndef AGENTD_TILES_H
#define AGENTD_TILES_H

#include "agentd-panels.h"

#include <algorithm>
#include <type_traits>

namespace {
namespace agentd_products {

constexpr int    panels      = 2;                  // of a group
constexpr int    group_rows  = panels * lanes;
constexpr int    part        = 8192 / sizeof(ints); // vectors of a panel that are unpacked at a time
constexpr size_t cache_line  = 64;
constexpr int    block       = 32;                  // activations with one scale

constexpr int narrow = 2; // rows of a batch for which weights are unpacked into registers
constexpr int few    = 5; // rows of a batch for which bfloat16 is unpacked: more are panels (agentd-columns.h)

// How many rows of the batch a tile has. Accumulators, and sums of bytes, must fit the registers.
#if defined(AGENTD_AVX512)
template <class W> constexpr int widest = W::dot == kind::bytes ? 6 : few;
#else
template <class W> constexpr int widest = 2;
#endif

inline floats sum_of(floats a, floats b, floats c) { return AGENTD_MM(fmadd_ps)(a, b, c); }

inline floats all_of(const char * p) {
    float x;
    std::memcpy(&x, p, sizeof x);
    return AGENTD_MM(set1_ps)(x);
}

inline ints word_of(const char * p) {
    int32_t x;
    std::memcpy(&x, p, sizeof x);
    return all(x);
}

// Where activations of quantized weights lie: K bytes, a scale for each block, and a term for each sub-block of the
// weights. The term is the sum of its bytes times the zero of the weights, or times the scale where weights have minima.
template <class W> struct activations {
    static size_t scales(int64_t k) { return k; }
    static size_t terms(int64_t k) { return k + k / block * sizeof(float); }

    static size_t stride(int64_t k) {
        if (W::dot != kind::bytes) {
            return k * sizeof(float) / W::pack;
        }
        return GGML_PAD(terms(k) + (W::zero != 0 || W::mins ? k / W::sub * sizeof(float) : 0), cache_line);
    }
};

// Rounds 32 values to bytes.
template <class W> void round_block(const float * x, char * row, int64_t k, int64_t at) {
    __m256 v[4], largest = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) {
        v[i]    = _mm256_loadu_ps(x + at + 8 * i);
        largest = _mm256_max_ps(largest, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v[i]));
    }
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
    most        = _mm_max_ps(most, _mm_movehl_ps(most, most));
    most        = _mm_max_ss(most, _mm_movehdup_ps(most));

    const float  amount = _mm_cvtss_f32(most), scale = amount / 127;
    const __m256 inverse = _mm256_set1_ps(amount != 0 ? 127 / amount : 0);
    __m256i      n[4];
    for (int i = 0; i < 4; i++) {
        n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
    }
    // Packing keeps the halves of registers apart.
    const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(row + at), bytes);
    std::memcpy(row + activations<W>::scales(k) + at / block * sizeof scale, &scale, sizeof scale);

    if (W::zero != 0 || W::mins) {
        alignas(32) int64_t eighths[4]; // sums of bytes + 128
        _mm256_store_si256(reinterpret_cast<__m256i *>(eighths),
                           _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)), _mm256_setzero_si256()));
        for (int s = 0; s < block / W::sub; s++) {
            int64_t sum = -128 * W::sub;
            for (int i = 0; i < W::sub / 8; i++) {
                sum += eighths[s * W::sub / 8 + i];
            }
            const float   scaled = scale * static_cast<float>(sum);
            const int32_t offset = static_cast<int32_t>(-W::zero * sum);
            std::memcpy(row + activations<W>::terms(k) + (at / W::sub + s) * sizeof(float),
                        W::mins ? static_cast<const void *>(&scaled) : &offset, sizeof(float));
        }
    }
}

// Converts 32 values, or the fewer that are left.
template <class W> void convert_block(const float * x, char * row, int64_t k, int64_t at) {
    if constexpr (W::dot == kind::bytes) {
        round_block<W>(x, row, k, at);
    } else {
#if defined(AGENTD_BFLOATS)
        for (const int64_t end = std::min(k, at + block); at < end; at += 8) {
            const __m128bh v = _mm256_cvtneps_pbh(_mm256_loadu_ps(x + at));
            std::memcpy(row + at * sizeof(ggml_bf16_t), &v, sizeof v);
        }
#else
        GGML_UNUSED(x), GGML_UNUSED(row), GGML_UNUSED(k), GGML_UNUSED(at);
#endif
    }
}

// What a thread reads next: some bytes of each row of a group. Tiles prefetch it line by line.
struct prefetch {
    const uint8_t * at;
    size_t          stride;
    int64_t         lines, line = 0; // of a row
    int64_t         all, done   = 0; // lines of all rows

    prefetch(const uint8_t * at, size_t stride, size_t bytes)
        : at(at), stride(stride), lines(bytes / cache_line + 1), all(lines * group_rows) {}

    void until(int64_t due) {
        while (done < due) {
            const int64_t n = std::min(due - done, lines - line);
            for (const uint8_t *p = at + line * cache_line, *end = p + n * cache_line; p < end; p += cache_line) {
                _mm_prefetch(reinterpret_cast<const char *>(p), _MM_HINT_T1);
            }
            done += n;
            line += n;
            if (line == lines) {
                line = 0;
                at += stride;
            }
        }
    }
};

#if !defined(AGENTD_VNNI)
// How many of the following 16 bits can sum.
template <class W> constexpr int summands = W::top == 15 ? 8 : W::top <= 31 ? 4 : W::top == 63 ? 2 : 1;

// The products of four bytes of weights and activations in each lane, as two sums of two.
template <class W> inline ints products(ints q, ints x) {
    if (W::top == 128) { // signed weights: their signs go to the activations
#if defined(AGENTD_AVX512)
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(q), _mm512_setzero_si512(), x);
#else
        x = _mm256_sign_epi8(x, q);
#endif
        q = AGENTD_MM(abs_epi8)(q);
    }
    return AGENTD_MM(maddubs_epi16)(q, x);
}
#endif

template <class W> constexpr bool has_parts = W::parts > 1;

// Weights of P panels, unpacked.
template <class W, int P, int Vectors> struct unpacked {
    static constexpr int sub_blocks = W::sub > 0 ? Vectors * W::pack / std::max(W::sub, 1) : 1;

    ints   q[P][Vectors];
    floats scale[P][sub_blocks], min[P][W::mins ? sub_blocks : 1];

    AGENTD_INLINE ints vector(int p, int64_t i) const { return q[p][i]; }

    panel place(int p, int64_t at) {
        const int64_t sub = W::sub > 0 ? at / W::sub : 0;
        return { q[p] + at / W::pack, scale[p] + sub, min[p] + (W::mins ? sub : 0) };
    }

    // Unpacks the block of elements [e, e + block) of k to the place of elements [at, at + block).
    AGENTD_INLINE void block(const panel_rows * rows, int64_t e, int64_t k, int64_t at) {
        const size_t offset = e / W::block * W::size;
        for (int p = 0; p < P; p++) {
            if constexpr (has_parts<W>) {
                W::unpack_scales(rows[p], offset, place(p, at));
                for (int n = 0; n < W::parts; n++) {
                    ints * to = q[p] + at / W::pack + W::block / W::parts / W::pack * n;
                    AGENTD_EACH(half, 2) {
                        ints words[W::words];
                        W::read(rows[p], offset, n, half, words);
                        AGENTD_EACH(g, 4) AGENTD_EACH(i, W::block / W::parts / 32) {
                            to[8 * i + 4 * half + g] = W::unpack_word(words, i, g);
                        }
                    }
                }
            } else {
                W::unpack(rows[p], offset, k - e, place(p, at));
            }
        }
    }
};

// A block of one panel, of which a part at a time is read, and unpacked when it is used.
template <class W> struct in_parts {
    ints   words[2][W::words];
    floats scale[1][W::block / W::sub], min[1][W::block / W::sub];

    AGENTD_INLINE ints vector(int, int64_t i) const {
        const int element = 4 * i % (W::block / W::parts);
        return W::unpack_word(words[element % 32 / 16], element / 32, i % 4);
    }
};

// The products of bytes beside each other, as sums of four in each lane.
inline ints dot_of(ints q, ints x) {
#if defined(AGENTD_VNNI)
    return AGENTD_VNNI(ints{}, q, x);
#else
    return AGENTD_MM(madd_epi16)(AGENTD_MM(maddubs_epi16)(q, x), AGENTD_MM(set1_epi16)(1));
#endif
}

// Adds the products of one sub-block, whose place in w is element `at` and whose activations are x + n * stride.
template <class W, int N, int P, class Weights>
AGENTD_INLINE void add_bytes(floats (&sums)[N][P], const Weights & w, int64_t at, const char * x,
                             const char * scales, const char * terms, size_t stride) {
    ints dots[N][P];
    AGENTD_EACH(n, N) AGENTD_EACH(p, P) { dots[n][p] = W::zero != 0 ? word_of(terms + n * stride) : ints{}; }
#if defined(AGENTD_VNNI)
    AGENTD_EACH(g, W::sub / 4) {
        AGENTD_EACH(n, N) {
            const ints bytes = word_of(x + n * stride + 4 * g);
            AGENTD_EACH(p, P) { dots[n][p] = AGENTD_VNNI(dots[n][p], w.vector(p, at / 4 + g), bytes); }
        }
    }
#else
    AGENTD_EACH(from, W::sub / 4 / summands<W>) {
        ints pairs[N][P];
        AGENTD_EACH(i, summands<W>) {
            const int g = from * summands<W> + i;
            AGENTD_EACH(n, N) {
                const ints bytes = word_of(x + n * stride + 4 * g);
                AGENTD_EACH(p, P) {
                    const ints some = products<W>(w.vector(p, at / 4 + g), bytes);
                    pairs[n][p]     = i == 0 ? some : AGENTD_MM(add_epi16)(pairs[n][p], some);
                }
            }
        }
        AGENTD_EACH(n, N) AGENTD_EACH(p, P) {
            dots[n][p] = AGENTD_MM(add_epi32)(dots[n][p], AGENTD_MM(madd_epi16)(pairs[n][p], AGENTD_MM(set1_epi16)(1)));
        }
    }
#endif
    AGENTD_EACH(n, N) {
        const floats scale = all_of(scales + n * stride);
        AGENTD_EACH(p, P) {
            sums[n][p] = sum_of(from_int(dots[n][p]), product(w.scale[p][at / W::sub], scale), sums[n][p]);
            if (W::mins) {
                sums[n][p] = AGENTD_MM(fnmadd_ps)(w.min[p][at / W::sub], all_of(terms + n * stride), sums[n][p]);
            }
        }
    }
}

// sum + the products of the floats, or pairs of BF16, in each lane.
template <class W> AGENTD_INLINE floats add_words(floats sum, floats a, floats b) {
#if defined(AGENTD_BFLOATS)
    if constexpr (W::dot == kind::bfloats) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }
#endif
    return sum_of(a, b, sum);
}

// The same as add_bytes for one vector of floats.
template <class W, int N, int P, int V>
AGENTD_INLINE void add_floats(floats (&sums)[N][P], const unpacked<W, P, V> & w, int64_t at, const char * x, size_t stride) {
    AGENTD_EACH(n, N) {
        const floats value = all_of(x + n * stride);
        AGENTD_EACH(p, P) { sums[n][p] = add_words<W>(sums[n][p], reinterpret_cast<floats>(w.q[p][at]), value); }
    }
}

// The same for a part of the block of elements [e, e + block) of k.
template <class W, int N, int P, class Weights>
AGENTD_INLINE void add_block(floats (&sums)[N][P], const Weights & w, int64_t at, const char * x, size_t stride,
                             int64_t k, int64_t e, int number = 0, int parts = 1) {
    if constexpr (W::dot == kind::bytes) {
        const char *scales = x + activations<W>::scales(k) + e / block * sizeof(float),
                   *terms  = x + activations<W>::terms(k) + e / W::sub * sizeof(float);
        AGENTD_EACH(s, W::block / W::sub / parts) {
            const int i = W::block / parts * number + s * W::sub;
            add_bytes<W>(sums, w, at + i, x + e + i, scales + i / block * sizeof(float),
                         terms + i / W::sub * sizeof(float), stride);
        }
    } else {
        constexpr int vectors = W::block / W::pack;
        const char *  words   = x + e * sizeof(float) / W::pack;
        if (k - e >= W::block) {
            AGENTD_EACH(i, vectors) { add_floats<W>(sums, w, at / W::pack + i, words + i * sizeof(float), stride); }
        } else {
            for (int64_t i = 0; i < (k - e) / W::pack; i++) {
                add_floats<W>(sums, w, at / W::pack + i, words + i * sizeof(float), stride);
            }
        }
    }
}

#if !defined(AGENTD_AVX512)
// The same for one row of activations and sub-blocks of 16. Weights are multiplied as they lie: their sums, and not they,
// are brought into the lanes of their rows, with the same bits.
template <class W> AGENTD_INLINE floats add_rows(floats sum, const panel_rows & rows, size_t offset, const char * x,
                                                 int64_t k, int64_t e) {
    const char *scales = x + activations<W>::scales(k) + e / block * sizeof(float),
               *terms  = x + activations<W>::terms(k) + e / W::sub * sizeof(float);
    floats      scale[W::block / W::sub];
    W::unpack_scales(rows, offset, { nullptr, scale, nullptr });
    AGENTD_EACH(part, W::parts) {
        ints ones[4], twos[4], fours[2][4]; // sums of so many rows
        AGENTD_EACH(r, lanes) {
            ints words[W::words];
            W::read_row(rows.at[r] + offset, part, words);
            AGENTD_EACH(i, 4) {
                const ints bytes = _mm256_loadu_si256(reinterpret_cast<const ints *>(x + e + 128 * part + 32 * i));
                const ints dots  = dot_of(W::unpack_word(words, i, 0), bytes);
                if (r % 2 == 0) {
                    ones[i] = dots;
                } else { // sums of four products fit 16 bits
                    const ints two = _mm256_madd_epi16(_mm256_packs_epi32(ones[i], dots), _mm256_set1_epi16(1));
                    if (r % 4 == 1) {
                        twos[i] = two;
                    } else {
                        fours[r / 4][i] = _mm256_hadd_epi32(twos[i], two);
                    }
                }
            }
        }
        AGENTD_EACH(i, 4) {
            const ints   low = fours[0][i], high = fours[1][i];
            const ints   halves[2] = { _mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31) };
            const floats by        = all_of(scales + (4 * part + i) * sizeof(float));
            AGENTD_EACH(half, 2) {
                const int  at   = 8 * part + 2 * i + half;
                const ints dots = AGENTD_MM(add_epi32)(word_of(terms + at * sizeof(float)), halves[half]);
                sum             = sum_of(from_int(dots), product(scale[at], by), sum);
            }
        }
    }
    return sum;
}
#endif

// What a tile works on: elements [from, to) of k, N rows of activations, N rows of the result.
struct span {
    int64_t         k, from, to;
    const char *    x;
    size_t          stride;
    float * const * c;
    prefetch &      next;
    int64_t         due; // lines
};

// Adds the products of some weights and N rows of activations to c. Where nothing is unpacked yet, each block of one
// panel after the other is unpacked into registers. That is faster for few rows, whose weights are used once.
template <class W, int N, class Weights> __attribute__((noinline)) void tile(const Weights & w, const panel_rows * rows, const span & s) {
    constexpr bool unpacks = std::is_null_pointer_v<Weights>;
    constexpr int  P       = unpacks ? 1 : panels;
    const int64_t  blocks  = (s.to - s.from + W::block - 1) / W::block;
    int64_t        lines   = s.next.done << 16; // 16 bits of these are a fraction
    const int64_t  more    = ((s.due - s.next.done) << 16) / blocks + 1;
    const uint8_t *ahead = s.next.at, *end = ahead; // rows of weights follow each other
    for (int first = 0; first < panels; first += P) {
        const panel_rows at = rows[first];
        floats           sums[N][P];
        AGENTD_EACH(n, N) AGENTD_EACH(p, P) {
            sums[n][p] = AGENTD_MM(loadu_ps)(s.c[n] + (first + p) * lanes);
        }
        for (int64_t e = s.from; e < s.to; e += W::block) {
            if constexpr (unpacks) {
                for (end += W::size * lanes; ahead < end; ahead += cache_line) {
                    _mm_prefetch(reinterpret_cast<const char *>(ahead), _MM_HINT_T1);
                }
                const size_t offset = e / W::block * W::size;
#if !defined(AGENTD_AVX512)
                if constexpr (N == 1 && W::sub == 16) {
                    **sums = add_rows<W>(**sums, at, offset, s.x, s.k, e);
                    continue;
                }
#endif
                if constexpr (has_parts<W>) {
                    in_parts<W> one;
                    W::unpack_scales(at, offset, { nullptr, one.scale[0], one.min[0] });
                    AGENTD_EACH(i, W::parts) {
                        W::read(at, offset, i, 0, one.words[0]);
                        W::read(at, offset, i, 1, one.words[1]);
                        add_block<W>(sums, one, 0, s.x, s.stride, s.k, e, i, W::parts);
                    }
                } else {
                    unpacked<W, 1, W::block / W::pack> one;
                    one.block(&at, e, s.k, 0);
                    add_block<W>(sums, one, 0, s.x, s.stride, s.k, e);
                }
            } else {
                lines += more;
                s.next.until(lines >> 16);
                add_block<W>(sums, w, e - s.from, s.x, s.stride, s.k, e);
            }
        }
        AGENTD_EACH(n, N) AGENTD_EACH(p, P) {
            AGENTD_MM(storeu_ps)(s.c[n] + (first + p) * lanes, sums[n][p]);
        }
    }
}

// Calls f with the constant that n is, of 1 to N.
template <int N, class F> void with_number(int64_t n, F && f) {
    if (n == N) {
        f(std::integral_constant<int, N>());
    } else if constexpr (N > 1) {
        with_number<N - 1>(n, f);
    }
}

// One matrix of weights and one of activations.
struct matrices {
    const uint8_t * weights;
    size_t          stride; // of a row of weights, in bytes
    int64_t         m, n, k;
    const char *    x;
    size_t          x_stride;
    float *         c;
    int64_t         ldc;
    const int32_t * places = nullptr; // rows of c that the rows of activations make, if not these in order

    float * row(int64_t i) const { return c + (places != nullptr ? places[i] : i) * ldc; }
};

// Computes the columns of the result that rows [row, row + group_rows) of the weights make. `next` is the row whose
// weights this thread reads afterwards.
template <class W> void group(const matrices & a, int64_t row, int64_t next) {
    unpacked<W, panels, part> w;
    alignas(ints) float       rest[widest<W> * group_rows]; // of a tile that reaches past the last row of the weights
    const int64_t             rows  = std::min<int64_t>(group_rows, a.m - row);
    const bool                whole = rows == group_rows, in_registers = a.n <= narrow;
    const int64_t             tiles = (a.n + widest<W> - 1) / widest<W>;
    const int64_t             step  = in_registers ? a.k : part * W::pack;
    panel_rows                at[panels];
    for (int i = 0; i < group_rows; i++) {
        at[i / lanes].at[i % lanes] = a.weights + std::min(row + i, a.m - 1) * a.stride;
    }
    for (int64_t from = 0; from < a.k; from += step) {
        const int64_t to = std::min<int64_t>(a.k, from + step);
        for (int64_t e = from; !in_registers && e < to; e += W::block) {
            w.block(at, e, a.k, e - from);
        }
        const bool    last   = to == a.k;
        const int64_t length = std::min<int64_t>(step, last ? a.k : a.k - to) / W::block * W::size;
        prefetch      ahead(a.weights + (last ? next * a.stride : row * a.stride + to / W::block * W::size), a.stride, length);
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t first = a.n * t / tiles, n = a.n * (t + 1) / tiles - first;
            float *       c[widest<W>];
            for (int64_t i = 0; i < n; i++) {
                c[i] = whole ? a.row(first + i) + row : rest + i * group_rows;
                if (from == 0 || !whole) {
                    std::memset(c[i], 0, group_rows * sizeof(float));
                }
                if (from > 0 && !whole) {
                    std::memcpy(c[i], a.row(first + i) + row, rows * sizeof(float));
                }
            }
            const span s{ a.k, from, to, a.x + first * a.x_stride, a.x_stride, c, ahead, ahead.all * (t + 1) / tiles };
            if (in_registers) {
                with_number<narrow>(n, [&](auto N) { tile<W, N>(nullptr, at, s); });
            } else {
                with_number<widest<W>>(n, [&](auto N) { tile<W, N>(w, at, s); });
            }
            for (int64_t i = 0; !whole && i < n; i++) {
                std::memcpy(a.row(first + i) + row, c[i], rows * sizeof(float));
            }
        }
    }
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_TILES_H
