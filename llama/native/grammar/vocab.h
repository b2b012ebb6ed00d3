// A vocabulary as grammars read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llama.h"

namespace agd {

// The tokens of texts that were tokenized before. Some tokenizers take a millisecond
// for a few words, and all candidates of all requests with the same tools are forced
// to write the same.
class token_cache {
  public:
    // Special tokens are found by their texts. Nothing, if text can't be tokenized.
    std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text);

  private:
    std::mutex                                                mutex;
    std::unordered_map<std::string, std::vector<llama_token>> known;
};

// The texts of a vocabulary's tokens, ordered so that those with a common
// beginning are neighbours and it is matched once.
struct vocab_index {
    explicit vocab_index(const llama_vocab * vocab);

    std::string_view piece(llama_token t) const {
        return std::string_view(text).substr(offsets[t], offsets[t + 1] - offsets[t]);
    }

    std::string              text;
    std::vector<uint32_t>    offsets;
    std::vector<bool>        ends;   // end-of-generation tokens
    std::vector<llama_token> endings; // the same
    std::vector<bool>        whole;  // tokens that a tokenizer finds in a text before all others
    std::vector<llama_token> order;  // the other tokens that have a text
    std::vector<uint32_t>    common; // bytes that order[i] begins with as order[i-1] does

    // Calls f(i) for the tokens order[i] whose text begins with text and is longer,
    // in their order, until it returns true; says whether it did.
    template <typename F> bool any_longer(std::string_view text, F f) const;

    // Behind the texts that begin with the same n > 0 bytes as that of order[i].
    size_t behind(size_t i, size_t n) const;

    std::vector<uint32_t> pairs;       // where in order the texts begin that are not less than two bytes
    size_t                longest = 0; // bytes of a token's text
    llama_token           ending  = -1; // the token that ends a turn; -1 where the model chooses one of several

    mutable token_cache cache;
};

template <typename F> bool vocab_index::any_longer(std::string_view text, F f) const {
    const size_t low  = static_cast<uint8_t>(text[0]) << 8 | (text.size() > 1 ? static_cast<uint8_t>(text[1]) : 0);
    const size_t high = text.size() > 1 ? low + 1 : low + 256;
    auto         it   = std::lower_bound(order.begin() + pairs[low], order.begin() + pairs[high], text,
                                         [this](llama_token t, std::string_view s) { return piece(t) < s; });
    for (; it != order.begin() + pairs[high] && piece(*it).substr(0, text.size()) == text; ++it) {
        if (piece(*it).size() > text.size() && f(static_cast<size_t>(it - order.begin()))) {
            return true;
        }
    }
    return false;
}

} // namespace agd

// What all samplers of a model share.
struct agd_vocab_index {
    const llama_vocab *                     vocab;
    std::once_flag                          once;
    std::shared_ptr<const agd::vocab_index> index; // made for the first grammar

    std::shared_ptr<const agd::vocab_index> get() {
        std::call_once(once, [&] { index = std::make_shared<const agd::vocab_index>(vocab); });
        return index;
    }
};
