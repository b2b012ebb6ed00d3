// Compares the matcher with a recognizer that tries every way to read a text, on small grammars and a small
// vocabulary. The recognizer works on whole texts and knows nothing of tokens, sets or caches.
#include "grammar/matcher.h"
#include "testing/check.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>

using namespace agd;

namespace {

const char * const grammars[] = {
    R"(root ::= "ab" | "abc" | "b")",
    R"(root ::= "a"* "b"?)",
    R"(root ::= [a-c]{2,4} "." )",
    R"(root ::= ([a-z]{0,3}){0,3} "!")",
    R"~(root ::= item ("," item)*
       item ::= "(" root ")" | [0-9]+)~",
    R"(root ::= "{" pair ("," pair)* "}"
       pair ::= key ":" value
       key ::= "a" | "ab"
       value ::= [0-9] | "{" pair "}")",
    R"(root ::= [^ab]* "a")",
    R"(root ::= "日本" | "é" [é日]*)",
    R"(root ::= . . "b" | "😀")",
    R"(root ::= maybe "c"
       maybe ::= | "a" maybe | "b")",
};

// Single characters, words, and parts of characters of several bytes.
const std::vector<token_text> vocabulary() {
    std::vector<token_text> list;
    for (const char *
             text : { "a",        "b",    "c",        "z",    "0",    "7",        ",",        ".",   ":",
                      "!",        "(",    ")",        "{",    "}",    "ab",       "abc",      "bc",  "a,",
                      "(0",       "00",   "{a:",      "日",   "本",   "日本",     "é",        "😀",  "\xE6",
                      "\xE6\x97", "\xA5", "\x97\xA5", "\xC3", "\xA9", "\xF0\x9F", "\x98\x80", "a日", "é\xE6" }) {
        list.push_back({ text });
    }
    list.push_back({ "<end>", /*eog=*/true, /*special=*/true });
    list.push_back({ "" });
    return list;
}

// The characters that texts of the vocabulary can hold, and one that they can't.
const std::u32string alphabet = [] {
    std::u32string list = U"abcz07,.:!(){}日本é😀x";
    // All characters that parts of others can be put together to.
    const char32_t tails[] = { 0x80, 0x97, 0x98, 0xA5, 0xA9 };
    for (const char32_t a : tails) {
        list += 0xC0 | (a & 0x3F);
        for (const char32_t b : tails) {
            list += 0x6000 | (a & 0x3F) << 6 | (b & 0x3F);
            list += 0x1F000 | (a & 0x3F) << 6 | (b & 0x3F);
        }
    }
    return list;
}();

std::string utf8(char32_t c) {
    std::string s;
    if (c < 0x80) {
        s += char(c);
    } else if (c < 0x800) {
        s += { char(0xC0 | c >> 6), char(0x80 | (c & 0x3F)) };
    } else if (c < 0x10000) {
        s += { char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F)) };
    } else {
        s += { char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)),
               char(0x80 | (c & 0x3F)) };
    }
    return s;
}

// The recognizer. A way to go on is a list of places in the grammar, the next one last.
class recognizer {
    const grammar_rules & g;

    uint32_t type(uint32_t e) const { return g.elements[e].type; }
    bool     at_end(uint32_t e) const { return type(e) == LLAMA_GRETYPE_END || type(e) == LLAMA_GRETYPE_ALT; }

    // Whether the terminal at e takes c; e moves after it.
    bool takes(uint32_t & e, char32_t c) const {
        if (type(e) == LLAMA_GRETYPE_CHAR_ANY) {
            e++;
            return true;
        }
        const bool inverse = type(e) == LLAMA_GRETYPE_CHAR_NOT;
        bool       found   = false;
        do {
            const uint32_t low   = g.elements[e++].value;
            const bool     range = type(e) == LLAMA_GRETYPE_CHAR_RNG_UPPER;
            const uint32_t high  = range ? g.elements[e++].value : low;
            found                = found || (low <= c && c <= high);
        } while (type(e) == LLAMA_GRETYPE_CHAR_ALT);
        return found != inverse;
    }

    bool read(std::vector<uint32_t> places, std::u32string_view text, bool whole) const {
        while (!places.empty() && at_end(places.back())) {
            places.pop_back();
        }
        if (text.empty() && !whole) {
            return true; // each rule of these grammars can be completed
        }
        if (places.empty()) {
            return text.empty();
        }
        const uint32_t at = places.back();
        if (type(at) == LLAMA_GRETYPE_RULE_REF) {
            places.back()++;
            for (uint32_t e = g.starts[g.elements[at].value];; e++) {
                places.push_back(e);
                if (read(places, text, whole)) {
                    return true;
                }
                places.pop_back();
                while (!at_end(e)) {
                    e++;
                }
                if (type(e) != LLAMA_GRETYPE_ALT) {
                    return false;
                }
            }
        }
        return !text.empty() && takes(places.back(), text[0]) && read(places, text.substr(1), whole);
    }

    bool any(std::u32string_view text, bool whole) const {
        for (uint32_t e = g.starts[g.root];; e++) {
            if (read({ e }, text, whole)) {
                return true;
            }
            while (!at_end(e)) {
                e++;
            }
            if (type(e) != LLAMA_GRETYPE_ALT) {
                return false;
            }
        }
    }

  public:
    explicit recognizer(const grammar_rules & g) : g(g) {}

    bool complete(const std::u32string & text) const { return any(text, true); }

    // Whether bytes are the beginning of some text. What is left of a character is tried with the whole alphabet.
    bool begins(std::string bytes) const {
        std::u32string text;
        while (!bytes.empty()) {
            bool found = false;
            for (const char32_t c : alphabet) {
                const std::string s = utf8(c);
                if (bytes.compare(0, s.size(), s) == 0) {
                    text += c;
                    bytes.erase(0, s.size());
                    found = true;
                    break;
                }
                if (s.compare(0, bytes.size(), bytes) == 0) {
                    if (any(text + c, false)) {
                        return true;
                    }
                }
            }
            if (!found) {
                return false; // broken, or no character that begins so fits
            }
        }
        return any(text, false);
    }

    std::optional<std::u32string> decode(std::string bytes) const {
        std::u32string text;
        while (!bytes.empty()) {
            const auto c = std::find_if(alphabet.begin(), alphabet.end(),
                                        [&](char32_t c) { return bytes.compare(0, utf8(c).size(), utf8(c)) == 0; });
            if (c == alphabet.end()) {
                return std::nullopt;
            }
            text += *c;
            bytes.erase(0, utf8(*c).size());
        }
        return text;
    }
};

void walk(const char * gbnf, unsigned seed) {
    std::vector<llama_token> named;
    const auto               rules  = parse_grammar(nullptr, gbnf, &named);
    const auto               tokens = vocabulary();
    const auto               vocab  = std::make_shared<const vocab_index>(tokens);
    const recognizer         oracle(*rules);
    matcher                  m(rules, vocab);
    std::mt19937             r(seed);
    std::string              text;
    for (int steps = 0; steps < 7; steps++) {
        std::vector<llama_token> next;
        for (llama_token t = 0; t < static_cast<llama_token>(tokens.size()); t++) {
            bool want = false;
            if (tokens[t].eog) {
                const auto whole = oracle.decode(text);
                want             = whole && oracle.complete(*whole);
            } else if (!tokens[t].text.empty()) {
                want = oracle.begins(text + tokens[t].text);
            }
            CHECK(m.admits(t) == want, "%s\nafter \"%s\": token \"%s\" is %s", gbnf, text.c_str(),
                  tokens[t].text.c_str(), want ? "rejected" : "admitted");
            if (want) {
                next.push_back(t);
            }
        }
        std::vector<llama_token> listed;
        CHECK(m.admitted(listed, tokens.size()), "%s: the list was cut", gbnf);
        std::sort(listed.begin(), listed.end());
        CHECK(listed == next, "%s\nafter \"%s\": %zu tokens are listed, want %zu", gbnf, text.c_str(), listed.size(),
              next.size());
        const auto forced = m.must_follow(100);
        for (size_t n = 0; n < forced.text.size(); n++) {
            CHECK(oracle.begins(text + forced.text.substr(0, n + 1)), "%s\nafter \"%s\": \"%s\" is forced", gbnf,
                  text.c_str(), forced.text.c_str());
        }
        if (!forced.text.empty()) {
            const size_t first = std::max<size_t>(1, forced.path.size() - 1);
            for (const char32_t c : alphabet) {
                CHECK(forced.text.compare(0, utf8(c).size(), utf8(c)) == 0 || !oracle.begins(text + utf8(c)) ||
                          first == 0,
                      "%s\nafter \"%s\": \"%s\" is not the only way", gbnf, text.c_str(), forced.text.c_str());
            }
        }
        if (next.empty()) {
            return;
        }
        const llama_token t = next[r() % next.size()];
        const matcher     copy(m);
        CHECK(m.accept(t), "%s: an admitted token is not accepted", gbnf);
        if (tokens[t].eog) {
            return;
        }
        text += tokens[t].text;
        for (llama_token u = 0; u < static_cast<llama_token>(tokens.size()); u++) {
            if (!m.admits(u)) {
                CHECK(!m.accept(u), "%s: a rejected token is accepted", gbnf);
                break;
            }
        }
    }
}

// A pattern that backtracking takes hours for.
void ambiguity_stays_cheap() {
    std::vector<llama_token> named;
    const auto               vocab = std::make_shared<const vocab_index>(vocabulary());
    matcher                  m(parse_grammar(nullptr, R"(root ::= ([a-z]{0,30}){0,30} "!")", &named), vocab);
    for (int i = 0; i < 200; i++) {
        CHECK(m.accept(0), "token %d", i);
    }
    CHECK(m.accept(9), "the end");
}

void wrong_grammars_are_refused() {
    for (const char * gbnf :
         { "root ::= root \"a\"", "root ::= missing", "other ::= \"a\"", "", "root ::= \"a", "root ::= <|token|>" }) {
        std::vector<llama_token> named;
        bool                     refused = false;
        try {
            parse_grammar(nullptr, gbnf, &named);
        } catch (const std::exception &) {
            refused = true;
        }
        CHECK(refused, "%s", gbnf);
    }
}

} // namespace

int main() {
    for (const char * gbnf : grammars) {
        for (unsigned seed = 0; seed < 30; seed++) {
            walk(gbnf, seed);
        }
    }
    ambiguity_stays_cheap();
    wrong_grammars_are_refused();
    return testing::result();
}
