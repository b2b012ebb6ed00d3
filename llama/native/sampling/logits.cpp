// Passes over all logits of a vocabulary. They are most of what a token costs beside the model, so they use the
// widest vectors that the CPU has. The choice is made when the program starts.
#include "sampling/logits.h"

#include <algorithm>
#include <cmath>

namespace agd {

namespace {

#if defined(__x86_64__)

namespace avx512 {

using vec  = float __attribute__((vector_size(64)));
using veci = uint32_t __attribute__((vector_size(64)));
#define AGD_TARGET __attribute__((target("avx512f,avx2,fma")))
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace avx512

namespace avx2 {

using vec  = float __attribute__((vector_size(32)));
using veci = uint32_t __attribute__((vector_size(32)));
#define AGD_TARGET __attribute__((target("avx2,fma")))
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace avx2

#endif

namespace portable {

using vec  = float __attribute__((vector_size(16)));
using veci = uint32_t __attribute__((vector_size(16)));
#define AGD_TARGET
#include "sampling/logits_kernel.h"
#undef AGD_TARGET

} // namespace portable

} // namespace

kernel_list::kernel_list() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fma && __builtin_cpu_supports("avx512f")) {
        list[n++] = { avx512::max_value, avx512::weigh, avx512::keep };
    }
    if (fma) {
        list[n++] = { avx2::max_value, avx2::weigh, avx2::keep };
    }
#endif
    list[n++] = { portable::max_value, portable::weigh, portable::keep };
}

const kernel_list kernels;

float max_value(const float * x, int32_t n) {
    return kernels.list[0].max_value(x, n);
}

float weigh(const float * x, int32_t n, float best, float factor, float * weights) {
    return kernels.list[0].weigh(x, n, best, factor, weights);
}

void keep(const float * x, int32_t n, const uint64_t * bits, size_t first, float * out) {
    kernels.list[0].keep(x, n, bits, first, out);
}

// Each part is read once, with weights relative to its own best until a better one follows. A part of a large
// vocabulary stays in the first cache for the second pass.
double log_sum_exp(const float * x, int32_t n) {
    constexpr int32_t part  = 1024;
    constexpr float   log2e = 1.44269504f;
    float             best  = minus_infinity;
    double            sum   = 0;
    for (int32_t at = 0; at < n; at += part) {
        const int32_t count = std::min(part, n - at);
        const float   m     = max_value(x + at, count);
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
        sum += weigh(x + at, count, m, log2e, nullptr) * std::exp(double(m) - double(best));
    }
    return sum > 0 ? double(best) + std::log(sum) : double(minus_infinity);
}

float exp2_negative(float x) {
    return portable::exp2_negative(portable::vec{} + x)[0];
}

} // namespace agd
