// Sampling under a grammar. A token is chosen from the logits first, and the grammar checks that token alone. After a
// rejection another one is chosen among the tokens that the grammar admits. Where these are few, they are listed first
// and only their logits are read.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

// Sampled tokens that forced text is tokenized with.
constexpr size_t kept_recent = 4;

// How many further tokens are drawn after a rejection before the set of admitted tokens is made. A draw and its check
// take about two microseconds, the set ten or more, and the sums of its weights thirty.
constexpr int redraws = 32;

// The most admitted tokens that are listed before anything is chosen.
constexpr size_t max_listed = 1024;

} // namespace

void agd_sampler::append(llama_token token) {
    if (++position == static_cast<uint64_t>(opts.least)) {
        suppressed = later;
    }
    attempt = 0;
    if (grammar) {
        if (recent.size() == kept_recent) {
            recent.erase(recent.begin());
        }
        recent.push_back(token);
    }
}

// Chooses under the grammar after it has rejected the free choice. Drawing until a token is admitted gives each
// admitted token the odds that it has among them. A rejected token is not drawn again, which leaves these odds alone.
llama_token agd_sampler::pick_admitted(const float * logits, llama_token refused) {
    if (!temperature_only()) {
        const llama_token token = choose_admitted([&] { return pick_free(logits); });
        return token < 0 ? AGD_SAMPLE_DEAD : token;
    }
    for (int i = 0; i < redraws && !grammar->over_budget(); i++) {
        exclude(logits, refused);
        const llama_token token = redraw(logits);
        if (token < 0) {
            return AGD_SAMPLE_DEAD;
        }
        if (admits(token, /*first=*/i == 0)) {
            return token;
        }
        refused = token;
    }
    restrict_to_admitted(logits);
    const llama_token token = redraw(logits);
    return token < 0 ? AGD_SAMPLE_DEAD : token;
}

// Lists the admitted tokens in candidates if they are few, so that only their logits are read. The choice is the
// same as after a rejection of the free choice. Not with top-k, top-p or min-p, where other tokens count. A grammar
// that needs much work for the list checks the chosen token instead.
bool agd_sampler::grammar_first(const float * logits) {
    try {
        if ((chain && !temperature_only()) || !grammar->few_next() || !grammar->admitted(admitted, max_listed)) {
            return false;
        }
    } catch (const agd::too_ambiguous &) {
        grammar->forget();
        return false;
    }
    candidates.clear();
    for (const llama_token t : admitted) {
        if (logits[t] > agd::minus_infinity && !std::binary_search(suppressed.begin(), suppressed.end(), t)) {
            candidates.push_back({ t, logits[t], 0.0f });
        }
    }
    return true;
}

llama_token agd_sampler::sample(const float * logits) {
    llama_token token;
    only       = nullptr;
    mask_known = false;
    if (opts.mask > 0 && chain) {
        token = guard([&] { return sample_listed(logits); });
    } else if (dead || grammar) {
        token = guard([&] { return sample_admitted(logits); });
    } else {
        token       = pick_free(logits);
        score.drawn = 0;
        if (opts.score && chain && token >= 0) {
            score.drawn = static_cast<float>(std::log(free_odds(logits, token)));
        }
    }
    if (opts.score && token >= 0) {
        const double log_sum = agd::log_sum_exp(logits, n_vocab);
        score.model          = static_cast<float>(double(logits[token]) - log_sum);
        top                  = agd::list_best(logits, n_vocab, static_cast<size_t>(opts.top), log_sum);
    }
    if (token >= 0) {
        append(token);
        if (opts.mask > 0 && !chain) {
            mask.assign(1, token);
            mask_known = true;
        }
    }
    return token == AGD_SAMPLE_NOTFINITE ? nothing_left(logits) : token;
}

// sample under a grammar, which it advances.
llama_token agd_sampler::sample_admitted(const float * logits) {
    const bool  listed = grammar_first(logits), scores = opts.score && chain;
    llama_token token = listed ? pick_admitted_only(logits) : pick_free(logits);
    double      odds  = scores && listed ? pool_share(token) : 1;
    if (!listed && token >= 0) {
        // Computes a part of the score. Without it the choice is the same.
        const auto weigh = [&](auto f) {
            try {
                f();
            } catch (const agd::too_ambiguous &) {
                grammar->forget();
                odds = std::numeric_limits<double>::quiet_NaN();
            }
        };
        if (scores && !temperature_only()) {
            weigh([&] { weigh_choices(logits); });
        }
        if (!admits(token, /*first=*/true)) {
            token = pick_admitted(logits, token);
        }
        if (scores && token >= 0) {
            weigh([&] { odds *= grammar_odds(logits, token); });
        }
    }
    if (token >= 0) {
        grammar->accept(token);
    }
    score.drawn = static_cast<float>(std::log(odds));
    return token;
}

// sample with the option mask: the grammar excludes tokens first, and top-k, top-p and min-p choose among the others. So
// mask has the odds of a softmax.
llama_token agd_sampler::sample_listed(const float * logits) {
    const auto choose = [&] {
        const llama_token token = pick_free(logits);
        if (token >= 0) {
            list_mask(logits);
            const double listed = listed_logprob(logits, token);
            score.drawn         = std::isnan(listed) ? static_cast<float>(std::log(free_odds(logits, token))) : listed;
        }
        return token;
    };
    if (!grammar) {
        return choose();
    }
    const llama_token token = choose_admitted(choose);
    if (token >= 0) {
        grammar->accept(token);
    }
    return token == AGD_SAMPLE_NOTFINITE && argmax(logits) >= 0 ? AGD_SAMPLE_DEAD : token;
}

// The reason why no token can be chosen: the row, or that all tokens with a finite number are suppressed.
llama_token agd_sampler::nothing_left(const float * logits) const {
    bool finite = false;
    for (int32_t i = 0; i < n_vocab; i++) {
        if (std::isnan(logits[i])) {
            return AGD_SAMPLE_NOTFINITE;
        }
        finite = finite || logits[i] > agd::minus_infinity;
    }
    return finite ? AGD_SAMPLE_DEAD : AGD_SAMPLE_NOTFINITE;
}

// Chooses without the grammar.
llama_token agd_sampler::pick_free(const float * logits) {
    if (!chain) {
        return argmax(logits);
    }
    if (temperature_only()) {
        return draw_from_all(logits);
    }
    return draw(choices(logits));
}

// Chooses among the tokens that grammar_first listed. A row without a finite number differs from one without an
// admitted token.
llama_token agd_sampler::pick_admitted_only(const float * logits) {
    if (!candidates.empty()) {
        return pick();
    }
    return argmax(logits) < 0 ? AGD_SAMPLE_NOTFINITE : AGD_SAMPLE_DEAD;
}

size_t agd_sampler::force(llama_token * out, size_t max, llama_token & end) {
    end = -1;
    if (!grammar) {
        return 0;
    }
    agd::forced_tokens forced;
    try {
        forced = agd::force(*grammar, vocab, recent, suppressed, max);
    } catch (const agd::too_ambiguous &) {
    }
    grammar->forget();
    size_t n = 0;
    for (; n < forced.list.size() && grammar->accept(forced.list[n]); n++) {
        append(forced.list[n]);
        out[n] = forced.list[n];
    }
    if (forced.ends && n == forced.list.size()) {
        end = grammar->tokens().turn_end;
    }
    return n;
}
