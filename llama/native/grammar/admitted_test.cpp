// Compares sets of admitted tokens with the answer for each token alone: on random grammars, in random places, with
// random vocabularies of parts of characters, and with a real one.
#include "api.h"
#include "grammar/matcher.h"
#include "testing/check.h"

#include <string>

using namespace agd;

namespace {

using rng = std::mt19937;

size_t below(rng & r, size_t n) {
    return r() % n;
}

template <typename T, size_t N> T pick(rng & r, const T (&list)[N]) {
    return list[below(r, N)];
}

// What tools' grammars are made of: strings, bounded ones, patterns, enumerations beside strings, tagged text.
std::string grammar(rng & r) {
    const char * const classes[] = { "[a-z]",        "[^\"\\\\\\x7F\\x00-\\x1F]",
                                     "[^\"]",        ".",
                                     "[A-Za-z0-9_]", "[^<]",
                                     "[ -~]",        "[é-\\uFFFD]",
                                     "[0-9a-f]",     "[^a-c<日]",
                                     "[^\\x00]",     "[日é<a]",
                                     "[^ \\t]" };
    const char * const words[]   = { "\"a\"",   "\"ab\"",   "\"<\"", "\"</a>\"", "\"日\"",
                                     "\"the\"", "\"\\\"\"", "\" \"", "\"0\"" };
    const char * const counts[]  = { "", "*", "+", "?", "{2}", "{1,3}", "{0,9}", "{3,}", "{0,40}" };
    const auto         part      = [&] {
        std::string s;
        switch (below(r, 6)) {
            case 0: s = pick(r, words); break;
            case 1: s = std::string("(") + pick(r, words) + " | " + pick(r, classes) + ")"; break;
            case 2: s = "char"; break;
            case 3: // one mark, once
                s = std::string("(<[2147418112]> ") + pick(r, words) + " | " + pick(r, classes) + ")";
                break;
            default: s = pick(r, classes);
        }
        return s + pick(r, counts);
    };
    std::string text = "char ::= [^\"\\\\\\x7F\\x00-\\x1F] | [\\\\] ([\"\\\\bfnrt] | \"u\" [0-9a-f]{4})\n"
                       "free ::= | [^<] free | [<] tag\nt ::= [^<a] free | [<] t | \"a\" u\n"
                       "tag ::= [^</] free | [<] tag | [/] t\nu ::= [^<>] free | [<] tag | \">\"\nroot ::= ";
    for (size_t alternatives = 1 + below(r, 3), i = 0; i < alternatives; i++) {
        text += i > 0 ? " | " : "";
        for (size_t parts = 1 + below(r, 3); parts > 0; parts--) {
            text += part() + " ";
        }
        text += below(r, 4) == 0 ? "free" : below(r, 2) == 0 ? "\"\\\"\"" : "";
    }
    return text + "\n";
}

std::vector<token_text> vocabulary(rng & r) {
    const char * const parts[] = { "a",    "b",        "c",    "the",  " ",        "<",    "/",    ">",    "\"",
                                   "\\",   "n",        "u00e", "\n",   "0",        "日",   "é",    "😀",   "\xE6",
                                   "\x97", "\xE6\x97", "\xA5", "\xC3", "\xF0\x9F", "\x80", "\xFF", "\xC0", "</a>" };
    std::vector<token_text> list;
    for (int i = 0; i < 400; i++) {
        std::string text;
        for (size_t n = 1 + below(r, 6); n > 0; n--) {
            text += pick(r, parts);
        }
        list.push_back({ text, below(r, 50) == 0, false });
    }
    list.push_back({ "" });
    list.push_back({ "<end>", /*eog=*/true, /*special=*/true });
    return list;
}

// Walks through a grammar by admitted tokens. Returns how many places it has compared.
int compare(const std::string & gbnf, const std::shared_ptr<const vocab_index> & vocab, rng & r, int steps) {
    std::vector<llama_token> named;
    matcher                  m(parse_grammar(nullptr, gbnf.c_str(), &named), vocab);
    std::string              text;
    const auto               n = static_cast<llama_token>(vocab->is_eog.size());
    for (int step = 0; step < steps; step++) {
        token_set set;
        m.admitted(set);
        std::vector<llama_token> next, listed;
        for (llama_token t = 0; t < n; t++) {
            const bool want = m.admits(t);
            CHECK(set.has(t) == want, "%s\nafter \"%s\": token %d, \"%s\", is %s the set", gbnf.c_str(), text.c_str(),
                  t, std::string(vocab->piece(t)).c_str(), want ? "not in" : "in");
            if (want && !vocab->is_eog[t]) {
                next.push_back(t);
            }
        }
        CHECK(m.admitted(listed, vocab->is_eog.size()), "%s: the list was cut", gbnf.c_str());
        CHECK(listed.size() == next.size() + (m.admits(vocab->eog_tokens[0]) ? vocab->eog_tokens.size() : 0),
              "%s\nafter \"%s\": %zu tokens are listed, %zu admitted", gbnf.c_str(), text.c_str(), listed.size(),
              next.size());
        if (next.empty()) {
            return step + 1;
        }
        const llama_token t = next[below(r, next.size())];
        CHECK(m.accept(t), "%s: an admitted token is not accepted", gbnf.c_str());
        text += vocab->piece(t);
    }
    return steps;
}

void classes_are_sets() {
    rng r(3);
    for (int i = 0; i < 300; i++) {
        const auto random = [&] {
            char_class c;
            for (size_t n = below(r, 5); n > 0; n--) {
                const auto low = static_cast<uint32_t>(below(r, 40));
                c.emplace_back(low, low + static_cast<uint32_t>(below(r, 12)));
            }
            return normal(c);
        };
        const char_class a = random(), b = random();
        const auto       both = common(a, b), rest = without(a, b), others = complement(a);
        for (uint32_t c = 0; c < 60; c++) {
            const bool in_a = contains(a, c), in_b = contains(b, c);
            CHECK(contains(both, c) == (in_a && in_b), "common, %u", c);
            CHECK(contains(rest, c) == (in_a && !in_b), "without, %u", c);
            CHECK(contains(others, c) == !in_a, "complement, %u", c);
        }
    }
}

// Beyond the tables that a vocabulary keeps, sets are the same.
void many_classes_need_no_tables() {
    rng        r(4);
    const auto vocab = std::make_shared<const vocab_index>(vocabulary(r));
    for (int i = 0; i < 40; i++) {
        compare("root ::= [^\\x" + std::to_string(10 + i) + "]*", vocab, r, 2);
    }
    CHECK(vocab->classes.get(*vocab, { { 0, 200 } }) == nullptr, "a table more");
    const char_class first = { { 0, 0x0F }, { 0x11, 0xD7FF }, { 0xE000, last_char } };
    CHECK(vocab->classes.get(*vocab, first) != nullptr, "the first table is gone");
}

// Grammars that are walked through with the real vocabulary. A sanitizer takes most of a second for each.
#ifdef __SANITIZE_ADDRESS__
const int real_grammars = 8;
#else
const int real_grammars = 24;
#endif

void silent(int, char *, size_t) {}

} // namespace

int main() {
    classes_are_sets();
    many_classes_need_no_tables();
    rng r(1);
    int places = 0;
    for (int i = 0; i < 200; i++) {
        const auto vocab = std::make_shared<const vocab_index>(vocabulary(r));
        for (int g = 0; g < 5; g++) {
            places += compare(grammar(r), vocab, r, 6);
        }
    }
    CHECK(places > 2500, "%d places", places);

    agd_log_install(silent);
    llama_backend_init();
    char * err          = nullptr;
    auto   params       = llama_model_default_params();
    params.vocab_only   = true;
    llama_model * model = agd_model_load(AGENTD_VOCAB, params, &err);
    CHECK(model != nullptr, "%s", err);
    if (model != nullptr) {
        const auto vocab = std::make_shared<const vocab_index>(llama_model_get_vocab(model));
        for (int i = 0; i < real_grammars; i++) {
            compare(grammar(r), vocab, r, 3);
        }
        llama_model_free(model);
    }
    return testing::result();
}
