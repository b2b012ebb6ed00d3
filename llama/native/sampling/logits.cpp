// Passes over all logits of a vocabulary. They are most of what a token costs beside the model, so they use the
// widest vectors that the CPU has. The choice is made when the program starts.
#include "sampling/logits.h"

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
        list[n++] = { avx512::max_value, avx512::weigh };
    }
    if (fma) {
        list[n++] = { avx2::max_value, avx2::weigh };
    }
#endif
    list[n++] = { portable::max_value, portable::weigh };
}

const kernel_list kernels;

float max_value(const float * x, int32_t n) {
    return kernels.list[0].max_value(x, n);
}

float weigh(const float * x, int32_t n, float best, float factor, float * weights) {
    return kernels.list[0].weigh(x, n, best, factor, weights);
}

float exp2_negative(float x) {
    return portable::exp2_negative(portable::vec{} + x)[0];
}

} // namespace agd
