#pragma once

#include <vector>

#include "llama.h"

namespace agd {

// Parses a GBNF text and checks that llama.cpp can run it without recursing,
// looping or growing without bound. Throws std::runtime_error with the reason;
// returns the tokens that the grammar names itself, as in <[123]>.
std::vector<llama_token> check_grammar(const llama_vocab * vocab, const char * gbnf);

} // namespace agd
