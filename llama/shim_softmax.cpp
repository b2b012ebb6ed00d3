// Drawing from a whole vocabulary: one pass of exponentials over 150,000 logits
// for every token, so it is done with vectors and without a list of candidates.
#include "shim_choose.h"

#include <algorithm>
#include <cmath>

namespace agd {

namespace {

constexpr int32_t lanes = 16;

// 2^x for x <= 0, 0 below 2^-126 and for NaN; a relative error of 2e-7: the Taylor
// series of 2^f around 0 up to f^6, for |f| <= 0.5.
inline float exp2_negative(float x) {
    const float clamped = x > -126.0f ? x : -126.0f;
    const float shifted = clamped + 12582912.0f; // 1.5 * 2^23: the low bits are the nearest integer
    const float f       = clamped - (shifted - 12582912.0f);
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    int32_t n, bits;
    __builtin_memcpy(&n, &shifted, sizeof n);
    __builtin_memcpy(&bits, &p, sizeof bits);
    bits = static_cast<int32_t>(static_cast<uint32_t>(bits) + (static_cast<uint32_t>(n) << 23));
    float y;
    __builtin_memcpy(&y, &bits, sizeof y);
    return x >= -126.0f ? y : 0.0f;
}

// weights[i] = 2^((x[i] - best) * factor) for a block of n logits; their sum.
AGD_CLONES float weigh(const float * x, int32_t n, float best, float factor, float * weights) {
    float sum[lanes] = {};
    int32_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (int32_t j = 0; j < lanes; j++) {
            const float w  = exp2_negative((x[i + j] - best) * factor);
            weights[i + j] = w;
            sum[j] += w;
        }
    }
    for (; i < n; i++) {
        weights[i] = exp2_negative((x[i] - best) * factor);
        sum[0] += weights[i];
    }
    float all = 0;
    for (float s : sum) {
        all += s;
    }
    return all;
}

} // namespace

// What llama.cpp's temp sampler and a draw from its softmax would choose. The sum
// is found by blocks, then only the block in which the draw falls is looked at.
llama_token chooser::draw_any(const float * logits) {
    const float factor = 1.44269504f / opts.temperature; // log2(e)
    float       weights[block];
    float       best = minus_infinity;
    llama_token top  = AGD_SAMPLE_NOTFINITE;
    sums.clear();
    // The logits come from memory, so each block is looked at once: its weights are those
    // beside its own best, until the best of all is known.
    for_blocks([&](int32_t at, int32_t count) {
        const float m = max_value(logits + at, count);
        if (m > best) {
            best = m;
            top  = at; // of the block, for now
        }
        sums.push_back({ at, count, m, m > minus_infinity ? weigh(logits + at, count, m, factor, weights) : 0.0 });
    });
    if (top < 0) {
        return top;
    }
    while (logits[top] != best) {
        top++;
    }
    double sum = 0;
    for (block_sum & b : sums) {
        sum += b.until * exp2_negative((b.best - best) * factor);
        b.until = sum;
    }
    const double target = sum * next_uniform();
    // The last block that has any weight takes what rounding leaves.
    const auto found = std::upper_bound(sums.begin(), sums.end(), target, [](double t, const block_sum & b) { return t < b.until; });
    if (found == sums.end()) {
        return top;
    }
    double run = found == sums.begin() ? 0 : std::prev(found)->until;
    weigh(logits + found->first, found->count, best, factor, weights);
    llama_token last = top;
    for (int32_t i = 0; i < found->count; i++) {
        if (weights[i] > 0) {
            last = found->first + i;
            run += weights[i];
            if (run > target) {
                break;
            }
        }
    }
    return last;
}

// top-p comes before the temperature and counts from the best token on until the
// share of all that are allowed is reached; min-p is a share of the best one's odds.
bool chooser::cut(const float * logits) {
    const llama_token top = argmax(logits);
    if (top < 0) {
        return false;
    }
    constexpr float log2e = 1.44269504f;
    const float     best  = logits[top];
    const bool      share = opts.top_p > 0.0f && opts.top_p < 1.0f;
    const float     least = opts.min_p > 0.0f ? best + std::log(opts.min_p) : minus_infinity;
    float           weights[block];
    double          sum = 0;
    if (share) {
        for_blocks([&](int32_t at, int32_t count) { sum += weigh(logits + at, count, best, log2e, weights); });
    }
    for (size_t m : widening) {
        collect(logits, m);
        double run = 0;
        for (size_t i = 0; i < candidates.size(); i++) {
            if (i > 0 && candidates[i].logit < least) {
                candidates.resize(i);
                return true;
            }
            run += exp2_negative((candidates[i].logit - best) * log2e);
            if (share && run >= opts.top_p * sum) {
                candidates.resize(i + 1);
                return true;
            }
        }
        if (candidates.size() < m) {
            return true; // these are all
        }
    }
    return false;
}

llama_token chooser::pick_cut() {
    for (auto & c : candidates) {
        c.logit /= opts.temperature;
    }
    llama_token_data_array arr = { candidates.data(), candidates.size(), -1, true };
    return draw(arr);
}

} // namespace agd
