// Passes over a run of logits. A file includes this once for each instruction set, in a namespace of its own. It
// defines AGD_TARGET (the attribute), and vec and veci (W floats or unsigned ints) before. W is the width of the
// registers: GCC 12 takes wider vectors apart into single numbers. Sums have the same 16 lanes for every W.

constexpr int32_t W = sizeof(vec) / sizeof(float), parts = 16 / W;

#include "exp2_kernel.h"

AGD_TARGET static float max_value(const float * x, int32_t n) {
    vec a[4];
    for (vec & v : a) {
        v = vec{} + minus_infinity;
    }
    int32_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W) {
        for (int32_t j = 0; j < 4; j++) {
            const vec v = load(x + i + j * W);
            a[j]        = v > a[j] ? v : a[j];
        }
    }
    a[0]       = a[0] > a[1] ? a[0] : a[1];
    a[2]       = a[2] > a[3] ? a[2] : a[3];
    a[0]       = a[0] > a[2] ? a[0] : a[2];
    float best = minus_infinity;
    for (int32_t j = 0; j < W; j++) {
        best = a[0][j] > best ? a[0][j] : best;
    }
    for (; i < n; i++) {
        best = x[i] > best ? x[i] : best;
    }
    return best;
}

AGD_TARGET static float weigh(const float * x, int32_t n, float best, float factor, float * weights) {
    const vec b = vec{} + best, f = vec{} + factor;
    vec       sum[parts] = {};
    int32_t   i          = 0;
    for (; i + 16 <= n; i += 16) {
        for (int32_t j = 0; j < parts; j++) {
            const vec w = exp2_negative((load(x + i + j * W) - b) * f);
            sum[j] += w;
            if (weights != nullptr) {
                __builtin_memcpy(weights + i + j * W, &w, sizeof w);
            }
        }
    }
    float all = 0;
    for (; i < n; i++) {
        const float w = exp2_negative(vec{} + (x[i] - best) * factor)[0];
        all += w;
        if (weights != nullptr) {
            weights[i] = w;
        }
    }
    for (const vec & s : sum) {
        for (int32_t j = 0; j < W; j++) {
            all += s[j];
        }
    }
    return all;
}
