// Panels of weights for agentd-tiles.h: rows of a matrix beside each other, unpacked. agentd-columns.h makes panels of
// activations in the same way.
//
// A vector of a panel has one 32-bit lane for each row of weights. A lane holds what a product takes at once: one
// float, two bfloat16, or four bytes of quantized weights. So a product adds the terms of a row one after the other
// in one lane, whatever else is in the batch.
//
// A quantized weight is scale * (q - zero) or scale * q - min. q is one byte. Where the processor has VNNI it is
// unsigned. Without VNNI, q of 8 bits is signed and has no zero, because sums of two products must fit 16 bits.
#ifndef AGENTD_PANELS_H
#define AGENTD_PANELS_H

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define AGENTD_AVX512
#define AGENTD_MM(name) _mm512_##name
#if defined(__AVX512VNNI__)
#define AGENTD_VNNI _mm512_dpbusd_epi32
#endif
#if defined(__AVX512BF16__)
#define AGENTD_BFLOATS
#endif
#else
#define AGENTD_MM(name) _mm256_##name
#if defined(__AVXVNNI__)
#define AGENTD_VNNI _mm256_dpbusd_avx_epi32
#endif
#endif
#define AGENTD_INLINE inline __attribute__((always_inline))
#define AGENTD_EACH(n, N) _Pragma("GCC unroll 16") for (int n = 0; n < N; n++)

namespace { // of each of ggml's variants
namespace agentd_products {

#if defined(AGENTD_AVX512)
using floats = __m512;
using ints   = __m512i;
#else
using floats = __m256;
using ints   = __m256i;
#endif

constexpr int lanes = sizeof(floats) / sizeof(float);

#if defined(AGENTD_VNNI)
constexpr bool vnni = true;
#else
constexpr bool vnni = false;
#endif

inline ints all(int32_t x) { return AGENTD_MM(set1_epi32)(x); }
inline ints all(uint32_t x) { return AGENTD_MM(set1_epi32)(static_cast<int32_t>(x)); }

// The rows of a panel. Rows past the end of the matrix repeat its last one.
struct panel_rows {
    const uint8_t * at[lanes];

    // 16 bytes of rows j, j + 4, j + 8 and so on, from the offset on.
    ints fourth(int j, size_t offset) const {
        const auto part = [&](int i) {
            return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at[j + 4 * i] + offset));
        };
#if defined(AGENTD_AVX512)
        const ints low = _mm512_inserti32x4(_mm512_castsi128_si512(part(0)), part(1), 1);
        return _mm512_inserti32x4(_mm512_inserti32x4(low, part(2), 2), part(3), 3);
#else
        return _mm256_inserti128_si256(_mm256_castsi128_si256(part(0)), part(1), 1);
#endif
    }

    // 16 bytes of each row as four vectors with 4 bytes of each row.
    AGENTD_INLINE void words(size_t offset, ints out[4]) const {
        const ints four[4] = { fourth(0, offset), fourth(1, offset), fourth(2, offset), fourth(3, offset) };
        transpose(four, out);
    }

#if defined(AGENTD_BFLOATS)
    // A vector of each row, which `load` makes of the bytes from the offset on, as a vector with one word of each row for
    // each lane. Rows are read once: those whose distance is a power of two share few places of the cache.
    template <class Load> AGENTD_INLINE void line(size_t offset, ints out[lanes], Load && load) const {
        ints four[lanes / 4][4]; // [g][i]: words 4 * l + i of rows 4 * g to 4 * g + 3 in lanes 4 * l to 4 * l + 3
        for (int g = 0; g < lanes / 4; g++) {
            ints row[4];
            for (int i = 0; i < 4; i++) {
                row[i] = load(at[4 * g + i] + offset);
            }
            transpose(row, four[g]);
        }
        for (int i = 0; i < 4; i++) {
            const ints low = _mm512_shuffle_i32x4(four[0][i], four[1][i], 0x44);
            const ints low_next = _mm512_shuffle_i32x4(four[2][i], four[3][i], 0x44);
            const ints high = _mm512_shuffle_i32x4(four[0][i], four[1][i], 0xee);
            const ints high_next = _mm512_shuffle_i32x4(four[2][i], four[3][i], 0xee);
            out[i]      = _mm512_shuffle_i32x4(low, low_next, 0x88);
            out[i + 4]  = _mm512_shuffle_i32x4(low, low_next, 0xdd);
            out[i + 8]  = _mm512_shuffle_i32x4(high, high_next, 0x88);
            out[i + 12] = _mm512_shuffle_i32x4(high, high_next, 0xdd);
        }
    }
#endif

    // Transposes the words of four rows, in each quarter or half of the vectors.
    AGENTD_INLINE static void transpose(const ints row[4], ints out[4]) {
        const ints low = AGENTD_MM(unpacklo_epi32)(row[0], row[1]), high = AGENTD_MM(unpackhi_epi32)(row[0], row[1]);
        const ints low_next  = AGENTD_MM(unpacklo_epi32)(row[2], row[3]);
        const ints high_next = AGENTD_MM(unpackhi_epi32)(row[2], row[3]);
        out[0] = AGENTD_MM(unpacklo_epi64)(low, low_next);
        out[1] = AGENTD_MM(unpackhi_epi64)(low, low_next);
        out[2] = AGENTD_MM(unpacklo_epi64)(high, high_next);
        out[3] = AGENTD_MM(unpackhi_epi64)(high, high_next);
    }

    template <class T> ints gather(size_t offset) const {
        alignas(ints) uint32_t values[lanes];
        for (int i = 0; i < lanes; i++) {
            T value;
            std::memcpy(&value, at[i] + offset, sizeof value);
            values[i] = value;
        }
        return *reinterpret_cast<const ints *>(values);
    }

    // The half-precision number of each row at the offset.
    floats halves(size_t offset) const {
        alignas(ints) uint16_t values[lanes];
        for (int i = 0; i < lanes; i++) {
            std::memcpy(&values[i], at[i] + offset, sizeof values[i]);
        }
#if defined(AGENTD_AVX512)
        return _mm512_cvtph_ps(*reinterpret_cast<const __m256i *>(values));
#else
        return _mm256_cvtph_ps(*reinterpret_cast<const __m128i *>(values));
#endif
    }
};

// Rows of a panel of which there are `count` or more. Row i lies at at(i).
template <class At> panel_rows rows_from(int64_t count, At && at) {
    panel_rows rows;
    for (int i = 0; i < lanes; i++) {
        rows.at[i] = reinterpret_cast<const uint8_t *>(at(i < count ? i : count - 1));
    }
    return rows;
}

// The first words at p: 8, or as many as there are lanes. The others are 0.
inline ints words_of(const uint8_t * p, int64_t count) {
#if defined(AGENTD_AVX512)
    return count >= lanes ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi32((1 << count) - 1, p);
#else
    (void) count;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
#endif
}

// The first half-precision numbers at p as floats: 8, or as many as there are lanes.
inline floats floats_of(const uint8_t * p, int64_t count) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
#if defined(AGENTD_AVX512)
    return _mm512_cvtph_ps(count >= lanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)) : _mm256_zextsi128_si256(low));
#else
    (void) count;
    return _mm256_cvtph_ps(low);
#endif
}

// The half-precision number in the low half of each lane.
inline floats from_half(ints v) {
#if defined(AGENTD_AVX512)
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
#else
    const __m256i low = _mm256_packus_epi32(v & all(0xffff), _mm256_setzero_si256());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(low, 0x08)));
#endif
}

// The first bfloat16 numbers at p as floats: as many as there are lanes, or 8.
inline floats bfloats_of(const uint8_t * p, int64_t count) {
#if defined(AGENTD_AVX512)
    const __m256i v = count >= lanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)) :
                                       _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
    return reinterpret_cast<floats>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
#else
    (void) count;
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return reinterpret_cast<floats>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
#endif
}

inline floats from_int(ints v) { return AGENTD_MM(cvtepi32_ps)(v); }
inline floats product(floats a, floats b) { return AGENTD_MM(mul_ps)(a, b); }
inline ints   left(ints v, int bits) { return AGENTD_MM(slli_epi32)(v, bits); }
inline ints   right(ints v, int bits) { return AGENTD_MM(srli_epi32)(v, bits); }

// The same 16 bytes in each quarter or half of a vector.
inline ints in_each(__m128i v) {
#if defined(AGENTD_AVX512)
    return _mm512_broadcast_i32x4(v);
#else
    return _mm256_broadcastsi128_si256(v);
#endif
}

// Four bytes of each lane: those of the numbers in `which`. Number 128 stands for 0.
inline ints bytes_of(ints v, uint32_t which) {
    return AGENTD_MM(shuffle_epi8)(v, in_each(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)) | all(which));
}

// Byte j of each lane, and the same times 2^24.
inline ints byte(ints v, int j) { return bytes_of(v, 0x80808000 | j); }
inline ints top_byte(ints v, int j) { return bytes_of(v, 0x00808080 | j << 24); }

// Four bits of each byte.
inline ints low_nibbles(ints v) { return v & all(0x0f0f0f0f); }
inline ints high_nibbles(ints v) { return right(v, 4) & all(0x0f0f0f0f); }

// Where unpacked weights go: vectors q, and for each sub-block a vector of scales and one of minima.
struct panel {
    ints *   q;
    floats * scale;
    floats * min;
};

enum class kind { floats, bfloats, bytes };

// What the types below have in common. unpack reads one block of each row at the offset, or the `left` elements of it
// that a row of bfloat16 ends with. words reads as much of a row as a vector of activations has, or the `left` words.
struct float_weights {
    static constexpr kind dot  = kind::floats;
    static constexpr int  pack = 1, parts = 1; // elements of a lane, and parts of a block
    static constexpr int  chains = 1; // of partial sums, in agentd-dots.h
    static constexpr int  sub  = 0, zero = 0;
    static constexpr bool mins = false;
};

struct byte_weights {
    static constexpr kind dot  = kind::bytes;
    static constexpr int  pack = 4;
    static constexpr int  sub  = 32;    // elements with one scale
    static constexpr int  zero = 0;
    static constexpr bool mins = false; // whether there are minima
    static constexpr int  top  = 15;    // the largest q, 128 where q is signed
    // A block may have parts. Then `words` vectors are read from each half of a part, which has 16 of each 32 elements,
    // and unpack_word makes vector g of the half's 16 elements from 32 * i on.
    static constexpr int  parts = 1, words = 1;
};

template <ggml_type> struct weights;

template <> struct weights<GGML_TYPE_F32> : float_weights {
    static constexpr int    block = lanes;
    static constexpr size_t size  = block * sizeof(float);
    static constexpr int    chains = lanes == 8 ? 4 : 1;

    static floats words(const uint8_t * p, int64_t left) { return reinterpret_cast<floats>(words_of(p, left)); }
};

template <> struct weights<GGML_TYPE_F16> : float_weights {
    static constexpr int    block = lanes;
    static constexpr size_t size  = block * sizeof(ggml_fp16_t);

    static floats words(const uint8_t * p, int64_t left) { return floats_of(p, left); }
};

template <> struct weights<GGML_TYPE_BF16> : float_weights {
    static constexpr int    block = 2 * lanes;
    static constexpr size_t size  = block * sizeof(ggml_bf16_t);
#if defined(AGENTD_BFLOATS)
    static constexpr kind dot  = kind::bfloats;
    static constexpr int  pack = 2;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t left, panel to) {
        rows.line(offset, to.q, [=](const uint8_t * p) { return words_of(p, left / 2); });
    }
    static floats words(const uint8_t * p, int64_t left) { return reinterpret_cast<floats>(words_of(p, left)); }
#else
    static floats words(const uint8_t * p, int64_t left) { return bfloats_of(p, left); }
#endif
};

template <> struct weights<GGML_TYPE_Q8_0> : byte_weights {
    static constexpr int    block = 32;
    static constexpr size_t size  = sizeof(block_q8_0);
    static constexpr int    zero = vnni ? 128 : 0;
    static constexpr int    top  = 128;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t, panel to) {
        rows.words(offset + 2, to.q);
        rows.words(offset + 18, to.q + 4);
        if (vnni) {
            for (int i = 0; i < 8; i++) {
                to.q[i] ^= all(0x80808080U);
            }
        }
        *to.scale = rows.halves(offset);
    }
};

// Bits 4g to 4g + 3 of each lane as bit 4 of its four bytes.
inline ints fifth_bits(ints v, int g) {
    const ints bytes = bytes_of(v, g / 2 * 0x01010101), bits = all(g % 2 ? 0x80402010U : 0x08040201U);
#if defined(AGENTD_AVX512)
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(bytes, bits), all(0x10101010));
#else
    return _mm256_cmpeq_epi8(bytes & bits, bits) & all(0x10101010);
#endif
}

// Blocks of 32 elements of 4 or 5 bits, with a scale of half precision, perhaps a minimum, perhaps fifth bits.
template <int Zero, bool Min, bool Fifth> struct nibble_weights : byte_weights {
    static constexpr int    block = 32;
    static constexpr size_t size  = 2 + (Min ? 2 : 0) + (Fifth ? 4 : 0) + 16;
    static constexpr int    zero  = Zero;
    static constexpr bool   mins  = Min;
    static constexpr int    top   = Fifth ? 31 : 15;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t, panel to) {
        ints v[4], fifth{};
        rows.words(offset + size - 16, v);
        if (Fifth) {
            fifth = rows.gather<uint32_t>(offset + size - 20);
        }
        for (int g = 0; g < 4; g++) {
            to.q[g]     = low_nibbles(v[g]);
            to.q[g + 4] = high_nibbles(v[g]);
            if (Fifth) {
                to.q[g] |= fifth_bits(fifth, g);
                to.q[g + 4] |= fifth_bits(fifth, g + 4);
            }
        }
        *to.scale = rows.halves(offset);
        if (Min) {
            *to.min = -rows.halves(offset + 2);
        }
    }
};

template <> struct weights<GGML_TYPE_Q4_0> : nibble_weights<8, false, false> {};
template <> struct weights<GGML_TYPE_Q4_1> : nibble_weights<0, true, false> {};
template <> struct weights<GGML_TYPE_Q5_0> : nibble_weights<16, false, true> {};
template <> struct weights<GGML_TYPE_Q5_1> : nibble_weights<0, true, true> {};

// Blocks of 32 elements of 4 bits, which stand for the values of a table.
struct table_weights : byte_weights {
    static constexpr int block = 32;

    AGENTD_INLINE static void unpack_values(const int8_t (&values)[16], uint32_t zeros, const panel_rows & rows, size_t offset, panel to) {
        const ints table = AGENTD_MM(add_epi8)(in_each(*reinterpret_cast<const __m128i *>(values)), all(zeros));
        ints       v[4];
        rows.words(offset, v);
        for (int g = 0; g < 4; g++) {
            to.q[g]     = AGENTD_MM(shuffle_epi8)(table, low_nibbles(v[g]));
            to.q[g + 4] = AGENTD_MM(shuffle_epi8)(table, high_nibbles(v[g]));
        }
    }
};

template <> struct weights<GGML_TYPE_IQ4_NL> : table_weights {
    static constexpr size_t size = sizeof(block_iq4_nl);
    static constexpr int    zero = vnni ? 128 : 0;
    static constexpr int    top  = 128;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t, panel to) {
        alignas(16) static const int8_t values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                                       1,    13,   25,  38,  53,  69,  89,  113 };
        unpack_values(values, zero * 0x01010101U, rows, offset + 2, to);
        *to.scale = rows.halves(offset);
    }
};

// The values are doubled, and the scales, which are powers of two, are halved.
template <> struct weights<GGML_TYPE_MXFP4> : table_weights {
    static constexpr size_t size = sizeof(block_mxfp4);
    static constexpr int    zero = 12, top = 24;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t, panel to) {
        alignas(16) static const int8_t values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };
        unpack_values(values, zero * 0x01010101U, rows, offset + offsetof(block_mxfp4, qs), to);
        const ints e       = rows.gather<uint8_t>(offset + offsetof(block_mxfp4, e));
        const ints normal  = left(e - all(1), 23);
        const ints smaller = AGENTD_MM(sllv_epi32)(all(0x00200000), e); // e is 0 or 1: not a normal number
#if defined(AGENTD_AVX512)
        *to.scale = reinterpret_cast<floats>(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(e, all(2)), smaller));
#else
        *to.scale = reinterpret_cast<floats>(_mm256_blendv_epi8(normal, smaller, _mm256_cmpgt_epi32(all(2), e)));
#endif
    }
};

// Q4_K and Q5_K begin with two numbers of half precision, and 8 scales and minima of 6 bits.
inline void unpack_k_scales(const panel_rows & rows, size_t offset, panel to) {
    ints v[4];
    rows.words(offset, v);
    const floats scale = from_half(v[0]), min = from_half(right(v[0], 16));
    const ints   six = all(0x3f3f3f3f), top = all(0x30303030);
    const ints   scales[2] = { v[1] & six, low_nibbles(v[3]) | (right(v[1], 2) & top) };
    const ints   mins[2]   = { v[2] & six, high_nibbles(v[3]) | (right(v[2], 2) & top) };
    for (int i = 0; i < 8; i++) {
        to.scale[i] = product(scale, from_int(byte(scales[i / 4], i % 4)));
        to.min[i]   = product(min, from_int(byte(mins[i / 4], i % 4)));
    }
}

template <> struct weights<GGML_TYPE_Q4_K> : byte_weights {
    static constexpr int    block = QK_K;
    static constexpr size_t size  = sizeof(block_q4_K);
    static constexpr bool   mins  = true;
    static constexpr int    parts = 4, words = 4;

    AGENTD_INLINE static void unpack_scales(const panel_rows & rows, size_t offset, panel to) { unpack_k_scales(rows, offset, to); }

    AGENTD_INLINE static void read(const panel_rows & rows, size_t offset, int part, int half, ints * to) {
        rows.words(offset + offsetof(block_q4_K, qs) + 32 * part + 16 * half, to);
    }
    AGENTD_INLINE static ints unpack_word(const ints * words, int i, int g) {
        return i == 0 ? low_nibbles(words[g]) : high_nibbles(words[g]);
    }
};

template <> struct weights<GGML_TYPE_Q5_K> : byte_weights {
    static constexpr int    block = QK_K;
    static constexpr size_t size  = sizeof(block_q5_K);
    static constexpr bool   mins  = true;
    static constexpr int    top   = 31;

    AGENTD_INLINE static void unpack(const panel_rows & rows, size_t offset, int64_t, panel to) {
        unpack_k_scales(rows, offset, to);
        const ints sixteen = all(0x10101010);
        for (int half = 0; half < 2; half++) {
            ints high[4]; // bit s of a byte belongs to sub-block s
            rows.words(offset + offsetof(block_q5_K, qh) + 16 * half, high);
            for (int i = 0; i < 4; i++) {
                ints v[4];
                rows.words(offset + offsetof(block_q5_K, qs) + 32 * i + 16 * half, v);
                AGENTD_EACH(g, 4) {
                    const int  at    = 16 * i + 4 * half + g;
                    const ints shown = i < 2 ? left(high[g], 4 - 2 * i) : right(high[g], 2 * i - 4);
                    const ints next  = i < 2 ? left(high[g], 3 - 2 * i) : right(high[g], 2 * i - 3);
                    to.q[at]         = low_nibbles(v[g]) | (shown & sixteen);
                    to.q[at + 8]     = high_nibbles(v[g]) | (next & sixteen);
                }
            }
        }
    }
};

template <> struct weights<GGML_TYPE_Q6_K> : byte_weights {
    static constexpr int    block = QK_K;
    static constexpr size_t size  = sizeof(block_q6_K);
    static constexpr int    sub   = 16;
    static constexpr int    zero  = 32, top = 63;

    static constexpr int    parts = 2, words = 12;

    AGENTD_INLINE static void unpack_scales(const panel_rows & rows, size_t offset, panel to) {
        const floats scale = product(rows.halves(offset + offsetof(block_q6_K, d)), AGENTD_MM(set1_ps)(0x1p-24f));
        ints         scales[4];
        rows.words(offset + offsetof(block_q6_K, scales), scales);
        AGENTD_EACH(i, 16) {
            to.scale[i] = product(scale, from_int(top_byte(scales[i / 4], i % 4)));
        }
    }

    AGENTD_INLINE static void read(const panel_rows & rows, size_t offset, int part, int half, ints * to) {
        rows.words(offset + 64 * part + 16 * half, to);
        rows.words(offset + 64 * part + 16 * half + 32, to + 4);
        rows.words(offset + offsetof(block_q6_K, qh) + 32 * part + 16 * half, to + 8);
    }
    AGENTD_INLINE static ints unpack_word(const ints * words, int i, int g) {
        const ints four = i < 2 ? low_nibbles(words[i % 2 * 4 + g]) : high_nibbles(words[i % 2 * 4 + g]);
        const ints high = words[8 + g];
        if (lanes == 8 && i < 2) { // a table takes one instruction for a shift and a mask
            const __m128i twos = i == 0 ? _mm_set1_epi32(0x30201000) : _mm_setr_epi32(0, 0x10101010, 0x20202020, 0x30303030);
            return four | AGENTD_MM(shuffle_epi8)(in_each(twos), low_nibbles(high));
        }
        const ints two = i == 0 ? left(high, 4) : i == 1 ? left(high, 2) : i == 2 ? high : right(high, 2);
        return four | (two & all(0x30303030));
    }
#if !defined(AGENTD_AVX512)
    // Reads part of one row: unpack_word then makes 32 elements as they lie, with g = 0.
    AGENTD_INLINE static void read_row(const uint8_t * w, int part, ints * to) {
        const auto at = [&](size_t offset) { return _mm256_loadu_si256(reinterpret_cast<const ints *>(w + offset)); };
        to[0] = at(64 * part), to[4] = at(64 * part + 32), to[8] = at(offsetof(block_q6_K, qh) + 32 * part);
    }
#endif
};

} // namespace agentd_products
} // namespace

#endif // AGENTD_PANELS_H
