// A vocabulary, indexed for grammars.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/classes.h"
#include "llama.h"

namespace agd {

// A cache of tokenized texts. Some tokenizers take a millisecond for a few words, and all candidates of all
// requests with the same tools are forced to write the same text.
class token_cache {
  public:
    // Finds special tokens by their texts. Returns nothing if text can't be tokenized.
    std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text);

  private:
    std::mutex                                                mutex;
    std::unordered_map<std::string, std::vector<llama_token>> known;
};

// A token as an index of a vocabulary wants it.
struct token_text {
    std::string text;
    bool        eog     = false; // ends a generation
    bool        special = false; // a tokenizer looks for it before all others
};

std::vector<token_text> texts_of(const llama_vocab * vocab);

// The texts of a vocabulary's tokens, ordered so that tokens with a common beginning are neighbours. The
// beginning is then matched once.
struct vocab_index {
    explicit vocab_index(const llama_vocab * vocab);
    explicit vocab_index(const std::vector<token_text> & tokens);

    std::string_view piece(llama_token t) const {
        return std::string_view(text).substr(offsets[t], offsets[t + 1] - offsets[t]);
    }

    std::string              text;
    std::vector<uint32_t>    offsets;
    std::vector<bool>        is_eog;   // end-of-generation tokens
    std::vector<llama_token> eog_tokens;
    std::vector<bool>        special;
    std::vector<llama_token> order;  // the other tokens that have a text
    std::vector<uint32_t>    common; // bytes that order[i] begins with as order[i-1] does

    // Calls f(i) for the tokens order[i] whose text begins with text and is longer, in order, until f returns
    // true. Returns whether it did.
    template <typename F> bool any_longer(std::string_view text, F f) const;

    // The first pair of bytes of the texts that begin with text as far as two bytes, and the first one after these.
    static std::pair<size_t, size_t> pairs_of(std::string_view text) {
        const size_t low = static_cast<uint8_t>(text[0]) << 8 | (text.size() > 1 ? static_cast<uint8_t>(text[1]) : 0);
        return { low, text.size() > 1 ? low + 1 : low + 256 };
    }

    // The first index after the texts that share their first n > 0 bytes with order[i].
    size_t behind(size_t i, size_t n) const;

    std::vector<uint32_t> pairs;       // for each two bytes, where the texts from these on begin in order
    size_t                longest  = 0; // bytes of a token's text
    llama_token           turn_end = -1; // the token that ends a turn; -1 if the model chooses one of several

    mutable token_cache  cache;
    mutable class_tables classes;
};

template <typename F> bool vocab_index::any_longer(std::string_view text, F f) const {
    const auto [low, high] = pairs_of(text);
    auto it                = std::lower_bound(order.begin() + pairs[low], order.begin() + pairs[high], text,
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
    std::vector<llama_token>                ends;    // tokens that end a generation
    std::vector<llama_token>                control; // other control tokens
    std::once_flag                          once;
    std::shared_ptr<const agd::vocab_index> index; // made for the first grammar

    std::shared_ptr<const agd::vocab_index> get() {
        std::call_once(once, [&] { index = std::make_shared<const agd::vocab_index>(vocab); });
        return index;
    }
};
