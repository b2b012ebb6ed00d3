// Matching of tokens against a grammar, at a cost that is bounded for every
// grammar. llama.cpp's own matching follows every way to read a text apart from
// the others, which takes hours for a pattern like ([a-z]{0,30}){0,30}, and a
// whole vocabulary times every element of an enumeration.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llama-grammar.h"
#include "llama.h"
#include "grammar/vocab.h"

namespace agd {

// A mark, <[first_mark + i]> with i below max_marks, matches no text and stands at
// most once in a text: behind it the same mark matches nothing. So a few rules say
// what would take a rule for each subset of the marks. llama.cpp's notation has only
// the numbers of tokens to write marks with; no vocabulary is as large as these.
constexpr uint32_t first_mark = 0x7FFF0000;
constexpr uint32_t max_marks  = 64;

// Type of an element that is a mark, beside those of llama.cpp; the value is i.
constexpr uint32_t type_mark = 1u << 16;

// Whether an element of a parsed grammar is a mark.
inline bool is_mark(const llama_grammar_element & e) {
    return e.type == LLAMA_GRETYPE_TOKEN && e.value >= first_mark && e.value < first_mark + max_marks;
}

// A parsed grammar: its rules one after the other, each ended by an element END.
struct grammar_rules {
    grammar_rules(const llama_grammar_rules & rules, uint32_t root);

    struct element {
        uint32_t type;
        uint32_t value;
    };
    std::vector<element>  elements;
    std::vector<uint32_t> starts; // of rules in elements
    uint32_t              root;   // a rule
};

// Thrown when there are too many ways to read the text so far.
struct too_ambiguous : std::runtime_error {
    too_ambiguous() : std::runtime_error("there are too many ways to read what was written so far") {}
};

// matcher reads tokens one after the other. What may follow is a set of stacks
// of grammar positions; stacks are shared lists, each known by a number, so that
// ways which meet again are one. Sets and the ways between them are remembered:
// an automaton made as far as it is needed.
class matcher {
  public:
    matcher(std::shared_ptr<const grammar_rules> grammar, std::shared_ptr<const vocab_index> vocab);
    matcher(const matcher & other); // in the same place of the same grammar
    matcher & operator=(const matcher &) = delete;

    // Whether token may come next. Without first its work is added to that of the call before.
    bool admits(llama_token token, bool first = true);
    // Whether the calls of admits took much work together.
    bool tired() const;
    // All tokens that may come next, in no order; false, and some of them, if these are more than most.
    bool admitted(std::vector<llama_token> & out, size_t most);
    // Whether little may come next: text that begins with one of a few ASCII characters, or with such of
    // which few tokens begin, or with others that the grammar spells out.
    bool narrow();
    // Goes on by a token; false, and nothing changes, if it may not come.
    bool accept(llama_token token);

    using set = uint32_t; // of stacks

    static constexpr set no_set = std::numeric_limits<set>::max(); // nothing may follow

    struct position {
        set      at     = 0;
        uint32_t value  = 0; // of a character that is not complete
        uint8_t  remain = 0;
        uint8_t  length = 0;
    };

    // The text that is the only way to go on.
    struct forced {
        std::string           text;
        std::vector<position> path; // before and after each byte of it
        bool                  ends; // nothing may follow it
    };
    // At most max bytes of that text.
    forced must_follow(size_t max);
    // Whether some token could begin at the end of left and end behind it, in what
    // the grammar admits from at on; whole_only: some token of that kind. True as
    // well when that takes long to find out.
    bool spanned(std::string_view left, const position & at, bool whole_only);
    // The vocabulary that it reads.
    const vocab_index & tokens() const { return *vocab; }
    // Drops what is remembered, but for the present place, once that is much.
    void forget();

  private:
    using node = uint32_t; // a stack; 0 is the empty one: the text may end

    // What state::only holds beside characters.
    static constexpr uint32_t any_of   = 0xFFFFFFFF; // several ways to go on
    static constexpr uint32_t end_only = 0xFFFFFFFE; // none

    // A way to read the text so far. Only the marks of a whole stack count, so the
    // stacks below others have none, and are shared by all that have read the same
    // rules, whichever marks they have passed.
    struct stack {
        uint32_t top; // an element
        node     below;
        uint64_t marks; // that this way has passed
    };
    struct marked_key {
        uint64_t below_top, marks;

        bool operator==(const marked_key & k) const { return below_top == k.below_top && marks == k.marks; }
    };
    struct key_hash {
        size_t operator()(const marked_key & k) const { return (k.below_top ^ k.marks * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u; }
    };
    struct state {
        std::vector<node>                      nodes; // sorted
        std::vector<std::pair<uint32_t, node>> exact; // those that want one character, sorted by it
        std::vector<node>                      others;
        std::vector<node>                      tokens; // those that want a token
        std::array<set, 128>                   ascii;
        uint32_t                               only; // the one character that may follow, else any_of or end_only
    };

    uint32_t type(uint32_t element) const { return grammar->elements[element].type; }
    bool     at_end(uint32_t element) const;
    uint32_t after(uint32_t element) const;
    bool     matches(uint32_t element, uint32_t low, uint32_t high) const;

    void                      spend(size_t amount);
    node                      push(node below, uint32_t top, uint64_t marks = 0);
    node                      marked(node n, uint64_t marks);
    const std::vector<node> & closure(node n);
    void                      append_next(node n, std::vector<node> & out);
    set                       intern(std::vector<node> nodes);
    set                       step(set s, uint32_t c);
    position                  feed(position p, uint8_t byte);
    position                  feed(position p, std::string_view text);
    bool                      may_stop(const position & p) const;
    set                       by_token(llama_token token);
    position                  after_token(llama_token token);
    void                      restart(const matcher & from);
    node                      copy(const matcher & from, node n);

    std::shared_ptr<const grammar_rules> grammar;
    std::shared_ptr<const vocab_index>   vocab;
    position                             now;
    size_t                               work = 0;

    std::vector<stack>                             stacks;
    std::unordered_map<uint64_t, node>             known;    // without marks, by below and top
    std::unordered_map<marked_key, node, key_hash> with;     // marks, by these too
    std::vector<std::vector<node>>                 closures; // empty: not computed, or nothing may follow
    std::vector<std::unique_ptr<state>>            states;
    std::unordered_map<uint64_t, std::vector<set>> interned; // by hash of nodes
};

// What the grammar leaves no choice about.
struct forced_tokens {
    std::vector<llama_token> list;
    bool                     ends = false; // and then the text can only end
};

// The tokens that must follow, at most max of them, after a text that ends at m's
// place with the tokens recent. None of them is in suppressed, which is sorted.
forced_tokens force(matcher & m, const llama_vocab * vocab, const std::vector<llama_token> & recent,
                    const std::vector<llama_token> & suppressed, size_t max);

} // namespace agd
