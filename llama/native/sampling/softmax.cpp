// Draws from a whole vocabulary. Each token needs one pass of exponentials over 150,000 logits, so it uses vectors
// and no list of candidates.
#include "sampling/chooser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace agd {

namespace {

constexpr float log2e = 1.44269504f;

// The most excluded tokens of a block whose weights are subtracted from its sum.
constexpr size_t max_subtracted = 48;

// The logarithm of the least weight above 0.
constexpr double least_exponent = -126;

// An octave of weights is divided into 2^3 parts: these bits of a float remain.
constexpr int part_shift = 20;

size_t part_of(float weight) {
    uint32_t bits;
    __builtin_memcpy(&bits, &weight, sizeof bits);
    return bits >> part_shift;
}

// Writes the number of each bit of word, plus first, to out, which has room for four more. Returns how many there are.
// Mostly there are no more than four. A loop of that length is predicted, one of another length is not.
size_t list_bits(uint64_t word, int32_t first, int32_t * out) {
    size_t n = 0;
    for (size_t i = 0; i < 4; i++, word &= word - 1) {
        out[i] = first + (word != 0 ? __builtin_ctzll(word) : 0);
        n += word != 0;
    }
    for (; word != 0; word &= word - 1) {
        out[n++] = first + __builtin_ctzll(word);
    }
    return n;
}

} // namespace

// Reading logits costs more than computing weights. So each block is read once, with weights relative to its own
// best until the best of all is known.
bool chooser::sum_all(const float * logits, float by) {
    weight_factor = by;
    blocks.clear();
    for_blocks(logits, [&](int32_t at, int32_t count, const float * x) {
        blocks.push_back({ at, count });
        sum_block(blocks.back(), x);
    });
    scale_blocks();
    return best_logit > minus_infinity;
}

void chooser::sum_block(token_block & b, const float * x) const {
    b.best = max_value(x, b.count);
    b.sum  = b.best > minus_infinity ? weigh(x, b.count, b.best, weight_factor, nullptr) : 0;
}

// Makes sums of blocks relative to the best logit of all.
void chooser::scale_blocks() {
    bests.clear();
    for (const token_block & b : blocks) {
        bests.push_back(b.best);
    }
    const auto n = static_cast<int32_t>(bests.size());
    best_logit   = max_value(bests.data(), n);
    weigh(bests.data(), n, best_logit, weight_factor, bests.data());
    for (size_t i = 0; i < blocks.size(); i++) {
        blocks[i].scale = bests[i];
    }
    add_up(blocks.begin());
}

// Sets until from a block on.
void chooser::add_up(std::vector<token_block>::iterator from) {
    double sum = from == blocks.begin() ? 0 : std::prev(from)->until;
    for (; from != blocks.end(); ++from) {
        sum += double(from->sum) * from->scale;
        from->until = sum;
    }
}

llama_token chooser::best_token(const float * logits) const {
    llama_token t = std::find_if(blocks.begin(), blocks.end(), [&](const token_block & b) {
                        return b.best == best_logit;
                    })->first;
    while (logits[t] != best_logit || !may(t)) {
        t++;
    }
    return t;
}

// Chooses what llama.cpp's temperature sampler and a draw from its softmax would. Only the block that the draw falls
// into is looked at again.
llama_token chooser::redraw(const float * logits) {
    if (!(best_logit > minus_infinity)) {
        return AGD_SAMPLE_NOTFINITE;
    }
    const double target = weight_of_all() * next_uniform();
    const auto   found  = std::upper_bound(blocks.begin(), blocks.end(), target,
                                           [](double t, const token_block & b) { return t < b.until; });
    // Rounding may leave the target after the last block.
    llama_token last = AGD_SAMPLE_NOTFINITE;
    if (found != blocks.end()) {
        float  terms[block], kept[block];
        double run = found == blocks.begin() ? 0 : std::prev(found)->until;
        weigh(block_of(logits, found->first, found->count, kept), found->count, best_logit, weight_factor, terms);
        for (int32_t i = 0; i < found->count && run <= target; i++) {
            if (terms[i] > 0) {
                last = found->first + i;
                run += terms[i];
            }
        }
    }
    return last < 0 ? best_token(logits) : last;
}

void chooser::exclude(const float * logits, llama_token token) {
    if (only == nullptr) {
        not_excluded.assign(static_cast<size_t>(n_vocab) / 64 + 2, ~uint64_t(0));
        only = not_excluded.data();
    }
    not_excluded[static_cast<size_t>(token) / 64] &= ~(uint64_t(1) << (token % 64));
    const auto b = std::prev(std::upper_bound(blocks.begin(), blocks.end(), token,
                                              [](llama_token t, const token_block & b) { return t < b.first; }));
    float      kept[block];
    const bool best = b->best == best_logit;
    sum_block(*b, block_of(logits, b->first, b->count, kept));
    if (best) {
        scale_blocks();
        return;
    }
    b->scale = exp2_negative((b->best - best_logit) * weight_factor);
    add_up(b);
}

// The weights of a few tokens are subtracted, unless they are large or the best is one of them: so nearly nothing is
// lost by rounding. Other blocks are summed again.
void chooser::restrict_to(const float * logits, const uint64_t * set) {
    const uint64_t * before = only;
    only                    = set;
    for (token_block & b : blocks) {
        int32_t       gone[block + 4];
        size_t        n    = 0;
        const int32_t last = b.first + b.count - 1;
        for (int32_t w = b.first / 64; w <= last / 64 && n <= max_subtracted; w++) {
            uint64_t word = ~set[w] & (before == nullptr ? ~uint64_t(0) : before[w]);
            word &= w == b.first / 64 ? ~uint64_t(0) << (b.first % 64) : ~uint64_t(0);
            word &= w == last / 64 ? ~uint64_t(0) >> (63 - last % 64) : ~uint64_t(0);
            n += list_bits(word, w * 64, gone + n);
        }
        if (n == 0 || b.best == minus_infinity) {
            continue;
        }
        bool few = n <= max_subtracted;
        if (few) {
            float x[max_subtracted], best = minus_infinity;
            std::fill(x, x + max_subtracted, minus_infinity);
            for (size_t i = 0; i < n; i++) {
                x[i] = logits[gone[i]];
                best = x[i] > best ? x[i] : best;
            }
            const auto  whole = static_cast<int32_t>((n + 15) / 16 * 16); // whole vectors are faster
            const float sum   = weigh(x, whole, b.best, weight_factor, nullptr);
            few               = best < b.best && 4 * sum <= b.sum;
            b.sum -= few ? sum : 0;
        }
        if (!few) {
            float kept[block];
            sum_block(b, block_of(logits, b.first, b.count, kept));
        }
    }
    scale_blocks();
}

double chooser::collect_heaviest(const float * logits, double limit, float least) {
    // All tokens lighter than limit / n_vocab weigh less than limit together.
    const double exponent = std::max(std::log2(limit / n_vocab), least_exponent);
    least = std::max(least, static_cast<float>(best_logit + std::min(exponent, 0.0) / double(weight_factor)));
    ids.resize(static_cast<size_t>(n_vocab) + 4);
    size_t n = 0;
    for (const token_block & b : blocks) {
        for (int32_t at = b.first, end = b.first + b.count; b.best >= least && at < end; at += 64) {
            n += list_bits(at_least(logits + at, std::min(64, end - at), least) & allowed_bits(at), at, &ids[n]);
        }
    }
    weights.resize(n);
    for (size_t i = 0; i < n; i++) {
        weights[i] = logits[ids[i]];
    }
    weigh(weights.data(), static_cast<int32_t>(n), best_logit, weight_factor, weights.data());
    // The lightest of these go, too. Weights that differ by less than an eighth count as equal.
    std::array<double, (0x3F800000u >> part_shift) + 1> parts = {}; // up to the weight 1
    for (size_t i = 0; i < n; i++) {
        parts[part_of(weights[i])] += weights[i];
    }
    double rest = std::max(weight_of_all() - std::accumulate(parts.begin(), parts.end(), 0.0), 0.0);
    size_t part = 0;
    for (; limit > 0 && part + 1 < parts.size() && rest + parts[part] <= limit; part++) {
        rest += parts[part];
    }
    candidates.resize(n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        candidates[kept] = { ids[i], logits[ids[i]], weights[i] };
        kept += part_of(weights[i]) >= part;
    }
    candidates.resize(kept);
    return rest;
}

// A radix sort of three digits. It leaves tokens with equal logits as they are.
void chooser::sort_collected() {
    if (candidates.size() < 256) {
        std::sort(candidates.begin(), candidates.end(), better);
        return;
    }
    const auto digit = [](const llama_token_data & c, int shift) {
        const float x = c.logit + 0.0f; // no -0
        uint32_t    bits;
        __builtin_memcpy(&bits, &x, sizeof bits);
        bits = (bits >> 31) != 0 ? bits : ~bits & 0x7FFFFFFFu; // larger for smaller numbers
        return bits >> shift & 0x7FFu;
    };
    sorted.resize(candidates.size());
    for (int shift = 0; shift < 32; shift += 11) {
        std::array<uint32_t, 0x801> at = {}; // how many have a smaller digit
        for (const llama_token_data & c : candidates) {
            at[digit(c, shift) + 1]++;
        }
        std::partial_sum(at.begin(), at.end(), at.begin());
        for (const llama_token_data & c : candidates) {
            sorted[at[digit(c, shift)]++] = c;
        }
        candidates.swap(sorted);
    }
}

// top-p comes before the temperature: tokens count from the best on until they reach that share of all allowed
// tokens. min-p is a share of the best token's odds.
bool chooser::truncate(const float * logits) {
    if (!sum_all(logits, log2e)) {
        return false;
    }
    const bool   share = opts.top_p > 0.0f && opts.top_p < 1.0f;
    const float  least = opts.min_p > 0.0f ? best_logit + std::min(std::log(opts.min_p), 0.0f) : minus_infinity;
    const double sum   = weight_of_all();
    collect_heaviest(logits, share ? (1 - double(opts.top_p)) * sum : 0, least);
    if (candidates.size() > max_sorted) {
        return false;
    }
    sort_collected();
    double run = 0;
    for (size_t i = 0; i < candidates.size() && share; i++) {
        run += candidates[i].p;
        if (run >= opts.top_p * sum) {
            candidates.resize(i + 1);
        }
    }
    return true;
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
