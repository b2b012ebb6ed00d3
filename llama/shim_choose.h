// The choice of a token from a row of logits; grammars come on top of it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "llama.h"
#include "shim.h"

namespace agd {

struct sampler_deleter {
    void operator()(llama_sampler * s) const { llama_sampler_free(s); }
};
using sampler_ptr = std::unique_ptr<llama_sampler, sampler_deleter>;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

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

    llama_token argmax(const float * logits) const;
    // The k best allowed tokens, best first, in candidates; k == 0: all, unsorted.
    void        collect(const float * logits, size_t k);
    // Picks from the candidates: the first one, or what is drawn.
    llama_token pick(bool sorted);

  private:
    // One of the tokens, each as often as the softmax of the logits says.
    llama_token draw(llama_token_data_array & arr);
};

} // namespace agd
