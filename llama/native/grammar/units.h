// Parts of a text that must differ, such as the calls of one answer. The matcher's automaton knows nothing of earlier
// units: this filter stands around it and follows the text byte by byte.
//
// A repetition is refused where another way to go on is left for the last time, so that no text gets stuck. With
// {"on":true} and {"on":false} before it, a unit does not begin with {"on": any more. With no way left to begin, the
// mark unit_next may not be passed, or the first character of the unit, where the text can go on without it.
//
// Units that begin with a brace are JSON: white space between its tokens is neither compared nor another way to go on.
// A unit with a token that the grammar names is not compared.
#pragma once

#include "grammar/matcher.h"

#include <bitset>

namespace agd {

class unit_filter {
  public:
    unit_filter(const grammar_rules & grammar, const vocab_index & vocab);

    // Whether the text of a token, which the grammar admits at m's position, would repeat a unit.
    bool refuses(matcher & m, llama_token token);
    // Removes those tokens from a set of tokens admitted by their texts.
    void filter(matcher & m, token_set & out);
    // Reads a token that may come, before m moves.
    void advance(matcher & m, llama_token token);
    // Changes whenever the same position of m may admit other tokens.
    uint64_t place() const { return version; }
    // Drops what holds for the present numbers of m's sets.
    void forget() { left.clear(); }

  private:
    using set      = matcher::set;
    using node     = matcher::node;
    using position = matcher::position;
    using places   = std::vector<position>;
    using bytes    = std::bitset<256>;

    // Finds white space between JSON tokens.
    struct spacing {
        bool begun = false, json = false, string = false, escaped = false;

        bool skips(uint8_t byte) const;
        void read(uint8_t byte);
    };
    // The units so far, without white space, in order; each ends with unit_ends.
    struct texts {
        uint64_t                 id = 0;
        std::vector<std::string> list;
    };
    // What may follow in one place. A unit may not begin with the first refused[i] bytes of list[i]; 0: it may.
    struct choices {
        std::vector<size_t> refused;
        bool                none = false; // no unit is left, and none is refused
    };
    // How far a text was read.
    struct cursor {
        std::shared_ptr<const texts>   done;
        std::shared_ptr<const choices> may;
        bool                           inside = false; // a unit
        spacing                        space;
        std::string                    added;             // to the unit, without white space
        bool                           goes_on  = true;   // added follows text
        size_t                         length   = 0;      // of the unit
        size_t                         first    = 0;      // of the texts in done->list that begin like the unit
        size_t                         end      = 0;
        bool                           compared = true;   // no named token is in it
        bool                           settled  = false;  // see settle

        bool alike() const { return first != end; }
        // Whether each further character of the same kind leaves it as it is.
        bool steady() const { return !inside || (settled && !alike()); }
    };

    void        filter_alike(matcher & m, token_set & out, size_t first, size_t end, size_t shared, const cursor & c,
                             const position & at);
    bool        read(matcher & m, cursor & c, llama_token token, bool keep);
    bool        move(matcher & m, cursor & c, const position & at, uint8_t byte, bool keep);
    bool        may_follow(matcher & m, const cursor & c, const position & at) const;
    static bool add(cursor & c, uint8_t byte);
    static bool narrow(cursor & c, uint8_t byte);
    void        settle(matcher & m, cursor & c, const position & at, uint8_t byte) const;
    bool        has(const matcher & m, const position & at, uint8_t byte, unit_mark mark) const;
    bool        stands_before(const matcher & m, node n, unit_mark mark) const;
    bool        avoidable(const matcher & m, set s, uint8_t byte, unit_mark mark) const;
    bool        may_begin(matcher & m, const texts & done, set from);
    bool   exhausted(matcher & m, const texts & t, choices & out, size_t first, size_t end, size_t depth, places at,
                     spacing space) const;
    bool   other_way(matcher & m, const places & at, const bytes & known, const spacing & space) const;
    void   spread(matcher & m, places & at, const spacing & space) const;
    places after(matcher & m, const places & at, uint8_t byte) const;

    std::shared_ptr<const choices> choices_at(matcher & m, const texts & done, set s);

    // Tokens that can end a unit and begin to separate the next one.
    struct crossing_tokens {
        token_set                set;
        std::vector<llama_token> list;
        size_t                   reach = 0; // bytes, at most, that they have of the next unit
    };
    std::shared_ptr<const crossing_tokens> crossing;
    bytes                                  marked[no_unit_mark]; // characters after each mark

    cursor      now;
    std::string text;        // of the unit so far, without white space
    uint64_t    version = 1;
    uint64_t    last_id = 0; // of texts

    std::map<std::pair<uint64_t, set>, std::shared_ptr<const choices>> left; // by texts and where a unit begins
};

} // namespace agd
