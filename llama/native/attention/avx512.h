// What the kernels with AVX-512 have in common; they define AGD_TARGET before they include this.

using vec  = float __attribute__((vector_size(64)));
using veci = int __attribute__((vector_size(64)));

constexpr int W = 16;

AGD_TARGET inline vec load_f16(const char * p) {
    return (vec) _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

AGD_TARGET inline vec load_bf16(const char * p) {
    return (vec) _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))), 16);
}

AGD_TARGET inline vec load_i8(const char * p) {
    return (vec) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
}

AGD_TARGET inline float total(vec v) {
    return _mm512_reduce_add_ps((__m512) v);
}

AGD_TARGET inline float highest(vec v) {
    return _mm512_reduce_max_ps((__m512) v);
}
