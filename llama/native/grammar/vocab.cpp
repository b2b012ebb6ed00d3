#include "grammar/vocab.h"

#include "api.h"
#include "errors.h"

#include <exception>

namespace agd {

namespace {

// Texts in the cache, of about 50 bytes each.
constexpr size_t max_cached_texts = 8192;

} // namespace

std::vector<token_text> texts_of(const llama_vocab * vocab) {
    std::vector<token_text> tokens(static_cast<size_t>(llama_vocab_n_tokens(vocab)));
    std::vector<char>       buf(64);
    for (llama_token t = 0; t < static_cast<llama_token>(tokens.size()); t++) {
        tokens[t].eog     = llama_vocab_is_eog(vocab, t);
        tokens[t].special = (llama_vocab_get_attr(vocab, t) &
                             (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED)) != 0;
        int32_t len       = llama_token_to_piece(vocab, t, buf.data(), static_cast<int32_t>(buf.size()), 0, true);
        if (len < 0) {
            buf.resize(static_cast<size_t>(-len));
            len = llama_token_to_piece(vocab, t, buf.data(), static_cast<int32_t>(buf.size()), 0, true);
        }
        tokens[t].text.assign(buf.data(), static_cast<size_t>(std::max(len, 0)));
    }
    return tokens;
}

vocab_index::vocab_index(const llama_vocab * vocab) : vocab_index(texts_of(vocab)) {}

vocab_index::vocab_index(const std::vector<token_text> & tokens) {
    for (llama_token t = 0; t < static_cast<llama_token>(tokens.size()); t++) {
        offsets.push_back(static_cast<uint32_t>(text.size()));
        text += tokens[t].text;
        is_eog.push_back(tokens[t].eog);
        special.push_back(tokens[t].special);
        if (tokens[t].eog) {
            eog_tokens.push_back(t);
        } else if (!tokens[t].text.empty()) {
            order.push_back(t);
            longest = std::max(longest, tokens[t].text.size());
        }
    }
    offsets.push_back(static_cast<uint32_t>(text.size()));
    std::sort(order.begin(), order.end(), [&](llama_token a, llama_token b) { return piece(a) < piece(b); });
    common.assign(order.size(), 0);
    for (size_t i = 1; i < order.size(); i++) {
        const auto a = piece(order[i - 1]);
        const auto b = piece(order[i]);
        common[i]    = static_cast<uint32_t>(
            std::mismatch(a.begin(), a.begin() + static_cast<long>(std::min(a.size(), b.size())), b.begin()).first -
            a.begin());
    }
    for (size_t pair = 0, i = 0; pair <= 1u << 16; pair++) {
        while (i < order.size() && pairs_of(piece(order[i])).first < pair) {
            i++;
        }
        pairs.push_back(static_cast<uint32_t>(i));
    }
    // ChatML ends every turn with one token. GPT-OSS has one for calls and one for replies, and llama.cpp takes any
    // of several for the end of a turn.
    for (const llama_token t : eog_tokens) {
        if (eog_tokens.size() == 1 || piece(t) == "<|im_end|>") {
            turn_end = t;
        }
    }
}

size_t vocab_index::behind(size_t i, size_t n) const {
    const auto   start = piece(order[i]).substr(0, n);
    const size_t end   = pairs[pairs_of(start).second];
    if (n <= 2) {
        return end;
    }
    const auto it = std::partition_point(order.begin() + static_cast<long>(i), order.begin() + static_cast<long>(end),
                                         [&](llama_token t) { return piece(t).substr(0, n) == start; });
    return static_cast<size_t>(it - order.begin());
}

std::vector<llama_token> token_cache::tokenize(const llama_vocab * vocab, const std::string & text) {
    {
        const std::lock_guard<std::mutex> lock(mutex);
        if (const auto it = known.find(text); it != known.end()) {
            return it->second;
        }
    }
    std::vector<llama_token> out(text.size() + 8);
    int32_t                  n = 0;
    try {
        n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), out.data(),
                           static_cast<int32_t>(out.size()),
                           /*add_special=*/false, /*parse_special=*/true);
    } catch (const std::exception &) {
        // Some bytes that are not characters; llama.cpp passes over others.
    }
    out.resize(static_cast<size_t>(std::max(n, 0)));
    const std::lock_guard<std::mutex> lock(mutex);
    if (known.size() == max_cached_texts) {
        known.clear();
    }
    known.emplace(text, out);
    return out;
}

} // namespace agd

extern "C" struct agd_vocab_index * agd_vocab_index_new(const struct llama_vocab * vocab) {
    return agd::guard(nullptr, static_cast<agd_vocab_index *>(nullptr), [&] {
        auto * index = new agd_vocab_index;
        index->vocab = vocab;
        for (llama_token t = 0; t < llama_vocab_n_tokens(vocab); t++) {
            if (llama_vocab_is_eog(vocab, t)) {
                index->ends.push_back(t);
            } else if (llama_vocab_is_control(vocab, t)) {
                index->control.push_back(t);
            }
        }
        return index;
    });
}

extern "C" void agd_vocab_index_free(struct agd_vocab_index * index) {
    delete index;
}
