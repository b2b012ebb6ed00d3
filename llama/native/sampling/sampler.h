// Sampling under a grammar: the state of a sampler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "grammar/matcher.h"
#include "sampling/chooser.h"

struct agd_sampler : agd::chooser {
    const llama_vocab *           vocab = nullptr;
    std::unique_ptr<agd::matcher> grammar; // null: unconstrained
    std::vector<llama_token>      recent;  // the last tokens of the text
    bool                          dead = false;
    std::string                   detail;
    agd_score                     score = {}; // of the last token, with the option
    std::vector<agd_child>        top;         // the most probable tokens of the row of the last one, best first
    std::vector<llama_token>      mask; // with the option: what the last token was drawn from, ascending
    bool                          mask_known = false;
    std::vector<agd_child>        children;          // result of list_children
    double                        children_rest = 0; // share of the odds that children lacks, at most

    // Adds a token to the text.
    void append(llama_token token);
    // Chooses the next token and adds it to the text. Returns it or AGD_SAMPLE_*.
    llama_token sample(const float * logits);
    // Appends the tokens that the grammar forces, at most max, to the text and to out. end is the token that must
    // end the text then, or -1. A grammar that needs too much work for this forces nothing.
    size_t force(llama_token * out, size_t max, llama_token & end);
    // Fills children with what sample draws from, and its odds. With temperature_only() so much may be missing.
    llama_token list_children(const float * logits, double share);
    // Takes over the admitted tokens that a sampler in the same place has found.
    void share_admitted(const agd_sampler & from) {
        if (from.set_known()) {
            admitted_set = from.admitted_set;
            set_of       = grammar->here();
        }
    }

    // Runs f with the grammar. A grammar that fails is freed and not used again.
    template <typename F> llama_token guard(F f) {
        if (dead) {
            return AGD_SAMPLE_DEAD;
        }
        try {
            return f();
        } catch (const agd::too_ambiguous & e) {
            detail = e.what();
            dead   = true;
            grammar.reset();
            return AGD_SAMPLE_AMBIGUOUS;
        } catch (...) {
            dead = true;
            grammar.reset();
            throw;
        }
    }

  private:
    std::vector<llama_token> admitted; // scratch
    agd::token_set           admitted_set;
    agd::matcher::place      set_of; // where the grammar admits admitted_set
    // For a score, without temperature_only(): what the free choice was drawn from, and how much of it the grammar
    // rejects.
    std::vector<llama_token_data> free_pool;
    double                        free_sum = 0, rejected_share = 0;

    // Inside a string each token may leave the grammar where it was.
    bool set_known() const { return set_of == grammar->here(); }

    void find_admitted_set() {
        if (!set_known()) {
            grammar->admitted(admitted_set);
            set_of = grammar->here();
        }
    }

    // Whether the grammar admits a token. Without first, the work for it adds to that for the previous token.
    bool admits(llama_token token, bool first) {
        return set_known() ? admitted_set.has(token) : grammar->admits(token, first);
    }

    // Returns f(), which chooses among admitted tokens only.
    template <typename F> auto choose_admitted(F f) {
        struct restriction {
            agd_sampler & s;

            explicit restriction(agd_sampler & s) : s(s) { s.only = s.admitted_set.data(); }
            ~restriction() { s.only = nullptr; }
        };
        find_admitted_set();
        const restriction r(*this);
        return f();
    }

    // After sum_all: excludes all tokens that the grammar does not admit.
    void restrict_to_admitted(const float * logits) {
        find_admitted_set();
        if (only != admitted_set.data()) {
            restrict_to(logits, admitted_set.data());
        }
    }

    llama_token sample_admitted(const float * logits);
    llama_token sample_listed(const float * logits);
    bool        grammar_first(const float * logits);
    llama_token pick_free(const float * logits);
    llama_token pick_admitted_only(const float * logits);
    llama_token pick_admitted(const float * logits, llama_token refused);
    llama_token nothing_left(const float * logits) const;

    // scores.cpp
    bool   check_best(const float * logits, double share, size_t most);
    void   weigh_choices(const float * logits);
    double grammar_odds(const float * logits, llama_token token);
    double free_odds(const float * logits, llama_token token) const;
    void   list_mask(const float * logits);
    double listed_logprob(const float * logits, llama_token token) const;
    double add_pool(double odds);
    void   add_child(llama_token token, double odds);
    void   list_heaviest(const float * logits, double share);
};
