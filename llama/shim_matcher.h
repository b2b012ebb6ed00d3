// Matching of tokens against a grammar, at a cost that is bounded for every
// grammar. llama.cpp's own matching follows every way to read a text apart from
// the others, which takes hours for a pattern like ([a-z]{0,30}){0,30}, and a
// whole vocabulary times every element of an enumeration.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llama-grammar.h"
#include "llama.h"

namespace agd {

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
    std::vector<llama_token> order;  // the other tokens that have a text
    std::vector<uint32_t>    common; // bytes that order[i] begins with as order[i-1] does
};

// A parsed grammar: its rules one after the other, each ended by an element END.
struct grammar_rules {
    grammar_rules(const llama_grammar_rules & rules, uint32_t root);

    std::vector<llama_grammar_element> elements;
    std::vector<uint32_t>              starts; // of rules in elements
    uint32_t                           root;   // a rule
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

    bool admits(llama_token token);
    // Sets out[t] for every token that may come next.
    void admitted(std::vector<bool> & out);
    // Goes on by a token; false, and nothing changes, if it may not come.
    bool accept(llama_token token);

  private:
    using node = uint32_t; // a stack; 0 is the empty one: the text may end
    using set  = uint32_t; // nothing may follow: no_set

    struct stack {
        uint32_t top; // an element
        node     below;
    };
    struct state {
        std::vector<node>                      nodes; // sorted
        std::vector<std::pair<uint32_t, node>> exact; // those that want one character, sorted by it
        std::vector<node>                      others;
        std::vector<node>                      tokens; // those that want a token
        std::array<set, 128>                   ascii;
    };
    struct position {
        set      at     = 0;
        uint32_t value  = 0; // of a character that is not complete
        uint8_t  remain = 0;
        uint8_t  length = 0;
    };

    uint32_t type(uint32_t element) const { return grammar->elements[element].type; }
    bool     at_end(uint32_t element) const;
    uint32_t after(uint32_t element) const;
    bool     matches(uint32_t element, uint32_t low, uint32_t high) const;

    void                      spend(size_t amount);
    node                      push(node below, uint32_t top);
    const std::vector<node> & closure(node n);
    void                      append_next(node n, std::vector<node> & out);
    set                       intern(std::vector<node> nodes);
    set                       step(set s, uint32_t c);
    position                  feed(position p, uint8_t byte);
    position                  feed(position p, std::string_view text);
    bool                      may_stop(const position & p) const;
    set                       by_token(llama_token token);
    position                  after_token(llama_token token);
    void                      forget();
    void                      restart(const matcher & from);
    node                      copy(const matcher & from, node n);

    std::shared_ptr<const grammar_rules> grammar;
    std::shared_ptr<const vocab_index>   vocab;
    position                             now;
    size_t                               work = 0;

    std::vector<stack>                             stacks;
    std::unordered_map<uint64_t, node>             known;    // by below and top
    std::vector<std::vector<node>>                 closures; // empty: not computed
    std::vector<std::unique_ptr<state>>            states;
    std::unordered_map<uint64_t, std::vector<set>> interned; // by hash of nodes
};

} // namespace agd
