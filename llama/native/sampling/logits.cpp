// Passes over all logits of a vocabulary. They are most of what a token costs beside the model, so they use the
// widest vectors that the CPU has. The choice is made when the program starts.
#include "sampling/logits.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace agd {

namespace {

// not_below(a, b) has a bit for each lane where a >= b.
#if defined(__x86_64__)

namespace avx512 {

using vec  = float __attribute__((vector_size(64)));
using veci = uint32_t __attribute__((vector_size(64)));
#define AGD_TARGET __attribute__((target("avx512f,avx2,fma")))
AGD_TARGET static inline uint64_t not_below(vec a, vec b) {
    return _mm512_cmp_ps_mask((__m512) a, (__m512) b, _CMP_GE_OQ);
}
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace avx512

namespace avx2 {

using vec  = float __attribute__((vector_size(32)));
using veci = uint32_t __attribute__((vector_size(32)));
#define AGD_TARGET __attribute__((target("avx2,fma")))
AGD_TARGET static inline uint64_t not_below(vec a, vec b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256) a, (__m256) b, _CMP_GE_OQ)));
}
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace avx2

#endif

namespace portable {

using vec  = float __attribute__((vector_size(16)));
using veci = uint32_t __attribute__((vector_size(16)));
#define AGD_TARGET
static inline uint64_t not_below(vec a, vec b) {
    const veci m = (veci) (a >= b);
    return (m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8);
}
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace portable

} // namespace

kernel_list::kernel_list() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fma && __builtin_cpu_supports("avx512f")) {
        list[n++] = { avx512::max_value, avx512::weigh, avx512::keep, avx512::at_least };
    }
    if (fma) {
        list[n++] = { avx2::max_value, avx2::weigh, avx2::keep, avx2::at_least };
    }
#endif
    list[n++] = { portable::max_value, portable::weigh, portable::keep, portable::at_least };
}

const kernel_list kernels;
const kernel &    passes = kernels.list[0];

// Each part is read once, with weights relative to its own best until a better one follows. A part of a large
// vocabulary stays in the first cache for the second pass.
double log_sum_exp(const float * x, int32_t n) {
    constexpr int32_t part  = 1024;
    constexpr float   log2e = 1.44269504f;
    float             best  = minus_infinity;
    double            sum   = 0;
    for (int32_t at = 0; at < n; at += part) {
        const int32_t count = std::min(part, n - at);
        const float   m     = passes.max_value(x + at, count);
        if (m == minus_infinity) {
            continue;
        }
        if (m == -minus_infinity) {
            return double(m);
        }
        if (m > best) {
            sum *= std::exp(double(best) - double(m));
            best = m;
        }
        sum += passes.weigh(x + at, count, m, log2e, nullptr) * std::exp(double(m) - double(best));
    }
    return sum > 0 ? double(best) + std::log(sum) : double(minus_infinity);
}

float exp2_negative(float x) {
    return portable::exp2_negative(portable::vec{} + x)[0];
}

} // namespace agd
