// Draws from a whole vocabulary. Each token needs one pass of exponentials over 150,000 logits, so it uses vectors
// and no list of candidates.
#include "sampling/chooser.h"

#include <algorithm>
#include <cmath>

namespace agd {

// Chooses what llama.cpp's temperature sampler and a draw from its softmax would. The first pass sums blocks; only
// the block that the draw falls into is looked at again.
llama_token chooser::draw_from_all(const float * logits) {
    best_logit = minus_infinity;
    best_token = AGD_SAMPLE_NOTFINITE;
    sums.clear();
    // Reading logits costs more than computing weights. So each block is read once, with weights relative to its own
    // best until the best of all is known.
    for_blocks(logits, [&](int32_t at, int32_t count, const float * x) {
        const float m = max_value(x, count);
        if (m > best_logit) {
            best_logit = m;
            best_token = at; // of the block, for now
        }
        sums.push_back({ at, count, m, m > minus_infinity ? weigh(x, count, m, factor(), nullptr) : 0.0 });
    });
    if (best_token < 0) {
        return best_token;
    }
    while (logits[best_token] != best_logit || !may(best_token)) {
        best_token++;
    }
    double sum = 0;
    for (block_sum & b : sums) {
        sum += b.until * exp2_negative((b.best - best_logit) * factor());
        b.until = sum;
    }
    return redraw(logits);
}

llama_token chooser::redraw(const float * logits) {
    const double target = sums.back().until * next_uniform();
    // Rounding may leave the target behind the last block.
    const auto found = std::upper_bound(sums.begin(), sums.end(), target,
                                        [](double t, const block_sum & b) { return t < b.until; });
    if (found == sums.end()) {
        return best_token;
    }
    float  weights[block], kept[block];
    double run = found == sums.begin() ? 0 : std::prev(found)->until;
    weigh(block_of(logits, found->first, found->count, kept), found->count, best_logit, factor(), weights);
    llama_token last = best_token;
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

double chooser::weigh_all_allowed(const float * logits) const {
    double sum = 0;
    for_blocks(logits,
               [&](int32_t, int32_t count, const float * x) { sum += weigh(x, count, best_logit, factor(), nullptr); });
    return sum;
}

// top-p comes before the temperature: tokens count from the best on until they reach that share of all allowed
// tokens. min-p is a share of the best token's odds.
bool chooser::truncate(const float * logits) {
    const llama_token top = argmax(logits);
    if (top < 0) {
        return false;
    }
    constexpr float log2e = 1.44269504f;
    const float     best  = logits[top];
    const bool      share = opts.top_p > 0.0f && opts.top_p < 1.0f;
    const float     least = opts.min_p > 0.0f ? best + std::log(opts.min_p) : minus_infinity;
    double          sum   = 0;
    if (share) {
        for_blocks(logits,
                   [&](int32_t, int32_t count, const float * x) { sum += weigh(x, count, best, log2e, nullptr); });
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
            return true; // these are all allowed tokens
        }
    }
    return false;
}

llama_token chooser::pick_truncated() {
    for (auto & c : candidates) {
        c.logit /= opts.temperature;
    }
    llama_token_data_array arr = { candidates.data(), candidates.size(), -1, true };
    return draw(arr);
}

void chooser::fill_truncated_pool() {
    for (auto & c : candidates) {
        c.logit /= opts.temperature;
    }
    llama_token_data_array arr      = { candidates.data(), candidates.size(), -1, true };
    bool                   infinite = false;
    weigh_all(arr, infinite);
}

} // namespace agd
