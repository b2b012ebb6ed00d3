// Breaks what agentd relies on in llama.cpp, one thing at a time, and expects the refusal. What needs a model is
// in assumptions_test.go of package llama.
#include "api.h"
#include "assumptions.h"
#include "attention/attention.h"
#include "grammar/matcher.h"
#include "testing/check.h"

#include <cstdlib>
#include <cstring>
#include <string>

using namespace agd;

namespace {

std::string attention_error() {
    char * err = nullptr;
    if (agd_attention_check(&err)) {
        return "";
    }
    const std::string text = err;
    std::free(err);
    return text;
}

void expect(assumption::kind kind, const char * want) {
    agd_break_assumption(kind);
    const std::string got = attention_error();
    agd_break_assumption(assumption::none);
    CHECK(got.find(want) != std::string::npos, "assumption %d: \"%s\" does not say \"%s\"", kind, got.c_str(), want);
    CHECK(got.find("; ") != std::string::npos, "assumption %d: \"%s\" does not say what to do", kind, got.c_str());
}

void attention_is_checked() {
    if (!agd_attention(true)) {
        std::printf("this machine has no shared attention\n");
        return;
    }
    CHECK(attention_error().empty(), "%s", attention_error().c_str());
    if (agentd_set_graph_hooks != nullptr) {
        expect(assumption::mask_layout, "another layout");
    }
    agd_break_assumption(assumption::mask_layout);
    agd_attention(false);
    CHECK(attention_error().empty(), "without shared attention nothing is checked");
    agd_break_assumption(assumption::none);
}

void grammar_elements_are_checked() {
    agd_break_assumption(assumption::grammar_element);
    std::vector<llama_token> named;
    std::string              got;
    try {
        parse_grammar(nullptr, "root ::= [a-z]", &named);
    } catch (const std::exception & e) {
        got = e.what();
    }
    agd_break_assumption(assumption::none);
    CHECK(got.find("grammar element of type 3") != std::string::npos, "\"%s\"", got.c_str());
}

} // namespace

int main() {
    attention_is_checked();
    grammar_elements_are_checked();
    return testing::result();
}
