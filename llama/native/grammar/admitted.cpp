// Lists of the tokens that may come next.
//
// A walk over the vocabulary takes milliseconds where most tokens are admitted. Nearly always these are characters of
// one class, as in a JSON string: all that lead from a set of stacks to one and the same set, from this to a third
// and so on. Mostly that is the same set again; in a string of bounded length each is another one.
//
//  1. What is made of such characters alone is known for each vocabulary: a copy of a set of tokens.
//  2. Tokens that begin with such characters have a rest, such as ", or \n. Equal rests are matched once.
//  3. Characters that lead elsewhere at first, as those that begin the elements of an enumeration beside a string,
//     or the </ of a tag, have their tokens corrected.
//  4. Other tokens are walked over. They are few, or most are refused at the first byte.
#include "grammar/matcher.h"
#include "grammar/units.h"

#include <algorithm>

namespace agd {

namespace {

// A class of characters is worth a table if tokens that begin with them are such a part of the vocabulary.
constexpr size_t least_part = 32;

constexpr std::pair<uint32_t, uint32_t> surrogates = { 0xD800, 0xDFFF };

// Terminals, at most, of a set with a usual step.
constexpr size_t max_terminals = 64;

} // namespace

// --- usual steps -----------------------------------------------------------------

// The characters that a terminal takes, without surrogates.
char_class matcher::characters(uint32_t element) const {
    if (type(element) == LLAMA_GRETYPE_CHAR_ANY) {
        return complement({ surrogates });
    }
    const bool inverse = type(element) == LLAMA_GRETYPE_CHAR_NOT;
    if (!inverse && type(element) != LLAMA_GRETYPE_CHAR) {
        return {};
    }
    char_class     ranges;
    const uint32_t end = after(element);
    while (element < end) {
        const uint32_t from = grammar->elements[element++].value;
        uint32_t       to   = from;
        if (type(element) == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
            to = grammar->elements[element++].value;
        }
        ranges.emplace_back(from, std::min(to, last_char));
    }
    if (inverse) {
        ranges.push_back(surrogates);
    }
    ranges = normal(std::move(ranges));
    return inverse ? complement(ranges) : without(ranges, { surrogates });
}

uint32_t matcher::intern_class(char_class chars) {
    const auto [it, fresh] = class_ids.try_emplace(std::move(chars), static_cast<uint32_t>(classes.size()));
    if (fresh) {
        classes.push_back(it->first);
        weights.push_back(weight(it->first, *vocab));
        spend(classes.back().size());
    }
    return it->second;
}

// The class of characters that all lead from s to the same set: characters of the heaviest terminal, where the other
// terminals take all of them or none.
uint32_t matcher::common_class(const state & s) {
    std::vector<uint32_t> key; // classes, then characters
    for (const node n : s.others) {
        const auto [it, fresh] = class_of.try_emplace(stacks[n].top, 0);
        if (fresh) {
            it->second = intern_class(characters(it->first));
        }
        key.push_back(it->second);
    }
    spend(1 + s.others.size() + s.exact.size());
    std::sort(key.begin(), key.end());
    key.erase(std::unique(key.begin(), key.end()), key.end());
    const size_t n = key.size();
    if (n == 0 || n > max_terminals) {
        return no_class;
    }
    char_class exact;
    for (const auto & [c, node] : s.exact) {
        if (exact.empty() || exact.back().first != c) {
            exact.emplace_back(c, c);
            key.push_back(c);
        }
    }
    const auto [it, fresh] = usual_of.try_emplace(std::move(key), no_class);
    if (!fresh) {
        return it->second;
    }
    const auto end      = it->first.begin() + static_cast<long>(n);
    const auto heaviest = *std::max_element(it->first.begin(), end,
                                            [&](uint32_t a, uint32_t b) { return weights[a] < weights[b]; });
    char_class chars    = without(classes[heaviest], normal(exact));
    for (auto other = it->first.begin(); other != end; ++other) {
        const char_class both = common(chars, classes[*other]);
        chars = 2 * weight(both, *vocab) >= weight(chars, *vocab) ? both : without(chars, classes[*other]);
        spend(chars.size());
    }
    if (weight(chars, *vocab) * least_part >= vocab->order.size()) {
        it->second = intern_class(std::move(chars));
    }
    return it->second;
}

matcher::usual_step matcher::usual(set s) {
    if (states[s]->usual.chars == unknown) {
        usual_step found = { common_class(*states[s]), no_set };
        if (found.chars != no_class) {
            found.next = step(s, classes[found.chars].front().first);
        }
        if (found.next == no_set) { // after it are only marks that have been passed
            found.chars = no_class;
        }
        states[s]->usual = found;
    }
    return states[s]->usual;
}

// Whether any of the characters may follow.
bool matcher::takes_any(set s, const char_class & chars) {
    const state & from = *states[s];
    spend(from.exact.size() + from.others.size() * chars.size());
    return std::any_of(from.exact.begin(), from.exact.end(),
                       [&](const auto & e) { return contains(chars, e.first); }) ||
           std::any_of(from.others.begin(), from.others.end(), [&](node n) {
               return std::any_of(chars.begin(), chars.end(), [&](const auto & range) {
                   return matches(stacks[n].top, range.first, range.second);
               });
           });
}

// --- walks ---------------------------------------------------------------------

// Calls f(token) for the admitted ones of order[first,end), until it returns true. They share so many bytes, which
// lead to at.
template <typename F> void matcher::walk(size_t first, size_t end, position at, size_t bytes, F f) {
    path.assign(1, at); // after each further byte
    for (size_t i = first; i < end;) {
        if (i > first && vocab->common[i] + 1 < path.size() + bytes) {
            path.resize(vocab->common[i] + 1 - bytes);
        }
        const llama_token t     = vocab->order[i];
        const auto        piece = vocab->piece(t).substr(bytes);
        while (path.size() <= piece.size() && path.back().at != no_set) {
            position next = feed(path.back(), static_cast<uint8_t>(piece[path.size() - 1]));
            if (!may_stop(next)) {
                next.at = no_set; // no character that begins like this fits
            }
            path.push_back(next);
        }
        if (path.back().at == no_set) {
            i = vocab->behind(i, bytes + path.size() - 1); // the others begin like this one, which did not fit
            path.pop_back();
            continue;
        }
        if (f(t)) {
            return;
        }
        i++;
    }
}

// Calls f(token) for those that the grammar names.
template <typename F> void matcher::for_named(F f) {
    if (now.remain > 0 || states[now.at]->tokens.empty()) {
        return;
    }
    for (const llama_token t : vocab->order) {
        if (by_token(t) != no_set) {
            f(t);
        }
    }
}

bool matcher::admitted(std::vector<llama_token> & out, size_t most) {
    work = 0;
    out.clear();
    if (now.remain == 0 && states[now.at]->nodes.front() == 0) {
        out = vocab->eog_tokens;
    }
    std::vector<bool> named; // tokens that the grammar names; empty: none
    for_named([&](llama_token t) {
        named.resize(vocab->is_eog.size());
        named[t] = true;
        out.push_back(t);
    });
    walk(0, vocab->order.size(), now, 0, [&](llama_token t) {
        if ((named.empty() || !named[t]) && !(units && units->refuses(*this, t))) {
            out.push_back(t);
        }
        return out.size() > most;
    });
    forget();
    return out.size() <= most;
}

void matcher::admitted(token_set & out) {
    work           = 0;
    const auto add = [&](llama_token t) {
        out.add(t);
        return false;
    };
    if (now.remain > 0 || !admitted_by_class(out)) {
        out.clear(vocab->is_eog.size());
        walk(0, vocab->order.size(), now, 0, add);
    }
    if (units) {
        units->filter(*this, out);
    }
    for_named(add);
    if (now.remain == 0 && states[now.at]->nodes.front() == 0) {
        std::for_each(vocab->eog_tokens.begin(), vocab->eog_tokens.end(), add);
    }
    forget();
}

// --- classes ---------------------------------------------------------------------

// What a walk by class knows.
struct matcher::class_walk {
    const class_table & table;
    const char_class &  chars;
    token_set &         out;
    std::vector<set>    sets;  // after each number of usual characters; the last one stays
    size_t              most;  // usual characters that may follow each other

    set after(size_t n) const { return n > most ? no_set : sets[std::min(n, sets.size() - 1)]; }
};

namespace {

// Calls f(first, end, character, length) for each character of chars and the texts of order[first,end) that go on
// with it after so many bytes, which they share. length is in bytes.
template <typename F>
void for_characters(const vocab_index & vocab, size_t first, size_t end, size_t bytes, const char_class & chars, F f) {
    const auto rest = [&](llama_token t) { return vocab.piece(t).substr(bytes); };
    for (const auto & [low, high] : chars) {
        const auto begin = vocab.order.begin();
        first            = static_cast<size_t>(
            std::lower_bound(begin + static_cast<long>(first), begin + static_cast<long>(end), utf8(low),
                             [&](llama_token t, const std::string & s) { return rest(t) < s; }) -
            begin);
        while (first < end) {
            const auto [c, length] = first_character(rest(vocab.order[first]));
            if (length == 0) {
                first++; // a part of a character
                continue;
            }
            if (c > high) {
                break;
            }
            const size_t behind = vocab.behind(first, bytes + length);
            f(first, behind, c, length);
            first = behind;
        }
    }
}

} // namespace

// The set of admitted tokens, end-of-generation tokens and named ones left out. False: the text goes on with too many
// kinds of characters.
bool matcher::admitted_by_class(token_set & out) {
    const usual_step first = usual(now.at);
    if (first.chars == no_class) {
        return false;
    }
    const usual_step second = usual(first.next);
    // An identifier may go on with more characters than it begins with.
    const bool wider = second.chars != no_class &&
                       2 * weight(common(classes[first.chars], classes[second.chars]), *vocab) >= weights[second.chars];
    const uint32_t chars = wider ? second.chars : first.chars;
    const auto     table = vocab->classes.get(*vocab, classes[chars]);
    if (table == nullptr) {
        return false;
    }
    class_walk w = { *table, classes[chars], out, { now.at, first.next }, table->longest };
    while (w.sets.size() <= table->longest) {
        const set        last = w.sets.back();
        const usual_step next = usual(last);
        if (next.chars == no_class ||
            (next.chars != chars && common(classes[chars], classes[next.chars]) != classes[chars])) {
            if (takes_any(last, classes[chars])) {
                return false;
            }
            w.most = w.sets.size() - 1;
            break;
        }
        if (next.next == last) {
            break;
        }
        w.sets.push_back(next.next);
    }
    table->whole(w.most, out);
    for (const auto & group : table->groups) {
        admitted_rests(w, group);
    }
    const char_class others = without(classes[chars], classes[first.chars]);
    if (!others.empty() && others.back().second >= 0x80) { // characters of several bytes
        correct_rests(w, 0, vocab->order.size(), 0, now.at);
    }
    for_characters(*vocab, 0, vocab->order.size(), 0, others, [&](size_t from, size_t end, uint32_t c, size_t length) {
        correct(w, from, end, length, 1, step(now.at, c));
    });
    for (const auto & range : table->outside) {
        walk(range.first, range.end, now, 0, [&](llama_token t) {
            out.add(t);
            return false;
        });
    }
    return true;
}

// Adds the split tokens of a group that are admitted after their usual characters.
void matcher::admitted_rests(class_walk & w, const class_table::group & group) {
    const auto rest = [&](const class_table::split & s) { return vocab->piece(vocab->order[s.index]).substr(s.bytes); };
    const auto byte = static_cast<uint8_t>(rest(w.table.splits[group.first])[0]);
    for (auto from = group.chars.begin(); from != group.chars.end() && *from <= w.most;) {
        // Numbers of characters after which the byte leads to the same place.
        const position start = feed({ w.after(*from) }, byte);
        auto           to    = from + 1;
        while (to != group.chars.end() && *to <= w.most &&
               (w.after(*to) == w.after(*from) || feed({ w.after(*to) }, byte) == start)) {
            ++to;
        }
        const uint16_t least = *from, most = *(to - 1);
        from = to;
        if (!may_stop(start)) {
            continue;
        }
        path.assign(1, start); // after each further byte
        for (size_t i = group.first; i < group.end; i++) {
            const auto & s = w.table.splits[i];
            if (s.common < path.size()) {
                path.resize(std::max<size_t>(s.common, 1));
            }
            if (s.chars < least || s.chars > most) {
                continue;
            }
            const auto text = rest(s);
            while (path.size() < text.size() && path.back().at != no_set) {
                path.push_back(feed(path.back(), static_cast<uint8_t>(text[path.size()])));
            }
            if (may_stop(path.back())) {
                w.out.add(vocab->order[s.index]);
            }
        }
    }
}

// Corrects the tokens of order[first,end) that go on with no complete character of the class after so many bytes, which
// they share and which lead to at.
void matcher::correct_rests(class_walk & w, size_t first, size_t end, size_t bytes, set at) {
    w.table.within(first, end, [&](const class_table::split & s) {
        if (s.bytes == bytes) {
            const llama_token t = vocab->order[s.index];
            may_stop(feed(position{ at }, vocab->piece(t).substr(bytes))) ? w.out.add(t) : w.out.remove(t);
        }
    });
}

// Corrects the tokens order[first,end). They share so many bytes, n characters of the class, which do not lead to
// w.after(n) but to at.
void matcher::correct(class_walk & w, size_t first, size_t end, size_t bytes, size_t n, set at) {
    if (at == w.after(n)) {
        return;
    }
    const usual_step next = at == no_set ? usual_step{ no_class, no_set } : usual(at);
    if (next.chars == no_class || next.next != w.after(n + 1)) {
        for (size_t i = first; i < end; i++) {
            w.out.remove(vocab->order[i]);
        }
        if (at != no_set) {
            walk(first, end, { at }, bytes, [&](llama_token t) {
                w.out.add(t);
                return false;
            });
        }
        return;
    }
    for (size_t i = first; i < end && vocab->piece(vocab->order[i]).size() == bytes; i++) {
        w.out.add(vocab->order[i]);
    }
    correct_rests(w, first, end, bytes, at);
    const char_class others = without(w.chars, classes[next.chars]);
    for_characters(*vocab, first, end, bytes, others, [&](size_t from, size_t to, uint32_t c, size_t length) {
        correct(w, from, to, bytes + length, n + 1, step(at, c));
    });
}

} // namespace agd
