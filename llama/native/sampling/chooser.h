// The choice of a token from a row of logits; grammars come on top of it.
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

// Tokens that are looked at together, so that most are never looked at again.
constexpr int32_t block = 256;

sampler_ptr make_chain(const agd_sampler_options & o);

struct chooser {
    int32_t                       n_vocab = 0;
    agd_sampler_options           opts    = {};
    sampler_ptr                   chain;        // truncation and temperature; empty: greedy
    std::vector<llama_token>      suppressed;   // sorted
    std::vector<llama_token_data> candidates;   // scratch
    uint64_t                      position = 0; // tokens of the text so far
    uint32_t                      attempt  = 0; // draws for the next one so far

    // Calls f(first, length) for every run of tokens that may be sampled.
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

    // The same, in blocks.
    template <typename F> void for_blocks(F f) const {
        for_allowed([&](int32_t first, int32_t n) {
            for (int32_t at = first; at < first + n; at += block) {
                f(at, std::min(block, first + n - at));
            }
        });
    }

    llama_token argmax(const float * logits) const;
    // The k best allowed tokens, best first, in candidates; k == 0: all, unsorted.
    void        collect(const float * logits, size_t k);
    // A grammar rejection, and top-p or min-p without top-k, widen the search to the
    // best candidates in these steps before the whole vocabulary: most often what is
    // looked for is among the first.
    static constexpr size_t widening[] = { 128, 4096 };

    // Whether top-p or min-p cuts off and top-k does not.
    bool        cuts() const { return chain && opts.top_k <= 0 && !any(); }
    // What top-p and min-p leave, best first, in candidates; only for cuts(). False
    // if that are too many: nothing is known then.
    bool        cut(const float * logits);
    // Draws from the candidates after the temperature and nothing else.
    llama_token pick_cut();
    // Whether nothing but the temperature changes the odds of any token.
    bool        any() const { return chain && opts.top_k <= 0 && !(opts.top_p > 0.0f && opts.top_p < 1.0f) && opts.min_p <= 0.0f; }
    // Draws from all allowed tokens; only for any().
    llama_token draw_any(const float * logits);
    // Draws once more, from the logits of the last draw_any, which gave a token.
    llama_token draw_again(const float * logits);
    // Picks from the candidates: the first one, or what is drawn.
    llama_token pick(bool sorted);

  private:
    // Some tokens in a row, and the weight of them and all before them.
    struct block_sum {
        int32_t first, count;
        float   best;
        double  until; // at first of the block alone, beside its best
    };
    // What draw_any found.
    std::vector<block_sum> sums;
    float                  best_logit = 0;
    llama_token            best_token = -1;

    float factor() const { return 1.44269504f / opts.temperature; } // log2(e): weights are powers of 2

    // Some tokens in a row, and the best logit of them.
    struct block_max {
        int32_t first, count;
        float   best;
    };
    std::vector<block_max> maxima; // scratch of collect
    std::vector<float>     bests;  // the same

    void collect_all(const float * logits);
    // Puts the tokens of a block into candidates, which is a heap of at most k whose
    // top is the worst.
    void collect_into_heap(const float * logits, const block_max & b, size_t k);

    // A number in [0, 1) for the next draw.
    double      next_uniform();
    // One of the tokens, each as often as the softmax of the logits says.
    llama_token draw(llama_token_data_array & arr);
};

} // namespace agd
