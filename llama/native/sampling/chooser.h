// The choice of a token from a row of logits, without a grammar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "llama.h"
#include "api.h"
#include "sampling/logits.h"

namespace agd {

struct sampler_deleter {
    void operator()(llama_sampler * s) const { llama_sampler_free(s); }
};
using sampler_ptr = std::unique_ptr<llama_sampler, sampler_deleter>;

// Logits are reduced to one maximum for so many tokens, so that most tokens are looked at once.
constexpr int32_t block = 256;

// Order of candidates: higher logit first, then lower id. So every path through the choice breaks ties alike. No
// function, so that algorithms inline it.
constexpr auto better = [](const llama_token_data & a, const llama_token_data & b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

sampler_ptr make_chain(const agd_sampler_options & o);

struct chooser {
    int32_t                       n_vocab = 0;
    agd_sampler_options           opts    = {};
    sampler_ptr                   chain;        // truncation and temperature; null: greedy
    std::vector<llama_token>      suppressed;   // sorted
    std::vector<llama_token>      later;        // suppressed instead, after opts.least tokens
    const uint64_t *              only = nullptr; // bits of the tokens that may be sampled, with a word more; null: all
    std::vector<llama_token_data> candidates; // scratch
    uint64_t                      position = 0; // tokens of the text so far
    uint32_t                      attempt  = 0; // draws for the next one so far
    // With the option score: what the last draw from candidates chose from, p being weights, and their sum.
    std::vector<llama_token_data> pool;
    double                        pool_sum = 0;

    // Calls f(first, length) for each run of tokens that may be sampled.
    template <typename F> void for_allowed(F f) const {
        int32_t at = 0;
        for (llama_token t : suppressed) {
            if (t > at) {
                f(at, t - at);
            }
            at = t + 1;
        }
        if (at < n_vocab) {
            f(at, n_vocab - at);
        }
    }

    // The same, in blocks: calls f(first, length, logits), where logits are of tokens with a bit in only. Blocks
    // without a set bit are left out.
    template <typename F> void for_blocks(const float * logits, F f) const {
        float kept[block];
        for_allowed([&](int32_t first, int32_t n) {
            for (int32_t at = first; at < first + n; at += block) {
                const int32_t count = std::min(block, first + n - at);
                if (any_of(at, count)) {
                    f(at, count, run_of(logits, at, count, kept));
                }
            }
        });
    }
    // Logits for maxima and sums; their order says nothing.
    struct run {
        const float * x;
        int32_t       n;
    };
    // The logits of a block; kept holds them if some are to be left out.
    run run_of(const float * logits, int32_t at, int32_t count, float * kept) const {
        if (only == nullptr || all_of(at, count)) {
            return { logits + at, count };
        }
        return { kept, any_of(at, count) ? passes.keep(logits + at, count, only, static_cast<size_t>(at), kept) : 0 };
    }
    // Whether a bit of only is set near a block's bits; whether all of its bits are. The latter is false also for a
    // block that does not begin and end with words.
    bool any_of(int32_t at, int32_t count) const {
        return only == nullptr ||
               std::any_of(only + at / 64, only + (at + count - 1) / 64 + 1, [](uint64_t w) { return w != 0; });
    }
    bool all_of(int32_t at, int32_t count) const {
        return (at | count) % 64 == 0 &&
               std::all_of(only + at / 64, only + (at + count) / 64, [](uint64_t w) { return w == ~uint64_t(0); });
    }
    bool may(llama_token t) const { return only == nullptr || (only[t / 64] >> (t % 64) & 1) != 0; }

    llama_token argmax(const float * logits) const;
    // Collects the k best allowed tokens in candidates, best first. k == 0: all, unsorted.
    void collect(const float * logits, size_t k);
    // The same for k > 0, from the blocks of the last collect or sum_all.
    void collect_best(const float * logits, size_t k);
    // The most tokens that top-p and min-p without top-k sort. If they leave more, llama.cpp truncates.
    static constexpr size_t max_sorted = 16384;

    // Whether top-p or min-p truncates and top-k does not.
    bool truncates() const { return chain && opts.top_k <= 0 && !temperature_only(); }
    // Collects what top-p and min-p leave, best first; only if truncates(). False if these are too many; then
    // candidates holds nothing of use.
    bool truncate(const float * logits);
    // Whether the temperature alone changes the odds of tokens.
    bool temperature_only() const {
        return chain && opts.top_k <= 0 && !(opts.top_p > 0.0f && opts.top_p < 1.0f) && opts.min_p <= 0.0f;
    }
    // Draws from all allowed tokens; only if temperature_only().
    llama_token draw_from_all(const float * logits) {
        return sum_all(logits, factor()) ? redraw(logits) : AGD_SAMPLE_NOTFINITE;
    }
    // Returns the best candidate if greedy, else draws one; AGD_SAMPLE_NOTFINITE without candidates.
    llama_token pick();
    // Collects what a draw chooses from, not if greedy and not if temperature_only().
    llama_token_data_array choices(const float * logits);
    // The candidates that the chain leaves.
    llama_token_data_array truncated(bool sorted);
    // Draws one of the tokens by the softmax of the logits.
    llama_token draw(llama_token_data_array arr);
    // Sets p to weights by that softmax, fills pool, and returns their sum. An infinite logit has all the weight.
    double weigh_all(llama_token_data_array arr);
    // The probability of a token in pool.
    double pool_share(llama_token token) const;

    // --- weights of the whole vocabulary: 2^((logit - best) * by), best being the largest logit

    // log2(e) / temperature: weights are powers of 2.
    float factor() const { return 1.44269504f / opts.temperature; }
    // Sums the weights of all tokens that may be sampled. False: no logit of them is above -infinity. The functions
    // below use the sums and the same logits.
    bool sum_all(const float * logits, float by);
    // Draws a token by the weights; AGD_SAMPLE_NOTFINITE if all are excluded.
    llama_token redraw(const float * logits);
    // Excludes a token, until only is set to something else. only must be null, or excluded tokens.
    void exclude(const float * logits, llama_token token);
    // Excludes all tokens without a bit in set, which becomes only.
    void restrict_to(const float * logits, const uint64_t * set);
    // Collects tokens in candidates, p being their weights, by their ids. All others weigh at most limit together, or
    // have logits below given. Returns what they weigh.
    double collect_heaviest(const float * logits, double limit, float given);
    // Sorts what collect_heaviest left in candidates, best first.
    void sort_collected();
    // The weight of a token, and of all that may be sampled.
    double weight(float logit) const { return exp2_negative((logit - best_logit) * weight_factor); }
    double weight_of_all() const { return blocks.back().until; }
    float  best_logit = 0;

  private:
    // Consecutive tokens.
    struct token_block {
        int32_t first, count;
        float   best  = 0; // logit
        float   sum   = 0; // of weights relative to best
        float   scale = 0; // makes them relative to the best logit of all
        int32_t light = 0; // refused tokens, whose weights restrict_to subtracts; below 0: it sums the block again
        double  until = 0; // weight of them and of all before them
    };
    std::vector<token_block> blocks;
    float                    weight_factor = 0;
    std::vector<uint64_t>    not_excluded; // bits of tokens
    std::vector<float>       bests; // scratch

    void sum_block(token_block & b, const run & r) const;
    void scale_blocks();
    // Writes the tokens with at least this logit to ids, and what they weigh to weights. Returns their number.
    size_t      list_not_below(const float * logits, float least);
    void        add_up(std::vector<token_block>::iterator from);
    llama_token best_token(const float * logits) const;
    // The bits of only for 64 tokens.
    uint64_t allowed_bits(int32_t at) const {
        return only == nullptr ? ~uint64_t(0) : only[at / 64] >> (at % 64) | only[at / 64 + 1] << 1 << (63 - at % 64);
    }

    void collect_all(const float * logits);
    // Adds those tokens of a block that have at least this logit to candidates, a heap of at most k with the worst
    // on top.
    void collect_into_heap(const float * logits, const token_block & b, size_t k, float least);

    // A number in [0, 1) for the next draw.
    double next_uniform();
    // The candidates, best first, with the temperature.
    llama_token_data_array with_temperature();
};

// The k most probable tokens in the softmax of a row, best first. log_sum is the logarithm of the sum of its powers of e.
std::vector<agd_child> list_best(const float * logits, int32_t n_vocab, size_t k, double log_sum);

} // namespace agd
