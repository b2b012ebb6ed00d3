// Runs the C interface as Go does, with a real vocabulary and random logits: what a sampler writes under a grammar
// is a text of the grammar, forced tokens included. Sanitizers see the whole path.
#include "api.h"
#include "testing/check.h"

#include <cstdlib>
#include <string>
#include <vector>

namespace {

void silent(int, char *, size_t) {}

std::string piece(const llama_vocab * vocab, llama_token t) {
    char      buf[256];
    const int n = llama_token_to_piece(vocab, t, buf, sizeof buf, 0, true);
    return n > 0 ? std::string(buf, static_cast<size_t>(n)) : "";
}

// {"a": <digits>} or {"b": "<letters>"}
bool is_call(const std::string & text) {
    const bool        number = text.rfind("{\"a\": ", 0) == 0, word = text.rfind("{\"b\": \"", 0) == 0;
    const std::string end = number ? "}" : "\"}";
    if ((!number && !word) || text.size() < 6 + end.size() ||
        text.compare(text.size() - end.size(), end.size(), end) != 0) {
        return false;
    }
    const std::string value = text.substr(number ? 6 : 7, text.size() - end.size() - (number ? 6 : 7));
    return value.find_first_not_of(number ? "0123456789" : "abcdefghijklmnopqrstuvwxyz") == std::string::npos &&
           !value.empty();
}

void write_calls(const llama_vocab * vocab, agd_vocab_index * index, float temperature, int32_t top_k, unsigned seed) {
    agd_sampler_options opts{};
    opts.temperature      = temperature;
    opts.top_p            = 1;
    opts.top_k            = top_k;
    opts.seed             = seed;
    opts.suppress_control = true;
    opts.grammar        = "root ::= \"{\" (\"\\\"a\\\": \" [0-9]{1,4} | \"\\\"b\\\": \\\"\" [a-z]{1,9} \"\\\"\") \"}\"";
    char *        err   = nullptr;
    agd_sampler * first = agd_sampler_new(index, opts, &err);
    CHECK(first != nullptr, "%s", err);
    agd_sampler * s = agd_sampler_clone(first, true, seed + 1, &err);
    agd_sampler_free(first);
    std::mt19937                    r(seed);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float>              logits(static_cast<size_t>(llama_vocab_n_tokens(vocab)));
    std::string                     text;
    for (int i = 0; i < 40; i++) {
        for (float & x : logits) {
            x = normal(r);
        }
        const llama_token t = agd_sample(s, logits.data());
        CHECK(t >= 0, "token %d is %d: %s", i, t, agd_sampler_detail(s));
        if (t < 0 || llama_vocab_is_eog(vocab, t)) {
            break;
        }
        text += piece(vocab, t);
        llama_token   forced[64], end = -1;
        const int32_t n = agd_sampler_force(s, forced, 64, &end);
        for (int32_t f = 0; f < n; f++) {
            text += piece(vocab, forced[f]);
        }
        if (end >= 0) {
            break;
        }
    }
    CHECK(is_call(text), "temperature %g, top-k %d, seed %u: %s", double(temperature), top_k, seed, text.c_str());
    agd_sampler_free(s);
}

} // namespace

int main() {
    agd_log_install(silent);
    llama_backend_init();
    char * err          = nullptr;
    auto   params       = llama_model_default_params();
    params.vocab_only   = true;
    llama_model * model = agd_model_load(AGENTD_VOCAB, params, &err);
    CHECK(model != nullptr, "%s", err);
    if (model == nullptr) {
        return testing::result();
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    agd_vocab_index *   index = agd_vocab_index_new(vocab);
    for (unsigned seed = 0; seed < 12; seed++) {
        write_calls(vocab, index, 0, 0, seed);
        write_calls(vocab, index, 1, 0, seed);
        write_calls(vocab, index, 1, 40, seed);
    }
    agd_vocab_index_free(index);
    llama_model_free(model);
    return testing::result();
}
