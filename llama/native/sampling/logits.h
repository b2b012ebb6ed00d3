// Vectorized passes over runs of logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace agd {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// The passes as compiled for one instruction set.
struct kernel {
    // The largest number of x[0,n), without NaN; -infinity if there is none.
    float (*max_value)(const float * x, int32_t n);
    // The sum of 2^((x[i] - best) * factor) over x[0,n), none of which is above best. Writes the terms to weights,
    // unless that is null.
    float (*weigh)(const float * x, int32_t n, float best, float factor, float * weights);
    // Copies x[0,n) to out. A number whose bit, bits[first + i], is not set becomes -infinity. Each 16 numbers without
    // a bit are left out: this changes no maximum and no sum. Returns the length of out. bits has a word more.
    int32_t (*keep)(const float * x, int32_t n, const uint64_t * bits, size_t first, float * out);
    // The numbers of x[0,n) that are at least so large: a bit of out for each. least is above -infinity.
    void (*at_least)(const float * x, int32_t n, float least, uint64_t * out);
};

// Those that this CPU can run, the best first.
struct kernel_list {
    kernel list[3];
    int    n = 0;

    kernel_list();
};
extern const kernel_list kernels;
extern const kernel &    passes; // the best

// The logarithm of the sum of e^x[i] over x[0,n). -infinity if there is no number above that.
double log_sum_exp(const float * x, int32_t n);

// 2^x for x <= 0, 0 below 2^-126 and for NaN; a relative error of 2e-7.
float exp2_negative(float x);

} // namespace agd
