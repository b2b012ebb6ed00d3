// Grammar analysis.
#pragma once

#include <memory>
#include <vector>

#include "llama.h"

namespace agd {

struct grammar_rules;

// Parses a GBNF text with llama.cpp's parser and checks that it can be matched at a bounded cost. Throws
// std::runtime_error with the reason. named receives the tokens that the grammar names, as in <[123]>. Without a
// vocabulary the grammar may name none by text.
std::shared_ptr<const grammar_rules> parse_grammar(const llama_vocab * vocab, const char * gbnf,
                                                   std::vector<llama_token> * named);

} // namespace agd
