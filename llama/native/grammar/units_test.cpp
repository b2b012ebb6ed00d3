// Compares units with a plain oracle that knows all units of a small grammar: on random grammars of calls, in random
// texts, with random tokens that span boundaries. A token is admitted exactly if it begins a text without repetitions.
#include "grammar/matcher.h"
#include "testing/check.h"

#include <algorithm>
#include <set>
#include <string>

using namespace agd;

namespace {

using rng  = std::mt19937;
using list = std::vector<std::string>;

size_t below(rng & r, size_t n) {
    return r() % n;
}

const std::string & pick(rng & r, const list & from) {
    return from[below(r, from.size())];
}

bool begins(const std::string & text, const std::string & with) {
    return text.compare(0, with.size(), with) == 0;
}

// A grammar with BEGIN, END and NEXT for the marks, or without them.
std::string with_marks(std::string gbnf, bool marks) {
    const char * const names[] = { "BEGIN", "END", "NEXT" };
    for (uint32_t i = 0; i < no_unit_mark; i++) {
        const std::string mark = marks ? "<[" + std::to_string(first_unit_mark + i) + "]>" : "";
        for (size_t at; (at = gbnf.find(names[i])) != std::string::npos;) {
            gbnf.replace(at, std::string(names[i]).size(), mark);
        }
    }
    return gbnf;
}

std::shared_ptr<const vocab_index> vocab_of(const list & more) {
    std::vector<token_text> tokens;
    for (int b = 0; b < 256; b++) {
        tokens.push_back({ std::string(1, static_cast<char>(b)) });
    }
    tokens.push_back({ "<end>", /*eog=*/true, /*special=*/true });
    for (const auto & text : more) {
        tokens.push_back({ text });
    }
    return std::make_shared<const vocab_index>(tokens);
}

constexpr llama_token end_token = 256;
constexpr int         texts     = 2000; // random ones

matcher make(const std::string & gbnf, const std::shared_ptr<const vocab_index> & vocab, bool marks = true) {
    std::vector<llama_token> named;
    return matcher(parse_grammar(nullptr, with_marks(gbnf, marks).c_str(), &named), vocab);
}

// What of a text is admitted, byte by byte; '$' is its end.
std::string admitted(matcher & m, const std::string & text) {
    for (size_t i = 0; i < text.size(); i++) {
        if (!m.accept(text[i] == '$' ? end_token : static_cast<uint8_t>(text[i]))) {
            return text.substr(0, i);
        }
    }
    return text;
}

// --- chosen texts ----------------------------------------------------------------

const char * const calls = R"~(root ::= "[" call (NEXT "," " "? call){0,9} "]" | "no"
call ::= BEGIN "{" s tool s END "}"
s ::= " "?
tool ::= "\"stop\"" | "\"on\":" s ("true" | "false") | "\"n\":" s [0-9]{1,2} | "\"at\":" s "\"" [ab ]{0,2} "\"")~";

const char * const tags = R"~(root ::= "<c>" call (NEXT "\n" "<c>" call){0,9}
call ::= BEGIN "f" [ab ] "\n" ("<p>" [ab] "</p>"){0,2} "<" END "/c>")~";

const char * const fence = R"~(root ::= "`" call ("\n" call){0,9} "\n`"
call ::= BEGIN "(" ("a" | "b") END ")")~";

const char * const robots = R"~(root ::= "[" call (NEXT "," call)? "]"
call ::= BEGIN "{" ("a" | "b") ":" (<[2147418112]> "r" | <[2147418113]> "s") END "}")~";

void texts_without_repetition() {
    const struct {
        const char * what;
        const char * gbnf;
        const char * text;    // '$' is its end
        const char * refused; // what may not follow then, each
        const char * next;    // what may
    } table[] = {
        { "two values", calls, R"([{"on":true},{"on":)", "t", "f" },
        { "no value is left", calls, R"([{"on":true},{"on":false},{")", "X", "sna" },
        { "no value is left of one tool", calls, R"([{"on":true},{"on":false},{"stop"},{")", "os", "na" },
        { "spaces", calls, R"([{"on":true},{ "on": )", "t", "f" },
        { "spaces in a string count", calls, R"([{"at":"a"},{"at":"a)", "\"", " ab" },
        { "a beginning of a string", calls, R"([{"at":"ab"},{"at":"a)", "b", "a\"" },
        { "a string with this beginning", calls, R"([{"at":"a"},{"at":"ab)", "", "\"" },
        { "digits", calls, R"([{"n":1},{"n":1)", "}", "0123456789" },
        { "a space leaves no way", calls, R"([{"n":12},{"n":1)", "2", "}013456789" },
        { "more digits", calls, R"([{"n":12},{"n":1},{"n":1)", "2} ", "013456789" },
        { "the list ends", calls, R"([{"stop"},{"n":1}]$)", "", "$" },
        { "tags", tags, "<c>fa\n</c>\n<c>fa\n<", "/", "p" },
        { "white space outside of JSON", tags, "<c>fa\n</c>\n<c>f", "", "ab " },
        { "tags with this beginning", tags, "<c>fa\n<p>a</p></c>\n<c>fa\n<p>a</p><", "/", "p" },
        { "the rest of an enumeration", fence, "`(a)\n(", "a", "b" },
        { "only the fence is left", fence, "`(a)\n(b)\n", "(", "`" },
        { "robots that are called once", robots, "[{a:r},{a:", "r", "s" },
        { "the same for another robot", robots, "[{a:s},{", "", "ab" },
    };
    const auto vocab = vocab_of({});
    for (const auto & t : table) {
        matcher           m   = make(t.gbnf, vocab);
        const std::string got = admitted(m, t.text);
        CHECK(got == t.text, "%s: %s ends after %s", t.what, t.text, got.c_str());
        for (const char c : std::string(t.refused)) {
            CHECK(!m.admits(static_cast<uint8_t>(c)), "%s: %c follows %s", t.what, c, t.text);
        }
        for (const char c : std::string(t.next)) {
            CHECK(m.admits(c == '$' ? end_token : static_cast<uint8_t>(c)), "%s: %c does not follow %s", t.what, c,
                  t.text);
        }
    }
}

void exhausted_units_end_the_list() {
    const auto vocab = vocab_of({ "},{", "},", "}]" });
    matcher    m     = make(R"~(root ::= "[" call (NEXT "," call){0,9} "]"
call ::= BEGIN "{" "a"? END "}")~",
                            vocab);
    CHECK(admitted(m, "[{") == "[{", "the first call");
    CHECK(m.admits(257) && m.admits(258) && m.admits(259), "one call is left");
    CHECK(admitted(m, "},{") == "},{", "the second call");
    CHECK(!m.admits('}') && m.admits('a'), "the same call");
    CHECK(m.accept('a') && !m.admits(257) && !m.admits(258) && m.admits(259), "no call is left");
    token_set set;
    m.admitted(set);
    CHECK(!set.has(257) && !set.has(258) && set.has(259), "a set without a further call");
    CHECK(m.accept('}') && !m.admits(',') && m.accept(']'), "the list ends");
}

// A text goes on where only a repetition is left: the grammar demands it.
void grammar_that_demands_repetition_is_followed() {
    matcher m = make(R"~(root ::= call NEXT "," call
call ::= BEGIN "(" END ")")~",
                     vocab_of({}));
    CHECK(admitted(m, "(),()$") == "(),()$", "the only text");
}

// Units with a token that the grammar names are not compared.
void named_tokens_are_another_way() {
    matcher m = make(R"~(root ::= call (NEXT "," call){0,3}
call ::= BEGIN "(" ("a" | <[257]>) END ")")~",
                     vocab_of({ "x" }));
    CHECK(admitted(m, "(a),(") == "(a),(", "a call");
    CHECK(!m.admits('a') && m.accept(257) && admitted(m, "),(") == "),(" && m.accept(257), "tokens by name");
}

void copies_know_the_units() {
    matcher m = make(calls, vocab_of({}));
    admitted(m, R"([{"on":true},{"n)");
    matcher copy(m);
    CHECK(admitted(copy, R"(":5},{"n":5)") == R"(":5},{"n":5)" && !copy.admits('}'), "a copy inside of a unit");
    CHECK(admitted(m, R"(":6},{"n":5})") == R"(":6},{"n":5})", "the original");
    matcher second(m);
    CHECK(admitted(second, R"(,{"on":)") == R"(,{"on":)" && !second.admits('t'), "a copy between units");
}

// The text is forced as far as it is the only way, and never into a repetition.
void forced_text_is_no_repetition() {
    const char * const gbnf = R"~(root ::= "[" call (NEXT "," call){0,3} "]"
call ::= BEGIN "{\"go_to\":\"" ("north" | "south") END "\"}")~";
    matcher            m    = make(gbnf, vocab_of({}));
    CHECK(m.must_follow(100).text == "[{\"go_to\":\"", "%s", m.must_follow(100).text.c_str());
    admitted(m, "[{\"go_to\":\"north\"},");
    CHECK(m.must_follow(100).text == "{\"go_to\":\"", "%s", m.must_follow(100).text.c_str());
    admitted(m, "{\"go_to\":\"");
    CHECK(!m.admits('n') && m.admits('s') && m.must_follow(100).text.empty(), "a choice between one");
    admitted(m, "south\"}");
    CHECK(!m.admits(',') && m.must_follow(100).text.empty(), "the end");
}

// Inside of a unit like no other, the same place admits the same tokens.
void place_stays_in_long_strings() {
    matcher m = make(R"~(root ::= call (NEXT "," call)*
call ::= BEGIN "(" [a-z]* END ")")~",
                     vocab_of({}));
    admitted(m, "(abc),(ab");
    const auto same = m.here();
    admitted(m, "c");
    CHECK(m.here() != same, "a unit like an earlier one");
    admitted(m, "d");
    const auto new_one = m.here();
    admitted(m, "efg");
    CHECK(m.here() == new_one, "a unit like no other");
}

void misplaced_marks_are_refused() {
    for (const char * gbnf :
         { "root ::= BEGIN", "root ::= BEGIN [ab] END \"c\"", "root ::= NEXT root2\nroot2 ::= \"a\"",
           "root ::= \"a\" END \"é\"", "root ::= BEGIN NEXT \"a\"" }) {
        bool refused = false;
        try {
            make(gbnf, vocab_of({}));
        } catch (const std::exception & e) {
            refused = std::string(e.what()).find("mark of a unit") != std::string::npos;
        }
        CHECK(refused, "%s", gbnf);
    }
}

// --- random texts ----------------------------------------------------------------

// A part of a grammar, with all its texts.
struct part {
    std::string gbnf;
    list        texts;
};

part literal(const std::string & text) {
    std::string quoted;
    for (const char c : text) {
        quoted += c == '"' ? std::string("\\\"") : c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return { "\"" + quoted + "\"", { text } };
}

part both(const part & a, const part & b) {
    part p = { a.gbnf + " " + b.gbnf, {} };
    for (const auto & x : a.texts) {
        for (const auto & y : b.texts) {
            p.texts.push_back(x + y);
        }
    }
    return p;
}

part one_of(const std::vector<part> & parts) {
    part p;
    for (const auto & x : parts) {
        p.gbnf += (p.gbnf.empty() ? "( " : " | ") + x.gbnf;
        p.texts.insert(p.texts.end(), x.texts.begin(), x.texts.end());
    }
    p.gbnf += " )";
    return p;
}

part maybe(const part & a) {
    part p = { "( " + a.gbnf + " )?", a.texts };
    p.texts.push_back("");
    return p;
}

part characters(rng & r, const list & chars) {
    part       p    = { "[", {} };
    const auto most = 1 + below(r, 2), least = below(r, 2);
    list       last = { "" };
    for (const auto & c : chars) {
        p.gbnf += c;
    }
    p.gbnf += "]{" + std::to_string(least) + "," + std::to_string(most) + "}";
    for (size_t n = 0; n <= most; n++) {
        if (n >= least) {
            p.texts.insert(p.texts.end(), last.begin(), last.end());
        }
        list longer;
        for (const auto & x : last) {
            for (const auto & c : chars) {
                longer.push_back(x + c);
            }
        }
        last = longer;
    }
    return p;
}

part words(rng & r) {
    std::vector<part> some;
    for (size_t n = 1 + below(r, 3); n > 0; n--) {
        some.push_back(literal(pick(r, { "a", "ab", "b", "é", "è", "日", "日本", "true", "tr", "1", "12", " " })));
    }
    return one_of(some);
}

struct language {
    part        unit; // up to the mark of its end
    std::string end, close;
    list        separators;
    size_t      most;
    bool        json;
    std::string gbnf;

    std::string compared(const std::string & unit) const {
        std::string out;
        bool        quoted = false;
        for (const char c : unit) {
            quoted = quoted != (c == '"');
            if (!json || quoted || c != ' ') {
                out += c;
            }
        }
        return out;
    }
};

language draw(rng & r) {
    language l;
    l.json = below(r, 2) == 0;
    if (l.json) {
        const part space = below(r, 2) == 0 ? maybe(literal(" ")) : literal(pick(r, { "", " " }));
        const auto value = [&] {
            const part quotes = literal("\"");
            switch (below(r, 4)) {
                case 0: return one_of({ literal("true"), literal("false") });
                case 1: return characters(r, { "1", "2" });
                case 2: return both(both(quotes, words(r)), quotes);
                default: return both(both(quotes, characters(r, { "a", " " })), quotes);
            }
        };
        l.unit = both(both(literal("\"a\":"), space), value());
        if (below(r, 2) == 0) {
            l.unit = both(l.unit, maybe(both(both(literal(","), space), value())));
        }
        if (below(r, 3) == 0) {
            l.unit = one_of({ l.unit, literal("\"stop\"") });
        }
        l.unit = both(both(both(literal("{"), space), l.unit), space);
        l.end  = "}" + pick(r, { "", "\n</c>" });
    } else {
        l.unit = literal(pick(r, { "(", "(f" }));
        for (size_t n = 1 + below(r, 2); n > 0; n--) {
            const part next = below(r, 2) == 0 ? words(r) : characters(r, { "a", "é" });
            l.unit          = both(l.unit, below(r, 3) == 0 ? maybe(next) : next);
        }
        l.end = ";" + pick(r, { "", ")" });
    }
    const bool next      = below(r, 4) > 0; // else where a unit begins decides
    const part separator = next && below(r, 2) == 0 ? both(literal(","), maybe(literal(" ")))
                                                    : literal(pick(r, { ",", ",," }));
    l.separators         = separator.texts;
    l.close              = next ? pick(r, { "", "]" }) : separator.texts[0] + "]";
    l.most               = 1 + below(r, 4);
    l.gbnf = "root ::= call (" + std::string(next ? " NEXT " : "") + separator.gbnf + " call){0," +
             std::to_string(l.most - 1) + "} " + (l.close.empty() ? "" : literal(l.close).gbnf) + "\ncall ::= BEGIN " +
             l.unit.gbnf + " END " + literal(l.end).gbnf;
    return l;
}

struct oracle {
    const language & l;

    // Whether a text begins a text without repetitions, or is one as a whole. used are its units so far.
    bool unit(const std::string & text, bool whole, std::set<std::string> used) const {
        for (const auto & u : l.unit.texts) {
            const std::string call = u + l.end;
            if (used.count(l.compared(u)) > 0) {
                continue;
            }
            if (!whole && begins(call, text)) {
                return true;
            }
            if (begins(text, call)) {
                auto more = used;
                more.insert(l.compared(u));
                if (after(text.substr(call.size()), whole, more)) {
                    return true;
                }
            }
        }
        return false;
    }

    bool after(const std::string & text, bool whole, const std::set<std::string> & used) const {
        if (whole ? text == l.close : begins(l.close, text)) {
            return true;
        }
        const bool left = std::any_of(l.unit.texts.begin(), l.unit.texts.end(),
                                      [&](const auto & u) { return used.count(l.compared(u)) == 0; });
        return left && used.size() < l.most &&
               std::any_of(
                   l.separators.begin(), l.separators.end(),
                   [&](const auto & s) {
                       return (!whole && begins(s, text)) ||
                              (begins(text, s) && unit(text.substr(s.size()), whole, used));
                   });
    }
};

// Tokens that are parts of texts, with repetitions.
list tokens_of(rng & r, const language & l) {
    list out;
    for (int i = 0; i < 40; i++) {
        std::string text;
        for (int n = 0; n < 3; n++) {
            text += pick(r, l.unit.texts) + l.end + (n < 2 ? pick(r, l.separators) : l.close);
        }
        const size_t from = below(r, text.size());
        out.push_back(text.substr(from, 2 + below(r, below(r, 3) > 0 ? 6 : 20)));
    }
    return out;
}

// Writes a text and returns how many tokens were refused that the automaton alone admits.
int write(const language & l, rng & r) {
    const auto   vocab = vocab_of(tokens_of(r, l));
    const auto   count = static_cast<llama_token>(vocab->is_eog.size());
    const oracle o     = { l };
    matcher      m = make(l.gbnf, vocab), plain = make(l.gbnf, vocab, /*marks=*/false);
    std::string  text;
    int          refused = 0;
    std::vector<std::pair<matcher::place, std::vector<llama_token>>> seen;
    for (int steps = 0; steps < 60; steps++) {
        std::vector<llama_token> next, listed;
        token_set                set;
        matcher                  copy(m);
        m.admitted(set);
        for (llama_token t = 0; t < count; t++) {
            const auto piece = std::string(vocab->piece(t));
            const bool fits  = plain.admits(t); // the grammar without marks, which grammar_test compares
            const bool want  = fits && (t == end_token ? o.unit(text, true, {}) : o.unit(text + piece, false, {}));
            const bool got[] = { m.admits(t), set.has(t), copy.admits(t) };
            CHECK(got[0] == want && got[1] == want && got[2] == want, "%s\nafter %s: %s: %d %d %d, want %d",
                  l.gbnf.c_str(), text.c_str(), piece.c_str(), got[0], got[1], got[2], want);
            if (want) {
                next.push_back(t);
            }
            refused += fits && !want;
        }
        CHECK(m.admitted(listed, static_cast<size_t>(count)), "the list was cut");
        std::sort(listed.begin(), listed.end());
        CHECK(listed == next, "%s\nafter %s: %zu tokens are listed, want %zu", l.gbnf.c_str(), text.c_str(),
              listed.size(), next.size());
        seen.emplace_back(m.here(), next);
        const auto same = std::find_if(seen.begin(), seen.end(), [&](const auto & p) { return p.first == m.here(); });
        CHECK(same->second == next, "%s\nafter %s: the place is that of other tokens", l.gbnf.c_str(), text.c_str());
        const auto forced = m.must_follow(100).text;
        CHECK(o.unit(text + forced, false, {}), "%s\nafter %s: %s is forced", l.gbnf.c_str(), text.c_str(),
              forced.c_str());
        CHECK(!next.empty(), "%s\nafter %s: nothing may follow", l.gbnf.c_str(), text.c_str());
        if (next.empty() || testing::failures > 20) {
            return refused;
        }
        // A long token more often than its share: it may span boundaries.
        llama_token t = next[below(r, next.size())];
        t             = below(r, 2) == 0 ? std::max(t, next.back()) : t;
        for (llama_token u = 0; u < count; u++) {
            if (!std::binary_search(next.begin(), next.end(), u)) {
                CHECK(!m.accept(u), "a refused token is accepted");
            }
        }
        CHECK(m.accept(t), "an admitted token is not accepted");
        if (t == end_token) {
            return refused;
        }
        plain.accept(t);
        text += vocab->piece(t);
    }
    return refused;
}

} // namespace

int main() {
    texts_without_repetition();
    exhausted_units_end_the_list();
    grammar_that_demands_repetition_is_followed();
    named_tokens_are_another_way();
    copies_know_the_units();
    forced_text_is_no_repetition();
    place_stays_in_long_strings();
    misplaced_marks_are_refused();
    rng r(1);
    int refused = 0;
    for (int i = 0; i < texts; i++) {
        const language l = draw(r);
        if (l.unit.texts.size() <= 200) {
            refused += write(l, r);
        }
    }
    CHECK(refused > texts, "only %d tokens began a repetition: the test shows little", refused);
    return testing::result();
}
