// Passes over all logits of a vocabulary, which is what a token costs beside the model:
// with vectors of the widest kind that the CPU has, found when the program starts.
#include "sampling/logits.h"

#include "api.h"

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

struct kernel {
    float (*max_value)(const float *, int32_t);
    float (*weigh)(const float *, int32_t, float, float, float *);
};

struct kernels {
    kernel list[3];
    int    n = 0;

    kernels() {
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
};

const kernels these; // those that this CPU can run, the best first

} // namespace

float max_value(const float * x, int32_t n) { return these.list[0].max_value(x, n); }

float weigh(const float * x, int32_t n, float best, float factor, float * weights) {
    return these.list[0].weigh(x, n, best, factor, weights);
}

float exp2_negative(float x) { return portable::exp2_negative(portable::vec{} + x)[0]; }

} // namespace agd

extern "C" bool agd_weigh(int version, const float * x, int32_t n, float factor, float * best, float * sum, float * weights) {
    if (version >= agd::these.n) {
        return false;
    }
    const agd::kernel & k = agd::these.list[version];
    *best = k.max_value(x, n);
    *sum  = k.weigh(x, n, *best, factor, weights);
    return true;
}
