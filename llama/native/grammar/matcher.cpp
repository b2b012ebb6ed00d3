#include "grammar/matcher.h"

#include "assumptions.h"
#include "grammar/units.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace agd {

namespace {

constexpr uint32_t no_set  = matcher::no_set;
constexpr uint32_t unknown = matcher::unknown;

// Bounds on the work of one call and on the cache between calls. An enumeration of n values needs n stacks, text
// in JSON a handful.
constexpr size_t max_work    = 10u << 20; // stacks looked at: less than a second
constexpr size_t max_nodes   = 20000;     // stacks in one set
constexpr size_t max_stacks  = 1u << 19;  // about 100 bytes each
constexpr size_t max_states  = 1u << 15;  // about 700 bytes each
constexpr size_t kept_stacks = 10000;
constexpr size_t kept_states = 500;

// For matcher::few_next: how many first bytes, or tokens that begin with one of them, are few.
constexpr size_t few_bytes  = 8;
constexpr size_t few_tokens = 1024;

uint64_t hash(const std::vector<uint32_t> & nodes) {
    uint64_t h = 14695981039346656037u; // FNV-1a
    for (const uint32_t n : nodes) {
        h = (h ^ n) * 1099511628211u;
    }
    return h;
}

} // namespace

// matches(), after() and closure() are written for exactly these types.
static_assert(LLAMA_GRETYPE_END == 0 && LLAMA_GRETYPE_ALT == 1 && LLAMA_GRETYPE_RULE_REF == 2 &&
                  LLAMA_GRETYPE_CHAR == 3 && LLAMA_GRETYPE_CHAR_NOT == 4 && LLAMA_GRETYPE_CHAR_RNG_UPPER == 5 &&
                  LLAMA_GRETYPE_CHAR_ALT == 6 && LLAMA_GRETYPE_CHAR_ANY == 7 && LLAMA_GRETYPE_TOKEN == 8 &&
                  LLAMA_GRETYPE_TOKEN_NOT == 9,
              "llama.cpp's grammar elements have changed: check grammar/matcher.cpp");

grammar_rules::grammar_rules(const llama_grammar_rules & rules, uint32_t root) : root(root) {
    const uint32_t newest = assumption::broken(assumption::grammar_element) ? LLAMA_GRETYPE_RULE_REF
                                                                            : LLAMA_GRETYPE_TOKEN_NOT;
    for (const auto & rule : rules) {
        starts.push_back(static_cast<uint32_t>(elements.size()));
        for (const auto & e : rule) {
            if (static_cast<uint32_t>(e.type) > newest) {
                throw std::runtime_error("llama.cpp's parser made a grammar element of type " + std::to_string(e.type) +
                                         ", which agentd's matcher does not know; use the pinned llama.cpp");
            }
            elements.push_back(is_unit_mark(e) ? element{ type_unit, e.value - first_unit_mark }
                               : is_mark(e)    ? element{ type_mark, e.value - first_mark }
                                               : element{ e.type, e.value });
        }
    }
    for (size_t i = 0; i < elements.size(); i++) {
        if (elements[i].type != type_unit) {
            continue;
        }
        units             = true;
        const auto & next = elements[i + 1]; // at least an END
        if (next.type != LLAMA_GRETYPE_CHAR || next.value >= 0x80 || elements[i + 2].type == LLAMA_GRETYPE_CHAR_ALT ||
            elements[i + 2].type == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
            throw std::runtime_error("a mark of a unit does not stand before a literal with an ASCII character");
        }
    }
}

matcher::matcher(std::shared_ptr<const grammar_rules> grammar, std::shared_ptr<const vocab_index> vocab)
    : grammar(std::move(grammar)), vocab(std::move(vocab)) {
    stacks.push_back({ 0, 0, 0 });
    closures.push_back({ 0 });
    std::vector<node> first;
    for (uint32_t at = this->grammar->starts[this->grammar->root];; at++) {
        const auto & c = closure(push(0, at));
        first.insert(first.end(), c.begin(), c.end());
        while (!at_end(at)) {
            at++;
        }
        if (type(at) != LLAMA_GRETYPE_ALT) {
            break;
        }
    }
    now.at = intern(std::move(first));
    if (now.at == no_set) {
        throw std::runtime_error("it admits no text: each way to begin has a mark twice");
    }
    if (this->grammar->units) {
        units = std::make_unique<unit_filter>(*this->grammar, *this->vocab);
    }
}

matcher::matcher(const matcher & other) : grammar(other.grammar), vocab(other.vocab) {
    if (other.units) {
        units = std::make_unique<unit_filter>(*other.units);
    }
    restart(other);
}

matcher::~matcher() = default;

// --- elements ----------------------------------------------------------------

bool matcher::at_end(uint32_t element) const {
    return type(element) == LLAMA_GRETYPE_END || type(element) == LLAMA_GRETYPE_ALT;
}

// The element after a terminal, which may be several elements long.
uint32_t matcher::after(uint32_t element) const {
    element++;
    while (type(element) == LLAMA_GRETYPE_CHAR_ALT || type(element) == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
        element++;
    }
    return element;
}

// Whether a terminal takes any of the characters from low to high.
bool matcher::matches(uint32_t element, uint32_t low, uint32_t high) const {
    const bool inverse = type(element) == LLAMA_GRETYPE_CHAR_NOT;
    if (type(element) == LLAMA_GRETYPE_CHAR_ANY) {
        return true;
    }
    if (!inverse && type(element) != LLAMA_GRETYPE_CHAR) {
        return false; // a token
    }
    do {
        const uint32_t from = grammar->elements[element].value;
        uint32_t       to   = from;
        if (type(element + 1) == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
            to = grammar->elements[++element].value;
        }
        if (inverse ? from <= low && high <= to : from <= high && low <= to) {
            return !inverse;
        }
        element++;
    } while (type(element) == LLAMA_GRETYPE_CHAR_ALT);
    return inverse;
}

// --- stacks ------------------------------------------------------------------

void matcher::spend(size_t amount) {
    work += amount;
    if (work > max_work || stacks.size() > max_stacks || states.size() > max_states) {
        throw too_ambiguous();
    }
}

// The stack of a way that has passed marks, with top on the stack below, which has none.
matcher::node matcher::push(node below, uint32_t top, uint64_t marks) {
    if (at_end(top)) {
        return marked(below, marks);
    }
    const auto next = static_cast<node>(stacks.size());
    const auto key  = uint64_t(below) << 32 | top;
    const node n    = marks == 0 ? known.try_emplace(key, next).first->second
                                 : with.try_emplace({ key, marks }, next).first->second;
    if (n == next) {
        stacks.push_back({ top, below, marks });
        closures.emplace_back();
        spend(8); // as costly as that many looks; last, since it may throw
    }
    return n;
}

// The stack n, which has no marks, of a way that has passed some. The empty stack
// needs none: nothing follows.
matcher::node matcher::marked(node n, uint64_t marks) {
    return marks == 0 || n == 0 ? n : push(stacks[n].below, stacks[n].top, marks);
}

// The stacks with a terminal on top, or none, that n stands for.
const std::vector<matcher::node> & matcher::closure(node n) {
    if (!closures[n].empty()) {
        return closures[n];
    }
    std::vector<node>        found;
    std::vector<node>        todo = { n };
    std::unordered_set<node> seen;
    while (!todo.empty()) {
        const node at = todo.back();
        todo.pop_back();
        if (!seen.insert(at).second) {
            continue;
        }
        spend(8);
        const auto [top, below, marks] = stacks[at]; // push moves them
        if (at != 0 && type(top) == type_mark) {
            if (const uint64_t mark = uint64_t(1) << grammar->elements[top].value; (marks & mark) == 0) {
                todo.push_back(push(below, top + 1, marks | mark));
            }
            continue;
        }
        if (at != 0 && type(top) == type_unit) {
            todo.push_back(push(below, top + 1, marks));
            continue;
        }
        if (at == 0 || type(top) != LLAMA_GRETYPE_RULE_REF) {
            found.push_back(at);
            continue;
        }
        const node rest = push(below, top + 1);
        for (uint32_t e = grammar->starts[grammar->elements[top].value];; e++) {
            todo.push_back(push(rest, e, marks));
            while (!at_end(e)) {
                e++;
            }
            if (type(e) != LLAMA_GRETYPE_ALT) {
                break;
            }
        }
    }
    return closures[n] = std::move(found);
}

// Appends what follows the terminal on top of n.
void matcher::append_next(node n, std::vector<node> & out) {
    const auto & next = closure(push(stacks[n].below, after(stacks[n].top), stacks[n].marks));
    spend(next.size());
    out.insert(out.end(), next.begin(), next.end());
}

matcher::set matcher::intern(std::vector<node> nodes) {
    if (nodes.empty()) {
        return no_set;
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    spend(nodes.size());
    if (nodes.size() > max_nodes) {
        throw too_ambiguous();
    }
    auto & same = interned[hash(nodes)];
    for (const set s : same) {
        if (states[s]->nodes == nodes) {
            return s;
        }
    }
    auto made = std::make_unique<state>();
    for (const node n : nodes) {
        if (n == 0) {
            continue;
        }
        const uint32_t top = stacks[n].top;
        if (type(top) == LLAMA_GRETYPE_TOKEN || type(top) == LLAMA_GRETYPE_TOKEN_NOT) {
            made->tokens.push_back(n);
        } else if (type(top) == LLAMA_GRETYPE_CHAR && after(top) == top + 1) {
            made->exact.emplace_back(grammar->elements[top].value, n);
        } else {
            made->others.push_back(n);
        }
    }
    std::sort(made->exact.begin(), made->exact.end());
    made->ascii.fill(unknown);
    made->usual = { unknown, no_set };
    made->only  = any_of;
    if (nodes.back() == 0) {
        made->only = end_only;
    } else if (made->exact.size() == nodes.size() && made->exact.front().first == made->exact.back().first) {
        made->only = made->exact.front().first;
    }
    made->nodes = std::move(nodes);
    same.push_back(static_cast<set>(states.size()));
    states.push_back(std::move(made));
    return same.back();
}

matcher::set matcher::step(set s, uint32_t c) {
    state & from = *states[s];
    if (c < from.ascii.size() && from.ascii[c] != unknown) {
        return from.ascii[c];
    }
    std::vector<node> next;
    for (auto it = std::lower_bound(from.exact.begin(), from.exact.end(), std::make_pair(c, node(0)));
         it != from.exact.end() && it->first == c; ++it) {
        append_next(it->second, next);
    }
    spend(1 + from.others.size());
    for (const node n : from.others) {
        if (matches(stacks[n].top, c, c)) {
            append_next(n, next);
        }
    }
    const set to = intern(std::move(next));
    if (c < from.ascii.size()) {
        from.ascii[c] = to;
    }
    return to;
}

// --- bytes and tokens ----------------------------------------------------------

matcher::position matcher::feed(position p, uint8_t byte) {
    if (p.remain == 0) {
        if (byte < 0x80) {
            const set known = states[p.at]->ascii[byte];
            return { known != unknown ? known : step(p.at, byte) };
        }
        p.length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
        p.remain = static_cast<uint8_t>(p.length - 1);
        p.value  = byte & (0x7F >> p.length);
        if (byte < 0xC2 || byte > 0xF4) {
            p.at = no_set;
        }
        return p;
    }
    if ((byte & 0xC0) != 0x80) {
        return { no_set };
    }
    p.value = p.value << 6 | (byte & 0x3F);
    if (--p.remain > 0) {
        return p;
    }
    constexpr uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (p.value < least[p.length] || p.value > 0x10FFFF || (p.value >= 0xD800 && p.value < 0xE000)) {
        return { no_set };
    }
    return { step(p.at, p.value) };
}

matcher::position matcher::feed(position p, std::string_view text) {
    for (const char c : text) {
        if (p.at == no_set) {
            break;
        }
        p = feed(p, static_cast<uint8_t>(c));
    }
    return p;
}

// Whether a token may end here: a character that is not complete must be able to
// become one that fits.
bool matcher::may_stop(const position & p) const {
    if (p.at == no_set || p.remain == 0) {
        return p.at != no_set;
    }
    const auto [low, high] = completions(p.value, p.remain, p.length);
    const state & s        = *states[p.at];
    const auto    fits     = [&, low = low, high = high](node n) { return matches(stacks[n].top, low, high); };
    const auto    exact    = std::lower_bound(s.exact.begin(), s.exact.end(), std::make_pair(low, node(0)));
    return low <= high &&
           ((exact != s.exact.end() && exact->first <= high) || std::any_of(s.others.begin(), s.others.end(), fits));
}

// What follows a token that the grammar names.
matcher::set matcher::by_token(llama_token token) {
    if (now.remain > 0) {
        return no_set;
    }
    std::vector<node> next;
    for (const node n : states[now.at]->tokens) {
        const auto & e = grammar->elements[stacks[n].top];
        if ((e.type == LLAMA_GRETYPE_TOKEN) == (e.value == static_cast<uint32_t>(token))) {
            append_next(n, next);
        }
    }
    return intern(std::move(next));
}

// Where a token leads, named or by its text.
matcher::position matcher::after_token(llama_token token) {
    if (vocab->is_eog[token] || vocab->piece(token).empty()) {
        return { no_set };
    }
    position  text  = feed(now, vocab->piece(token));
    const set named = by_token(token);
    if (units && may_stop(text) && units->refuses(*this, token)) {
        text.at = no_set;
    }
    if (named == no_set) {
        return may_stop(text) ? text : position{ no_set };
    }
    if (text.at == no_set || text.remain > 0) {
        return { named };
    }
    std::vector<node> both = states[named]->nodes;
    both.insert(both.end(), states[text.at]->nodes.begin(), states[text.at]->nodes.end());
    return { intern(std::move(both)) };
}

bool matcher::over_budget() const {
    return work > max_work / 8;
}

bool matcher::admits(llama_token token, bool first) {
    if (first) {
        work = 0;
    }
    if (vocab->is_eog[token]) {
        return now.remain == 0 && states[now.at]->nodes.front() == 0;
    }
    return after_token(token).at != no_set;
}

bool matcher::accept(llama_token token) {
    work = 0;
    if (vocab->is_eog[token]) {
        if (!admits(token)) {
            return false;
        }
    } else {
        const position next = after_token(token);
        if (next.at == no_set) {
            return false;
        }
        if (units) {
            units->advance(*this, token);
        }
        now = next;
    }
    forget();
    return true;
}

bool matcher::few_next() {
    work = 0;
    if (now.remain > 0 || !states[now.at]->tokens.empty()) {
        return false;
    }
    size_t bytes = 0, tokens = 0;
    for (uint32_t c = 0; c < states[now.at]->ascii.size() && (bytes <= few_bytes || tokens <= few_tokens); c++) {
        if (step(now.at, c) != no_set) {
            bytes++;
            tokens += vocab->pairs[(c + 1) << 8] - vocab->pairs[c << 8];
        }
    }
    // What takes other characters takes many.
    const auto & s = *states[now.at];
    return (bytes <= few_bytes || tokens <= few_tokens) && std::none_of(s.others.begin(), s.others.end(), [&](node o) {
               return matches(stacks[o].top, 0x80, 0x10FFFF);
           });
}

matcher::place matcher::here() const {
    return { restarts, units ? units->place() : 0, now };
}

// --- memory --------------------------------------------------------------------

// Drops what is remembered, but for the present place, once that is much.
void matcher::forget() {
    if (stacks.size() > kept_stacks || states.size() > kept_states) {
        restart(matcher(*this));
    }
}

// Takes over the place of another matcher of the same grammar.
void matcher::restart(const matcher & from) {
    work = 0;
    restarts++;
    if (units) {
        units->forget();
    }
    stacks = { { 0, 0, 0 } };
    known.clear();
    with.clear();
    closures = { { 0 } };
    states.clear();
    interned.clear();
    classes.clear();
    weights.clear();
    class_ids.clear();
    class_of.clear();
    usual_of.clear();
    std::vector<node> nodes;
    for (const node n : from.states[from.now.at]->nodes) {
        nodes.push_back(copy(from, n));
    }
    now    = from.now;
    now.at = intern(std::move(nodes));
}

matcher::node matcher::copy(const matcher & from, node n) {
    const uint64_t        marks = from.stacks[n].marks;
    std::vector<uint32_t> tops;
    for (; n != 0; n = from.stacks[n].below) {
        tops.push_back(from.stacks[n].top);
    }
    node made = 0;
    for (size_t i = tops.size(); i-- > 0;) {
        made = push(made, tops[i]);
    }
    return marked(made, marks);
}

} // namespace agd
