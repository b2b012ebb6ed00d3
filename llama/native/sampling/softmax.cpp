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

// Shared by the samplers of a thread: the first use of memory costs more than what is done with it.
struct token_list {
    std::vector<int32_t>          ids;
    std::vector<float>            weights;
    std::vector<llama_token_data> sorted;
};
thread_local token_list scratch;

size_t part_of(float weight) {
    uint32_t bits;
    __builtin_memcpy(&bits, &weight, sizeof bits);
    return bits >> part_shift;
}

// Not every CPU has an instruction for this.
size_t count_bits(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return ((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56;
}

// Writes the number of each bit of word, plus first, to out, which has space for four more. Returns how many there are.
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
    for_blocks(logits, [&](int32_t at, int32_t count, const run & r) {
        blocks.push_back({ at, count });
        sum_block(blocks.back(), r);
    });
    scale_blocks();
    return best_logit > minus_infinity;
}

void chooser::sum_block(token_block & b, const run & r) const {
    b.best = passes.max_value(r.x, r.n);
    b.sum  = b.best > minus_infinity ? passes.weigh(r.x, r.n, b.best, weight_factor, nullptr) : 0;
}

// Makes sums of blocks relative to the best logit of all.
void chooser::scale_blocks() {
    bests.clear();
    for (const token_block & b : blocks) {
        bests.push_back(b.best);
    }
    const auto n = static_cast<int32_t>(bests.size());
    best_logit   = passes.max_value(bests.data(), n);
    passes.weigh(bests.data(), n, best_logit, weight_factor, bests.data());
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
        float  terms[block];
        double sum = found == blocks.begin() ? 0 : std::prev(found)->until;
        passes.weigh(logits + found->first, found->count, best_logit, weight_factor, terms);
        for (int32_t i = 0; i < found->count && sum <= target; i++) {
            if (terms[i] > 0 && may(found->first + i)) {
                last = found->first + i;
                sum += terms[i];
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
    sum_block(*b, run_of(logits, b->first, b->count, kept));
    if (best) {
        scale_blocks();
        return;
    }
    b->scale = exp2_negative((b->best - best_logit) * weight_factor);
    add_up(b);
}

// The weights of a few tokens are subtracted, unless they are large or the best is one of them: so nearly nothing is
// lost by rounding. All of them are weighed in one pass. Other blocks are summed again.
void chooser::restrict_to(const float * logits, const uint64_t * set) {
    const uint64_t * before = only;
    only                    = set;
    auto & weights          = scratch.weights;
    weights.clear();
    for (token_block & b : blocks) {
        uint64_t      words[block / 64 + 1];
        int32_t       gone[block + 4];
        size_t        n = 0, count = 0;
        const int32_t from = b.first / 64, last = b.first + b.count - 1;
        for (int32_t w = from; w <= last / 64; w++) {
            uint64_t & word = words[w - from];
            word            = ~set[w] & (before == nullptr ? ~uint64_t(0) : before[w]);
            word &= w == from ? ~uint64_t(0) << (b.first % 64) : ~uint64_t(0);
            word &= w == last / 64 ? ~uint64_t(0) >> (63 - last % 64) : ~uint64_t(0);
            count += count_bits(word);
        }
        for (int32_t w = from; w <= last / 64 && count <= max_subtracted; w++) {
            n += list_bits(words[w - from], w * 64, gone + n);
        }
        const bool again = count > max_subtracted ||
                           std::any_of(gone, gone + n, [&](int32_t t) { return logits[t] == b.best; });
        b.light          = again ? -1 : static_cast<int32_t>(n);
        const size_t at  = weights.size();
        weights.resize(at + (again ? 0 : n));
        for (size_t i = at; i < weights.size(); i++) {
            weights[i] = logits[gone[i - at]] - b.best;
        }
    }
    passes.weigh(weights.data(), static_cast<int32_t>(weights.size()), 0, weight_factor, weights.data());
    auto next = weights.begin();
    for (token_block & b : blocks) {
        const auto from = next;
        next += std::max(b.light, 0);
        const float sum = std::accumulate(from, next, 0.0f);
        if (b.light < 0 || 4 * sum > b.sum) {
            float kept[block];
            sum_block(b, run_of(logits, b.first, b.count, kept));
        } else {
            b.sum -= sum;
        }
    }
    scale_blocks();
}

double chooser::collect_heaviest(const float * logits, double limit, float given) {
    auto & [ids, weights, unused] = scratch;
    // All tokens lighter than limit / n_vocab weigh less than limit together. Mostly those lighter than 64 times as
    // much do, too.
    double rest = 0;
    for (const double others : { n_vocab / 64.0, double(n_vocab) }) {
        const double exponent = std::min(std::max(std::log2(limit / others), least_exponent), 0.0);
        const float  least    = std::max(given, static_cast<float>(best_logit + exponent / double(weight_factor)));
        const size_t n        = list_not_below(logits, least);
        // The lightest of these go, too. Weights that differ by less than an eighth count as equal.
        std::array<double, (0x3F800000u >> part_shift) + 1> parts = {}; // up to the weight 1
        for (size_t i = 0; i < n; i++) {
            parts[part_of(weights[i])] += weights[i];
        }
        rest        = std::max(weight_of_all() - std::accumulate(parts.begin(), parts.end(), 0.0), 0.0);
        size_t part = 0;
        for (; limit > 0 && part + 1 < parts.size() && rest + parts[part] <= limit; part++) {
            rest += parts[part];
        }
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            ids[kept]     = ids[i];
            weights[kept] = weights[i];
            kept += part_of(weights[i]) >= part;
        }
        candidates.resize(kept);
        for (size_t i = 0; i < kept; i++) {
            candidates[i] = { ids[i], logits[ids[i]], weights[i] };
        }
        if (least == given || part > part_of(static_cast<float>(std::exp2(exponent)))) {
            break;
        }
    }
    return rest;
}

size_t chooser::list_not_below(const float * logits, float least) {
    auto & [ids, weights, unused] = scratch;
    size_t n                      = 0;
    for (const token_block & b : blocks) {
        ids.resize(std::max(ids.size(), n + block + 4));
        if (b.best >= least) {
            uint64_t large[block / 64];
            passes.at_least(logits + b.first, b.count, least, large);
            for (int32_t i = 0; i < b.count; i += 64) {
                n += list_bits(large[i / 64] & allowed_bits(b.first + i), b.first + i, &ids[n]);
            }
        }
    }
    weights.resize(n);
    for (size_t i = 0; i < n; i++) {
        weights[i] = logits[ids[i]];
    }
    passes.weigh(weights.data(), static_cast<int32_t>(n), best_logit, weight_factor, weights.data());
    return n;
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
    auto & sorted = scratch.sorted;
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

llama_token_data_array chooser::with_temperature() {
    for (auto & c : candidates) {
        c.logit /= opts.temperature;
    }
    return { candidates.data(), candidates.size(), -1, true };
}

} // namespace agd
