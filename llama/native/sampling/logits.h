// What is found in runs of logits, with vectors.
#pragma once

#include <cstdint>
#include <limits>

namespace agd {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Largest value of x[0,n), of those that are numbers; -infinity if there are none.
float max_value(const float * x, int32_t n);

// The sum of 2^((x[i] - best) * factor) over x[0,n), none of which is above best; 0 if that
// is infinite. The terms into weights, unless that is null.
float weigh(const float * x, int32_t n, float best, float factor, float * weights);

// 2^x for x <= 0, 0 below 2^-126 and for NaN; a relative error of 2e-7.
float exp2_negative(float x);

} // namespace agd
