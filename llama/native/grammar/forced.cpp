// Tokens that a grammar forces.
//
// Text that is the only continuation needs no decode step. It still has to be split into the tokens that the
// model's tokenizer would make, since the model was trained on those:
//
//  1. The last sampled tokens and the forced text are tokenized together. If the result does not begin with
//     those tokens, the model splits this text in another way, and nothing is forced.
//  2. The tokens are cut at the last boundary that no continuation can move. No token of the vocabulary spans it,
//     whatever the grammar admits after it, so a tokenizer splits both sides as if each were alone. Special
//     tokens, such as <tool_call>, are boundaries by themselves: only another special token could span their ends.
//  3. BPE tokenizers first split a text into words, by regular expressions that look ahead for the end of white
//     space. So a boundary after white space does not count.
//
// The model samples the rest.
#include "grammar/matcher.h"

namespace agd {

namespace {

// Bytes of forced text at a time. Names of tools and robots are shorter.
constexpr size_t max_forced_bytes = 256;

// Tokens looked at for one boundary; most are only passed over.
constexpr size_t max_boundary_work = 1u << 16;

// Whether a tokenizer looks ahead after this byte to see where the word ends. Bytes beyond ASCII may be white
// space too; a table of it is not worth these boundaries.
bool looks_ahead(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || static_cast<uint8_t>(c) >= 0x80;
}

bool inside_character(std::string_view piece) {
    return !piece.empty() && (static_cast<uint8_t>(piece[0]) & 0xC0) == 0x80;
}

} // namespace

matcher::forced matcher::must_follow(size_t max) {
    work     = 0;
    forced f = { {}, { now }, false };
    if (now.remain > 0) {
        return f;
    }
    for (position p = now;;) {
        const uint32_t c = states[p.at]->only;
        if (c == any_of || c == end_only) {
            f.ends = c == end_only;
            return f;
        }
        if (f.text.size() + 4 > max) {
            return f;
        }
        const size_t begin = f.text.size();
        f.text += utf8(c);
        for (size_t i = begin; i < f.text.size(); i++) {
            p = feed(p, static_cast<uint8_t>(f.text[i]));
            f.path.push_back(p);
        }
        if (p.at == no_set) { // only marks that have all been passed are after it
            f.text.resize(begin);
            f.path.resize(begin + 1);
            return f;
        }
    }
}

bool matcher::spanned(std::string_view left, const position & at, bool special_only) {
    work                       = 0;
    size_t                seen = 0;
    const size_t          most = std::min(left.size(), vocab->longest - 1);
    std::vector<position> path; // after each byte that follows the boundary
    for (size_t n = 1; n <= most; n++) {
        path             = { at };
        const bool found = vocab->any_longer(left.substr(left.size() - n), [&](size_t i) {
            if (++seen > max_boundary_work) {
                return true;
            }
            // The tokens are neighbours, and all of them begin with the same n bytes.
            if (const size_t shared = std::max<size_t>(vocab->common[i], n) - n; shared + 1 < path.size()) {
                path.resize(shared + 1);
            }
            const llama_token t = vocab->order[i];
            if (path.back().at == no_set || (special_only && !vocab->special[t])) {
                return false;
            }
            const auto piece = vocab->piece(t).substr(n);
            while (path.size() <= piece.size() && path.back().at != no_set) {
                path.push_back(feed(path.back(), static_cast<uint8_t>(piece[path.size() - 1])));
            }
            return may_stop(path.back());
        });
        if (found) {
            return true;
        }
    }
    return false;
}

forced_tokens force(matcher & m, const llama_vocab * vocab, const std::vector<llama_token> & recent,
                    const std::vector<llama_token> & suppressed, size_t max) {
    const auto & tokens  = m.tokens();
    const auto   must    = m.must_follow(max_forced_bytes);
    const bool   may_end = must.ends && tokens.turn_end >= 0 &&
                           !std::binary_search(suppressed.begin(), suppressed.end(), tokens.turn_end);
    if (must.text.empty()) {
        return { {}, may_end };
    }
    std::string text;
    auto        first = recent.begin(); // of those that are looked at
    while (first != recent.end() && inside_character(tokens.piece(*first))) {
        ++first;
    }
    for (auto it = first; it != recent.end(); ++it) {
        text += tokens.piece(*it);
    }
    const size_t before = text.size();
    text += must.text;

    auto       list  = tokens.cache.tokenize(vocab, text);
    const auto known = recent.end() - first;
    if (static_cast<long>(list.size()) <= known || !std::equal(first, recent.end(), list.begin())) {
        return {};
    }
    list.erase(list.begin(), list.begin() + known);
    std::vector<size_t> ends; // in text
    size_t              usable = 0;
    for (size_t at = before; usable < list.size(); usable++) {
        const llama_token t = list[usable];
        if (text.compare(at, tokens.piece(t).size(), tokens.piece(t)) != 0) {
            return {}; // a tokenizer that changes texts
        }
        if (usable == max || tokens.is_eog[t] || std::binary_search(suppressed.begin(), suppressed.end(), t)) {
            break;
        }
        at += tokens.piece(t).size();
        ends.push_back(at);
    }
    if (may_end && usable == list.size()) {
        return { std::move(list), true };
    }
    for (size_t n = usable; n > 0; n--) {
        const auto left     = std::string_view(text).substr(0, ends[n - 1]);
        const bool whole    = tokens.special[list[n - 1]];
        const bool boundary = (n < usable && tokens.special[list[n]]) ||
                              ((whole || !looks_ahead(left.back())) &&
                               !m.spanned(left, must.path[left.size() - before], whole));
        if (boundary) {
            list.resize(n);
            return { std::move(list), false };
        }
    }
    return {};
}

} // namespace agd
