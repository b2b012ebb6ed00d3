// Attention with AVX-512.
#if defined(__x86_64__)

#include "attention/attention.h"

#include <immintrin.h>

#include <algorithm>

#define AGD_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))

namespace agd::attention {

namespace {

#include "attention/avx512.h"

constexpr int ROWS = 4, COLUMNS = 4;

AGD_TARGET inline veci lane_bits() {
    return veci{ 1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15 };
}

AGD_TARGET inline vec fused(vec a, vec b, vec c) {
    return (vec) _mm512_fmadd_ps((__m512) a, (__m512) b, (__m512) c);
}

// Four vectors to one, whose lane 4i+j has a part of the sum of v[j]: the lanes of
// each quarter are added by twos, in the order that all sums have.
AGD_TARGET inline __m512 quarters(const vec * v) {
    const __m512 a = (__m512) v[0], b = (__m512) v[1], c = (__m512) v[2], d = (__m512) v[3];
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}

// s[r][at + j] is the sum of v[r][j].
template <int R> AGD_TARGET inline void sums(const vec (*v)[4], float (*s)[tile], int at) {
    for (int r = 0; r < R; r++) {
        const __m512 x    = quarters(v[r]);
        const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
        _mm_storeu_ps(s[r] + at, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
    }
}

#include "attention/common.h"
#include "attention/kernel.h"

} // namespace

AGD_TARGET void compute_avx512(const operands & o, const group & g, int first, int heads, float * scratch) {
    compute(o, g, first, heads, scratch);
}

} // namespace agd::attention

#endif
