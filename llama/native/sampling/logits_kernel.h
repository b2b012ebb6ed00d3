// Passes over a run of logits. A file includes this once for each instruction set, in its own namespace. It
// defines AGD_TARGET (the attribute), vec and veci (W floats or unsigned ints) and not_below before. W is the width of the
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
    for (; i + W <= n; i += W) {
        const vec v = load(x + i);
        a[0]        = v > a[0] ? v : a[0];
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
    float lanes[16];
    __builtin_memcpy(lanes, sum, sizeof lanes);
#pragma GCC unroll 4
    for (int32_t half = 8; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int32_t j = 0; j < half; j++) {
            lanes[j] += lanes[j + half];
        }
    }
    return all + lanes[0];
}

AGD_TARGET static int32_t keep(const float * x, int32_t n, const uint64_t * bits, size_t first, float * out) {
    vec  none = vec{} + minus_infinity;
    veci lanes[parts];
    for (int32_t i = 0; i < 16; i++) {
        lanes[i / W][i % W] = 1u << i;
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i += 16, first += 16) {
        const size_t   word = first / 64, shift = first % 64;
        const uint64_t two[] = { bits[word] >> shift, bits[word + 1] << 1 << (63 - shift) };
        const auto     set   = static_cast<uint32_t>(two[0] | two[1]);
        if (i + 16 > n) {
            for (int32_t j = 0; i + j < n; j++) {
                out[kept++] = (set >> j & 1) != 0 ? x[i + j] : minus_infinity;
            }
            return kept;
        }
        if ((set & 0xFFFF) == 0) {
            continue;
        }
        for (int32_t j = 0; j < parts; j++, kept += W) {
            const vec v = ((veci{} + set) & lanes[j]) != 0 ? load(x + i + j * W) : none;
            __builtin_memcpy(out + kept, &v, sizeof v);
        }
    }
    return kept;
}

AGD_TARGET static void at_least(const float * x, int32_t n, float least, uint64_t * out) {
    const vec l = vec{} + least;
    for (int32_t i = 0; i < n;) {
        const int32_t end  = n - i < 64 ? n : i + 64;
        uint64_t      bits = 0;
        for (; i + W <= end; i += W) {
            bits |= not_below(load(x + i), l) << (i % 64);
        }
        for (; i < end; i++) {
            bits |= uint64_t(x[i] >= least) << (i % 64);
        }
        *out++ = bits;
    }
}
