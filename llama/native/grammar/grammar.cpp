// Grammar analysis.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "llama-grammar.h"
#include "grammar/matcher.h"

namespace {

// Ways to reach a first terminal from one rule. Each becomes a stack of the matcher's first set.
constexpr uint64_t max_leftmost_paths = 10000;

const char * skip_space(const char * pos) {
    while (*pos == ' ' || *pos == '\t' || *pos == '\r' || *pos == '\n' || *pos == '#') {
        if (*pos == '#') {
            while (*pos != '\0' && *pos != '\r' && *pos != '\n') {
                pos++;
            }
        } else {
            pos++;
        }
    }
    return pos;
}

bool ends(const llama_grammar_element & e) {
    return e.type == LLAMA_GRETYPE_END || e.type == LLAMA_GRETYPE_ALT;
}

class analysis {
  public:
    explicit analysis(const llama_grammar_parser & p) : parser(p), rules(p.rules) {}

    void run() {
        check_references();
        find_nullable();
        check_left_recursion();
    }

    std::vector<llama_token> named_tokens() const {
        std::vector<llama_token> out;
        for (const auto & rule : rules) {
            for (const auto & e : rule) {
                if (e.type == LLAMA_GRETYPE_TOKEN && !agd::is_mark(e)) {
                    out.push_back(static_cast<llama_token>(e.value));
                }
            }
        }
        return out;
    }

  private:
    std::string name(size_t rule) const {
        for (const auto & [text, id] : parser.symbol_ids) {
            if (id == rule) {
                return text;
            }
        }
        return "#" + std::to_string(rule);
    }

    void check_references() const {
        for (size_t r = 0; r < parser.symbol_ids.size(); r++) {
            if (r >= rules.size() || rules[r].empty()) {
                throw std::runtime_error("rule \"" + name(r) + "\" is used but not defined");
            }
        }
        if (parser.symbol_ids.find("root") == parser.symbol_ids.end()) {
            throw std::runtime_error("there is no rule \"root\"");
        }
    }

    // Fixpoint: a rule is nullable if one of its alternatives has only nullable
    // references. (llama.cpp sees only alternatives that are literally empty.)
    void find_nullable() {
        nullable.assign(rules.size(), false);
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t r = 0; r < rules.size(); r++) {
                if (nullable[r]) {
                    continue;
                }
                bool all = true;
                for (const auto & e : rules[r]) {
                    if (!ends(e)) {
                        all = all && (agd::is_mark(e) || (e.type == LLAMA_GRETYPE_RULE_REF && nullable[e.value]));
                        continue;
                    }
                    if (all) {
                        nullable[r] = changed = true;
                        break;
                    }
                    all = true;
                }
            }
        }
    }

    struct start {
        std::vector<uint32_t> rules;     // that a rule may begin with
        uint64_t              terminals; // and the number of its other beginnings
    };

    start leftmost(size_t r) const {
        start out      = {};
        bool  at_start = true;
        for (const auto & e : rules[r]) {
            if (ends(e)) {
                out.terminals += at_start; // an empty alternative
                at_start = true;
            } else if (at_start && e.type == LLAMA_GRETYPE_RULE_REF) {
                out.rules.push_back(e.value);
                at_start = nullable[e.value];
            } else if (!agd::is_mark(e)) { // which no text stands for
                out.terminals += at_start;
                at_start = false;
            }
        }
        return out;
    }

    // Depth first without recursion: a cycle is left recursion; on the way back
    // the leftmost paths are summed.
    void check_left_recursion() const {
        enum : uint8_t { unseen, open, done };
        struct frame {
            size_t   rule;
            start    first;
            size_t   at;
            uint64_t paths;
        };
        const auto open_frame = [this](size_t rule) {
            frame f = { rule, leftmost(rule), 0, 0 };
            f.paths = f.first.terminals;
            return f;
        };
        std::vector<uint8_t>  state(rules.size(), unseen);
        std::vector<uint64_t> paths(rules.size(), 0);
        for (size_t from = 0; from < rules.size(); from++) {
            if (state[from] != unseen) {
                continue;
            }
            std::vector<frame> stack;
            stack.push_back(open_frame(from));
            state[from] = open;
            while (!stack.empty()) {
                frame & f = stack.back();
                if (f.paths > max_leftmost_paths) {
                    throw std::runtime_error("rule \"" + name(f.rule) + "\" can begin in more than " +
                                             std::to_string(max_leftmost_paths) + " ways");
                }
                if (f.at == f.first.rules.size()) {
                    paths[f.rule] = f.paths;
                    state[f.rule] = done;
                    stack.pop_back();
                    continue;
                }
                const uint32_t ref = f.first.rules[f.at];
                if (state[ref] == open) {
                    throw std::runtime_error("rule \"" + name(ref) + "\" is left recursive");
                }
                if (state[ref] == unseen) {
                    state[ref] = open;
                    stack.push_back(open_frame(ref)); // f is gone; seen again when ref is done
                    continue;
                }
                f.paths += paths[ref];
                f.at++;
            }
        }
    }

    const llama_grammar_parser & parser;
    const llama_grammar_rules &  rules;
    std::vector<bool>            nullable;
};

} // namespace

namespace agd {

std::shared_ptr<const grammar_rules> parse_grammar(const llama_vocab * vocab, const char * gbnf,
                                                   std::vector<llama_token> * named) {
    // llama_grammar_parser::parse prints its errors to stderr; its parts throw them
    llama_grammar_parser parser(vocab);
    for (const char * pos = skip_space(gbnf); *pos != '\0';) {
        pos = skip_space(parser.parse_rule(pos));
    }
    if (parser.rules.empty()) {
        throw std::runtime_error("it has no rules");
    }
    analysis a(parser);
    a.run();
    *named = a.named_tokens();
    for (llama_token t : *named) {
        if (vocab != nullptr && (t < 0 || t >= llama_vocab_n_tokens(vocab))) {
            throw std::runtime_error("token <[" + std::to_string(t) + "]> is not in the vocabulary");
        }
    }
    return std::make_shared<const grammar_rules>(parser.rules, parser.symbol_ids.at("root"));
}

} // namespace agd
