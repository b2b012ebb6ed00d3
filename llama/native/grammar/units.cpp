#include "grammar/units.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace agd {

namespace {

constexpr uint32_t no_set    = matcher::no_set;
constexpr char     unit_ends = '\xFF'; // no byte of UTF-8
constexpr size_t   never     = std::numeric_limits<size_t>::max();

// Bounds on what is looked at: places that differ only in white space, sets of stacks between two units, and choices
// that are kept.
constexpr size_t max_places  = 16;
constexpr size_t max_between = 256;
constexpr size_t max_choices = 64;

constexpr uint8_t blanks[] = { ' ', '\n', '\t', '\r' };

constexpr auto byte_of = [](char c) { return static_cast<uint8_t>(c); };

} // namespace

unit_filter::unit_filter(const grammar_rules & grammar, const vocab_index & vocab) {
    for (size_t i = 0; i < grammar.elements.size(); i++) {
        if (grammar.elements[i].type == type_unit) {
            marked[grammar.elements[i].value].set(grammar.elements[i + 1].value);
        }
    }
    now.done   = std::make_shared<const texts>();
    auto found = std::make_shared<crossing_tokens>();
    found->set.clear(vocab.is_eog.size());
    const auto find = [&](size_t from, size_t end, const bytes & list) {
        while (from < end && !list[byte_of(vocab.text[from])]) {
            from++;
        }
        return from;
    };
    const bytes further = marked[unit_begin] | marked[unit_next];
    for (size_t last = 0; last < 0x80; last++) {
        if (!marked[unit_end][last]) {
            continue;
        }
        const char *       p   = vocab.text.data();
        const char * const end = p + vocab.text.size();
        for (; (p = static_cast<const char *>(std::memchr(p, static_cast<int>(last), end - p))) != nullptr; p++) {
            const auto   at    = static_cast<uint32_t>(p - vocab.text.data());
            const auto   next  = std::upper_bound(vocab.offsets.begin(), vocab.offsets.end(), at);
            const auto   token = static_cast<llama_token>(next - vocab.offsets.begin() - 1);
            const size_t begin = find(at + 1, *next, marked[unit_begin]);
            if (find(at + 1, *next, further) == *next) {
                continue;
            }
            found->reach = std::max(found->reach, *next - begin);
            if (!found->set.has(token)) {
                found->set.add(token);
                found->list.push_back(token);
            }
        }
    }
    crossing = std::move(found);
}

// --- reading -------------------------------------------------------------------

bool unit_filter::spacing::skips(uint8_t byte) const {
    return json && !string && std::find(std::begin(blanks), std::end(blanks), byte) != std::end(blanks);
}

void unit_filter::spacing::read(uint8_t byte) {
    json    = begun ? json : byte == '{';
    begun   = true;
    string  = string != (byte == '"' && !escaped);
    escaped = string && byte == '\\' && !escaped;
}

bool unit_filter::refuses(matcher & m, llama_token token) {
    const auto piece = m.vocab->piece(token);
    if (!crossing->set.has(token)) {
        if (now.inside ? !now.alike() : now.done->list.empty()) {
            return false;
        }
        if (!now.inside && std::none_of(piece.begin(), piece.end(), [&](char c) {
                return marked[unit_begin][byte_of(c)] || marked[unit_next][byte_of(c)];
            })) {
            return false;
        }
    }
    cursor c = now;
    return !read(m, c, token, /*keep=*/false);
}

void unit_filter::filter(matcher & m, token_set & out) {
    const auto check = [&](llama_token t) {
        if (out.has(t) && refuses(m, t)) {
            out.remove(t);
        }
    };
    if (!now.inside && !now.done->list.empty()) {
        out.for_each(check);
        return;
    }
    std::for_each(crossing->list.begin(), crossing->list.end(), check);
    if (now.inside && now.alike()) {
        filter_alike(m, out, 0, m.vocab->order.size(), 0, now, m.now);
    }
}

// The same for those tokens of order[first,end) that stay in the unit. They share so many bytes, which lead to c and at.
void unit_filter::filter_alike(matcher & m, token_set & out, size_t first, size_t end, size_t shared, const cursor & c,
                               const position & at) {
    bytes next; // that go on like an earlier unit
    for (size_t i = c.first; i < c.end; i++) {
        const char b = c.done->list[i][c.length];
        b == unit_ends ? next |= marked[unit_end] : next.set(byte_of(b));
    }
    const auto byte = [&](llama_token t) { // 0: there is none
        const auto piece = m.vocab->piece(t);
        return piece.size() > shared ? 1u + byte_of(piece[shared]) : 0;
    };
    for (unsigned b = 0; b < next.size(); b++) {
        if (!next[b] && !c.space.skips(static_cast<uint8_t>(b))) {
            continue;
        }
        const auto order = m.vocab->order.begin();
        const auto low   = std::lower_bound(order + first, order + end, b + 1,
                                            [&](llama_token t, unsigned want) { return byte(t) < want; });
        const auto high  = std::upper_bound(low, order + end, b + 1,
                                            [&](unsigned want, llama_token t) { return want < byte(t); });
        const auto after = m.feed(at, static_cast<uint8_t>(b));
        cursor     moved = c;
        if (low == high || !m.may_stop(after)) {
            continue;
        }
        if (!move(m, moved, at, static_cast<uint8_t>(b), /*keep=*/false)) {
            std::for_each(low, high, [&](llama_token t) { out.remove(t); });
        } else if (moved.inside && moved.alike()) {
            filter_alike(m, out, low - order, high - order, shared + 1, moved, after);
        }
    }
}

void unit_filter::advance(matcher & m, llama_token token) {
    cursor     c     = now;
    const bool named = m.by_token(token) != no_set;
    if (named && c.inside) {
        c.compared = false;
        c.settled  = true;
        c.first = c.end = 0;
    } else if (!named || m.may_stop(m.feed(m.now, m.vocab->piece(token)))) {
        read(m, c, token, /*keep=*/true);
    }
    if (!now.steady() || !c.steady() || now.inside != c.inside || now.done != c.done) {
        version++;
    }
    c.goes_on ? text += c.added : text = c.added;
    c.added.clear();
    c.goes_on = true;
    now       = std::move(c);
}

// Reads a token from m's position on. False: it repeats a unit. Without keep, only this answer counts.
bool unit_filter::read(matcher & m, cursor & c, llama_token token, bool keep) {
    const bool crosses = crossing->set.has(token);
    position   at      = m.now;
    for (const char b : m.vocab->piece(token)) {
        if (!keep && !crosses && c.inside && !c.alike()) {
            return true;
        }
        if (keep && c.inside && !c.settled) {
            settle(m, c, at, byte_of(b));
        }
        if (!move(m, c, at, byte_of(b), keep)) {
            return false;
        }
        at = m.feed(at, byte_of(b));
    }
    return true;
}

// Reads a byte that the grammar admits at a position. False: it repeats a unit.
bool unit_filter::move(matcher & m, cursor & c, const position & at, uint8_t byte, bool keep) {
    if (c.inside) {
        if (c.space.skips(byte)) {
            return !c.alike() || may_follow(m, c, m.feed(at, byte));
        }
        if (!has(m, at, byte, unit_end)) {
            return add(c, byte);
        }
        const bool fresh = narrow(c, byte_of(unit_ends));
        c.inside         = false;
        if (c.compared && (keep || !c.settled)) {
            auto        more = std::make_shared<texts>(*c.done);
            std::string unit = (c.goes_on ? text : std::string()) + c.added + unit_ends;
            more->id         = ++last_id;
            more->list.insert(std::lower_bound(more->list.begin(), more->list.end(), unit), std::move(unit));
            c.done = std::move(more);
        }
        return fresh;
    }
    if (has(m, at, byte, unit_begin)) {
        const auto may = choices_at(m, *c.done, at.at);
        if (may->none && avoidable(m, at.at, byte, unit_begin)) {
            return false;
        }
        cursor inside;
        inside.done    = c.done;
        inside.may     = may;
        inside.inside  = true;
        inside.goes_on = false;
        inside.end     = c.done->list.size();
        c              = std::move(inside);
        return add(c, byte);
    }
    return !has(m, at, byte, unit_next) || !avoidable(m, at.at, byte, unit_next) ||
           may_begin(m, *c.done, m.step(at.at, byte));
}

// Whether white space leaves a way to go on: after a number, say, no more digits follow it.
bool unit_filter::may_follow(matcher & m, const cursor & c, const position & at) const {
    bytes refused;
    for (size_t i = c.first; i < c.end; i++) {
        if (c.may->refused[i] == c.length + 1) {
            refused.set(byte_of(c.done->list[i][c.length]));
        }
    }
    places here = { at };
    spread(m, here, c.space);
    return other_way(m, here, refused, c.space);
}

bool unit_filter::add(cursor & c, uint8_t byte) {
    c.space.read(byte);
    c.added += static_cast<char>(byte);
    return narrow(c, byte);
}

// False: c's unit may not begin like this.
bool unit_filter::narrow(cursor & c, uint8_t byte) {
    const size_t column = c.length++;
    if (!c.alike()) {
        return true;
    }
    const auto begin = c.done->list.begin();
    const auto low   = std::lower_bound(begin + c.first, begin + c.end, byte,
                                        [&](const std::string & s, uint8_t b) { return byte_of(s[column]) < b; });
    const auto high  = std::upper_bound(low, begin + c.end, byte,
                                        [&](uint8_t b, const std::string & s) { return b < byte_of(s[column]); });
    c.first          = low - begin;
    c.end            = high - begin;
    return !c.alike() || c.may->refused[c.first] != c.length;
}

// A unit is settled once it had another way to go on after all that a token can have of the next unit. No such token
// is refused because of this unit then.
void unit_filter::settle(matcher & m, cursor & c, const position & at, uint8_t byte) const {
    if (c.length < crossing->reach || c.space.skips(byte) || has(m, at, byte, unit_end)) {
        return;
    }
    bytes known;
    known.set(byte);
    for (size_t i = c.first; i < c.end; i++) {
        known.set(byte_of(c.done->list[i][c.length]));
    }
    places here = { at };
    spread(m, here, c.space);
    c.settled = other_way(m, here, known, c.space);
}

// --- marks ---------------------------------------------------------------------

bool unit_filter::has(const matcher & m, const position & at, uint8_t byte, unit_mark mark) const {
    if (at.remain > 0 || at.at == no_set || !marked[mark][byte]) {
        return false;
    }
    const auto & list = m.states[at.at]->exact;
    auto         it   = std::lower_bound(list.begin(), list.end(), std::make_pair(uint32_t(byte), matcher::node(0)));
    for (; it != list.end() && it->first == byte; ++it) {
        if (stands_before(m, it->second, mark)) {
            return true;
        }
    }
    return false;
}

// Whether the mark stands before what is on top of a stack.
bool unit_filter::stands_before(const matcher & m, node n, unit_mark mark) const {
    const uint32_t top = m.stacks[n].top;
    return top > 0 && m.type(top - 1) == type_unit && m.grammar->elements[top - 1].value == mark;
}

// Whether the byte is read after the mark only, and the text can go on without it.
bool unit_filter::avoidable(const matcher & m, set s, uint8_t byte, unit_mark mark) const {
    bool other = false;
    for (const auto n : m.states[s]->nodes) {
        if (n == 0 || !m.matches(m.stacks[n].top, byte, byte)) {
            other = true;
        } else if (!stands_before(m, n, mark)) {
            return false;
        }
    }
    return other;
}

// Whether a unit may begin next in what follows a set of stacks.
bool unit_filter::may_begin(matcher & m, const texts & done, set from) {
    std::vector<set> seen  = { from };
    bool             found = false;
    for (size_t i = 0; i < seen.size(); i++) {
        const auto & s = *m.states[seen[i]];
        const auto   b = std::find_if(s.exact.begin(), s.exact.end(),
                                      [&](const auto & e) { return stands_before(m, e.second, unit_begin); });
        if (s.nodes.front() == 0 || !s.tokens.empty() || seen.size() > max_between ||
            (b != s.exact.end() && !choices_at(m, done, seen[i])->none)) {
            return true;
        }
        found = found || b != s.exact.end();
        for (uint32_t c = 0; b == s.exact.end() && c < s.ascii.size(); c++) {
            const set next = m.step(seen[i], c);
            if (next != no_set && std::find(seen.begin(), seen.end(), next) == seen.end()) {
                seen.push_back(next);
            }
        }
    }
    return !found;
}

// --- choices -------------------------------------------------------------------

std::shared_ptr<const unit_filter::choices> unit_filter::choices_at(matcher & m, const texts & done, set s) {
    if (left.size() > max_choices) {
        left.clear();
    }
    auto & known = left[{ done.id, s }];
    if (!known) {
        choices made;
        made.refused.assign(done.list.size(), never);
        if (!done.list.empty() && exhausted(m, done, made, 0, done.list.size(), 0, { { s } }, {})) {
            made.none = true;
            made.refused.assign(done.list.size(), never);
        }
        known = std::make_shared<const choices>(std::move(made));
    }
    return known;
}

// Whether all ways to go on from the places end as one of t.list[first,end), which share so many bytes. Else it sets
// which beginnings of these are refused.
bool unit_filter::exhausted(matcher & m, const texts & t, choices & out, size_t first, size_t end, size_t depth,
                            places at, spacing space) const {
    const auto refuse = [&](size_t from, size_t to, size_t bytes) {
        std::fill(out.refused.begin() + from, out.refused.begin() + to, bytes);
    };
    size_t other = never; // the last depth with another way
    for (;; depth++) {
        spread(m, at, space);
        bytes known;
        for (size_t i = first; i < end; i++) {
            known.set(byte_of(t.list[i][depth]));
        }
        if (other_way(m, at, known, space)) {
            other = depth;
        }
        if (known.count() > 1 || t.list[first][depth] == unit_ends) {
            break;
        }
        at = after(m, at, byte_of(t.list[first][depth]));
        space.read(byte_of(t.list[first][depth]));
    }
    bool none = true; // is left of the branches
    for (size_t from = first, to = first; t.list[first][depth] != t.list[end - 1][depth] && from < end; from = to) {
        const char c = t.list[from][depth];
        while (to < end && t.list[to][depth] == c) {
            to++;
        }
        spacing within = space;
        within.read(byte_of(c));
        if (c == unit_ends || exhausted(m, t, out, from, to, depth + 1, after(m, at, byte_of(c)), within)) {
            refuse(from, to, depth + 1);
        } else {
            none = false;
        }
    }
    if (none && other != never && (other != depth || t.list[first][depth] == t.list[end - 1][depth])) {
        refuse(first, end, other + 1);
    }
    return none && other == never;
}

// Whether the places have a way to go on other than the known bytes; where no unit has begun, one to begin.
bool unit_filter::other_way(matcher & m, const places & at, const bytes & known, const spacing & space) const {
    return std::any_of(at.begin(), at.end(), [&](const position & p) {
        m.spend(8);
        const auto & s = *m.states[p.at];
        if (space.begun && p.remain == 0 && (s.nodes.front() == 0 || !s.tokens.empty())) {
            return true;
        }
        const auto another = [&](uint8_t byte) {
            if (space.skips(byte) || !(space.begun || has(m, p, byte, unit_begin))) {
                return false;
            }
            if (has(m, p, byte, unit_end)) {
                return !known[byte_of(unit_ends)];
            }
            return !known[byte] && m.may_stop(m.feed(p, byte));
        };
        if (p.remain == 0 && s.only < 0x80) {
            return another(static_cast<uint8_t>(s.only));
        }
        for (size_t i = 0; i < known.size(); i++) {
            if (another(static_cast<uint8_t>(i + ' '))) { // visible characters first
                return true;
            }
        }
        return false;
    });
}

// Adds the places that white space leads to.
void unit_filter::spread(matcher & m, places & at, const spacing & space) const {
    for (size_t i = 0; i < at.size(); i++) {
        for (const uint8_t byte : blanks) {
            if (at[i].remain > 0 || !space.skips(byte) || at.size() == max_places) {
                continue;
            }
            const position next = m.feed(at[i], byte);
            if (next.at != no_set && std::find(at.begin(), at.end(), next) == at.end()) {
                at.push_back(next);
            }
        }
    }
}

unit_filter::places unit_filter::after(matcher & m, const places & at, uint8_t byte) const {
    places list;
    for (const position & p : at) {
        const position next = m.feed(p, byte);
        if (m.may_stop(next) && std::find(list.begin(), list.end(), next) == list.end()) {
            list.push_back(next);
        }
    }
    return list;
}

} // namespace agd
