#pragma once

#include <memory>
#include <vector>

#include "llama.h"

namespace agd {

struct grammar_rules;

// Parses a GBNF text and checks that llama.cpp can run it without recursing,
// looping or growing without bound. Throws std::runtime_error with the reason;
// named are the tokens that the grammar names itself, as in <[123]>.
std::shared_ptr<const grammar_rules> parse_grammar(const llama_vocab * vocab, const char * gbnf, std::vector<llama_token> * named);

} // namespace agd
