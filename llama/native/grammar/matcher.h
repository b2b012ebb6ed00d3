// Matching of tokens against a grammar, at a bounded cost for every grammar. llama.cpp's own matching follows
// each way to read a text separately. That takes hours for a pattern like ([a-z]{0,30}){0,30}, and the whole
// vocabulary times every element of an enumeration.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llama-grammar.h"
#include "llama.h"
#include "grammar/vocab.h"

namespace agd {

// A mark, <[first_mark + i]> with i below max_marks, matches no text and may be passed once: after it the same
// mark matches nothing. So a few rules express what would take a rule for each subset of the marks. llama.cpp's
// notation has only token numbers to write marks with, and no vocabulary is that large.
constexpr uint32_t first_mark = 0x7FFF0000;
constexpr uint32_t max_marks  = 64;

// Marks of units, <[first_unit_mark + i]>, match no text and may be passed again. A unit is the text between a begin
// and the next end. No text holds one twice (units.h). Each stands before a literal with an ASCII character, which
// decides: nothing without the mark may go on with it there.
constexpr uint32_t first_unit_mark = first_mark + 0x100;
enum unit_mark : uint32_t {
    unit_begin, // before the first character
    unit_end,   // before the first character after it
    unit_next,  // before what separates another unit from those so far
    no_unit_mark,
};

// Types of elements that are marks, beside llama.cpp's types; the value is i.
constexpr uint32_t type_mark = 1u << 16;
constexpr uint32_t type_unit = type_mark + 1;

// Whether an element of a parsed grammar is a mark of a unit, or any mark.
inline bool is_unit_mark(const llama_grammar_element & e) {
    return e.type == LLAMA_GRETYPE_TOKEN && e.value >= first_unit_mark && e.value < first_unit_mark + no_unit_mark;
}
inline bool is_mark(const llama_grammar_element & e) {
    return is_unit_mark(e) ||
           (e.type == LLAMA_GRETYPE_TOKEN && e.value >= first_mark && e.value < first_mark + max_marks);
}

// A parsed grammar: its rules one after the other, each ended by an element END. The constructor throws for an
// element of a type that matcher does not know, and for a mark of a unit in a wrong place.
struct grammar_rules {
    grammar_rules(const llama_grammar_rules & rules, uint32_t root);

    struct element {
        uint32_t type;
        uint32_t value;
    };
    std::vector<element>  elements;
    std::vector<uint32_t> starts; // of rules in elements
    uint32_t              root;   // a rule
    bool                  units = false; // whether there are marks of units
};

// Parses a GBNF text with llama.cpp's parser and checks that it can be matched at a bounded cost. Throws
// std::runtime_error with the reason. named receives the tokens that the grammar names, as in <[123]>. Without a
// vocabulary the grammar may name none by text.
std::shared_ptr<const grammar_rules> parse_grammar(const llama_vocab * vocab, const char * gbnf,
                                                   std::vector<llama_token> * named);

// Thrown when there are too many ways to read the text so far.
struct too_ambiguous : std::runtime_error {
    too_ambiguous() : std::runtime_error("there are too many ways to read what was written so far") {}
};

class unit_filter;

// A matcher reads tokens one after the other. What may follow is a set of stacks of grammar positions. Stacks
// are shared lists with numbers, so that ways to read the text which meet again become one. Sets and the steps
// between them are cached: an automaton, built as far as it is used.
class matcher {
  public:
    matcher(std::shared_ptr<const grammar_rules> grammar, std::shared_ptr<const vocab_index> vocab);
    matcher(const matcher & other); // in the same place of the same grammar
    matcher & operator=(const matcher &) = delete;
    ~matcher();

    // Whether token may come next. Without first, its work adds to that of the previous call.
    bool admits(llama_token token, bool first = true);
    // Whether the calls of admits since the first one used most of their work budget.
    bool over_budget() const;
    // All tokens that may come next, in no order. If they are more than most: false, and some of them.
    bool admitted(std::vector<llama_token> & out, size_t most);
    // The same as a set. That takes microseconds also where nearly all tokens may come, as in a string.
    void admitted(token_set & out);
    // Whether few tokens may come next: the text goes on with one of a few ASCII characters, or few tokens
    // begin with those that it may go on with.
    bool few_next();
    // Advances by a token. If the token may not come: false, and nothing changes.
    bool accept(llama_token token);

    using set = uint32_t; // of stacks

    static constexpr set no_set  = std::numeric_limits<set>::max(); // nothing may follow
    static constexpr set unknown = no_set - 1;                      // not computed yet

    struct position {
        set      at     = 0;
        uint32_t value  = 0; // of a character that is not complete
        uint8_t  remain = 0;
        uint8_t  length = 0;

        bool operator==(const position & p) const {
            return at == p.at && value == p.value && remain == p.remain && length == p.length;
        }
    };

    // The text that is the only way to go on.
    struct forced {
        std::string           text;
        std::vector<position> path; // before and after each byte of it
        bool                  ends; // nothing may follow it
    };
    // At most max bytes of that text.
    forced must_follow(size_t max);
    // Whether a token could begin within left and end after it, in what the grammar admits from at on.
    // special_only considers special tokens only. Also true if the answer would take too long.
    bool                spanned(std::string_view left, const position & at, bool special_only);
    const vocab_index & tokens() const { return *vocab; }
    // Drops a large cache; the position in the grammar stays.
    void forget();
    // Equal ones of a matcher admit the same tokens.
    using place = std::tuple<uint64_t, uint64_t, position>;
    place here() const;

  private:
    friend class unit_filter;

    using node = uint32_t; // a stack; 0 is the empty one: the text may end

    // What state::only holds beside characters.
    static constexpr uint32_t any_of   = 0xFFFFFFFF; // several ways to go on
    static constexpr uint32_t end_only = 0xFFFFFFFE; // none

    static constexpr uint32_t no_class = 0xFFFFFFFF;

    // A way to read the text so far. Only the topmost stack holds marks, so that stacks below are shared by all
    // ways through the same rules, whichever marks they have passed.
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
        size_t operator()(const marked_key & k) const {
            return (k.below_top ^ k.marks * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
        }
    };
    // Many characters that all lead to the same set.
    struct usual_step {
        uint32_t chars; // an index of classes; no_class, or unknown
        set      next;
    };
    struct state {
        std::vector<node>                      nodes; // sorted
        std::vector<std::pair<uint32_t, node>> exact; // those that want one character, sorted by it
        std::vector<node>                      others;
        std::vector<node>                      tokens; // those that want a token
        std::array<set, 128>                   ascii;
        uint32_t                               only; // the one character that may follow, else any_of or end_only
        usual_step                             usual;
    };
    struct class_walk;

    uint32_t type(uint32_t element) const { return grammar->elements[element].type; }
    bool     at_end(uint32_t element) const;
    uint32_t after(uint32_t element) const;
    bool     matches(uint32_t element, uint32_t low, uint32_t high) const;

    void                       spend(size_t amount);
    node                       push(node below, uint32_t top, uint64_t marks = 0);
    node                       marked(node n, uint64_t marks);
    const std::vector<node> &  closure(node n);
    void                       append_next(node n, std::vector<node> & out);
    set                        intern(std::vector<node> nodes);
    set                        step(set s, uint32_t c);
    position                   feed(position p, uint8_t byte);
    position                   feed(position p, std::string_view text);
    bool                       may_stop(const position & p) const;
    set                        by_token(llama_token token);
    position                   after_token(llama_token token);
    char_class                 characters(uint32_t element) const;
    uint32_t                   intern_class(char_class chars);
    uint32_t                   common_class(const state & s);
    usual_step                 usual(set s);
    bool                       takes_any(set s, const char_class & chars);
    template <typename F> void walk(size_t first, size_t end, position at, size_t bytes, F f);
    template <typename F> void for_named(F f);
    bool                       admitted_by_class(token_set & out);
    void                       admitted_rests(class_walk & w, const class_table::group & group);
    void                       correct_rests(class_walk & w, size_t first, size_t end, size_t bytes, set at);
    void                       correct(class_walk & w, size_t first, size_t end, size_t bytes, size_t n, set at);
    void                       restart(const matcher & from);
    node                       copy(const matcher & from, node n);

    std::shared_ptr<const grammar_rules> grammar;
    std::shared_ptr<const vocab_index>   vocab;
    std::unique_ptr<unit_filter>         units; // null: the grammar has none
    position                             now;
    size_t                               work     = 0;
    uint64_t                             restarts = 1; // since then sets have other numbers

    std::vector<stack>                             stacks;
    std::unordered_map<uint64_t, node>             known;    // without marks, by below and top
    std::unordered_map<marked_key, node, key_hash> with;     // marks, by these too
    std::vector<std::vector<node>>                 closures; // empty: not computed, or nothing may follow
    std::vector<std::unique_ptr<state>>            states;
    std::unordered_map<uint64_t, std::vector<set>> interned; // by hash of nodes

    // Classes of the terminals seen so far, and of usual steps.
    std::deque<char_class>                    classes;
    std::vector<size_t>                       weights;   // of classes
    std::map<char_class, uint32_t>            class_ids; // in classes
    std::unordered_map<uint32_t, uint32_t>    class_of;  // by element
    std::map<std::vector<uint32_t>, uint32_t> usual_of;  // by the terminals of a set
    std::vector<position>                     path;      // scratch
};

// Tokens that the grammar leaves no choice about.
struct forced_tokens {
    std::vector<llama_token> list;
    bool                     ends = false; // and then the text can only end
};

// The tokens that must follow m's position, at most max of them. recent are the last tokens of the text. None of
// the result is in suppressed, which is sorted.
forced_tokens force(matcher & m, const llama_vocab * vocab, const std::vector<llama_token> & recent,
                    const std::vector<llama_token> & suppressed, size_t max);

} // namespace agd
