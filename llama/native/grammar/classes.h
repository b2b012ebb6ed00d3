// Classes of characters, and which tokens of a vocabulary are made of the characters of one class.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llama.h"

namespace agd {

struct vocab_index;

// Characters, as ranges in order that do not touch each other.
using char_class = std::vector<std::pair<uint32_t, uint32_t>>;

constexpr uint32_t last_char = 0x10FFFF;

char_class normal(char_class ranges); // in any order
char_class complement(const char_class & c);
char_class common(const char_class & a, const char_class & b);
char_class without(const char_class & a, const char_class & b);
bool       contains(const char_class & c, uint32_t character);

// The character that text begins with, and its bytes; no bytes if it is not complete or not valid.
std::pair<uint32_t, size_t> first_character(std::string_view text);
std::string                 utf8(uint32_t character);
// The first and the last character that begins with a part of one: its value, and of how many bytes remain are
// missing. The first is after the last if there is none.
std::pair<uint32_t, uint32_t> completions(uint32_t value, uint32_t remain, uint32_t length);

// How many tokens of a vocabulary begin with a byte that begins a character of the class.
size_t weight(const char_class & c, const vocab_index & vocab);

// A set of tokens: a bit for each, and 64 more for reads beyond the last one.
class token_set {
  public:
    void clear(size_t tokens) { words.assign(tokens / 64 + 2, 0); }
    void add(llama_token t) { words[static_cast<size_t>(t) / 64] |= uint64_t(1) << (t % 64); }
    void remove(llama_token t) { words[static_cast<size_t>(t) / 64] &= ~(uint64_t(1) << (t % 64)); }
    bool has(llama_token t) const { return (words[static_cast<size_t>(t) / 64] >> (t % 64) & 1) != 0; }

    const uint64_t * data() const { return words.data(); }

    // Calls f(token) for each; f may remove it.
    template <typename F> void for_each(F f) const {
        for (size_t i = 0; i < words.size(); i++) {
            for (uint64_t bits = words[i]; bits != 0; bits &= bits - 1) {
                f(static_cast<llama_token>(i * 64 + __builtin_ctzll(bits)));
            }
        }
    }

  private:
    std::vector<uint64_t> words;
};

// The tokens of a vocabulary by the characters of one class that they begin with. Indices are as in
// vocab_index::order. A token is one of
//  - whole: all of it is characters of the class; the last one may lack bytes, if it is in the class whatever they are,
//  - split: some characters of the class, then a rest that begins with no such character, or with a part of one,
//  - outside: it begins with no character of the class.
struct class_table {
    class_table(const vocab_index & vocab, const char_class & chars);

    // The whole tokens of at most so many characters.
    void whole(size_t most, token_set & out) const;
    // Calls f(s) for each token of indexed whose index is in [first, end).
    template <typename F> void within(size_t first, size_t end, F f) const;

    struct split {
        uint32_t index;
        uint16_t chars;  // of the class, at most 0xFFFF
        uint16_t bytes;  // of these characters
        uint32_t common; // bytes that this rest begins with as the one before it does
    };
    struct range {
        uint32_t first, end;
    };
    struct group {
        uint32_t              first, end;
        std::vector<uint16_t> chars; // all that there are
    };
    std::vector<split> splits;  // by their rests, then by chars
    std::vector<group> groups;  // of splits whose rests begin with the same byte
    std::vector<split> indexed; // the same, and whole tokens that lack bytes, by index
    std::vector<range> outside; // indices
    size_t             longest = 0; // characters of the class that a token begins with

  private:
    std::vector<llama_token> tokens;  // whole ones, by their characters
    std::vector<uint32_t>    until;   // for each number of characters, how many of tokens have no more
    std::vector<token_set>   at_most; // the same as sets, for small numbers
    token_set                all_whole;
};

// The tables of a vocabulary, made when a grammar needs them. Safe for concurrent use.
class class_tables {
  public:
    // Null if there are too many classes in use; then the caller does without.
    std::shared_ptr<const class_table> get(const vocab_index & vocab, const char_class & chars);

  private:
    struct entry {
        std::once_flag                     once;
        std::shared_ptr<const class_table> table;
    };
    struct slot {
        char_class             chars;
        std::shared_ptr<entry> made;
        uint64_t               used;
    };
    std::mutex        mutex;
    std::vector<slot> slots;
    uint64_t          clock = 0;
};

template <typename F> void class_table::within(size_t first, size_t end, F f) const {
    auto it = std::lower_bound(indexed.begin(), indexed.end(), first,
                               [](const split & s, size_t i) { return s.index < i; });
    for (; it != indexed.end() && it->index < end; ++it) {
        f(*it);
    }
}

} // namespace agd
