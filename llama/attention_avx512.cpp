// Attention with AVX-512.
#if defined(__x86_64__)

#include "attention.h"

#include <immintrin.h>

#define AGD_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))

namespace agd::attention {

namespace {

using vec  = float __attribute__((vector_size(64)));
using veci = int __attribute__((vector_size(64)));

constexpr int W = 16, ROWS = 4, COLUMNS = 4;

AGD_TARGET inline veci lane_bits() {
    return veci{ 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13,
                 1 << 14, 1 << 15 };
}

AGD_TARGET inline vec load_f16(const char * p) {
    return (vec) _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

AGD_TARGET inline float total(vec v) { return _mm512_reduce_add_ps((__m512) v); }

AGD_TARGET inline float highest(vec v) { return _mm512_reduce_max_ps((__m512) v); }

AGD_TARGET inline __m128 quarter(vec v) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512) v), _mm512_extractf32x8_ps((__m512) v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// The sums of four vectors.
AGD_TARGET inline void sum4(const vec * v, float * to) {
    const __m128 ab = _mm_hadd_ps(quarter(v[0]), quarter(v[1]));
    const __m128 cd = _mm_hadd_ps(quarter(v[2]), quarter(v[3]));
    _mm_storeu_ps(to, _mm_hadd_ps(ab, cd));
}

#include "attention_kernel.h"

} // namespace

AGD_TARGET void compute_avx512(const operands & o, const group & g, int head, float * scratch) { compute(o, g, head, scratch); }

} // namespace agd::attention

#endif
