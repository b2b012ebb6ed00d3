// Attention with AVX2, FMA and F16C.
#if defined(__x86_64__)

#include "attention/attention.h"

#include <immintrin.h>

#include <algorithm>

#define AGD_TARGET __attribute__((target("avx2,fma,f16c")))

namespace agd::attention {

namespace {

using vec  = float __attribute__((vector_size(32)));
using veci = int __attribute__((vector_size(32)));

constexpr int W = 8, ROWS = 2, COLUMNS = 4;

AGD_TARGET inline veci lane_bits() {
    return veci{ 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7 };
}

AGD_TARGET inline vec load_f16(const char * p) {
    return (vec) _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

AGD_TARGET inline vec load_bf16(const char * p) {
    return (vec) _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))), 16);
}

AGD_TARGET inline vec load_i8(const char * p) {
    return (vec) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
}

AGD_TARGET inline __m128 half(vec v) {
    return _mm_add_ps(_mm256_castps256_ps128((__m256) v), _mm256_extractf128_ps((__m256) v, 1));
}

// s[r][at + j] is the sum of v[r][j].
template <int R> AGD_TARGET inline void sums(const vec (*v)[4], float (*s)[tile], int at) {
    for (int r = 0; r < R; r++) {
        const __m128 ab = _mm_hadd_ps(half(v[r][0]), half(v[r][1]));
        const __m128 cd = _mm_hadd_ps(half(v[r][2]), half(v[r][3]));
        _mm_storeu_ps(s[r] + at, _mm_hadd_ps(ab, cd));
    }
}

AGD_TARGET inline vec fused(vec a, vec b, vec c) {
    return (vec) _mm256_fmadd_ps((__m256) a, (__m256) b, (__m256) c);
}

AGD_TARGET inline float total(vec v) {
    const __m128 two = _mm_hadd_ps(half(v), half(v));
    return _mm_cvtss_f32(_mm_hadd_ps(two, two));
}

AGD_TARGET inline float highest(vec v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256) v), _mm256_extractf128_ps((__m256) v, 1));
    m        = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

#include "attention/common.h"
#include "attention/kernel.h"

} // namespace

AGD_TARGET void compute_avx2(const operands & o, const group & g, int first, int heads, float * scratch) {
    compute(o, g, first, heads, scratch);
}

} // namespace agd::attention

#endif
