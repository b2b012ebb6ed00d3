// How probable tokens are for a sampler: scores of drawn ones, and lists of those that can be drawn.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace {

// How many tokens the grammar checks one by one where the set would answer, too.
constexpr size_t few_checks = 32;

// The same, for the score of a drawn token.
constexpr size_t scored_checks = 8;

// The share of the odds that a score may leave out.
constexpr double negligible = 1e-5;

// Differences of sums of weights, at most, where no token is missing.
constexpr double rounding = 1e-9;

} // namespace

// After sum_all: has the grammar check the best tokens, at most so many, until all others weigh at most share of what
// pool holds: the admitted ones, best first. It excludes the refused ones. False: the others weigh more.
bool agd_sampler::check_best(const float * logits, double share, size_t most) {
    const auto sum_of = [&](auto from, auto end) {
        return std::accumulate(from, end, 0.0, [&](double s, const auto & c) { return s + weight(c.logit); });
    };
    const auto too_few = [&](double w) { return weight_of_all() - w > share * w; };
    pool.clear();
    collect_best(logits, most);
    double sum = 0, best = sum_of(candidates.begin(), candidates.end()); // of pool, and with those not checked yet
    for (auto c = candidates.begin(); c != candidates.end() && !too_few(best); ++c) {
        if (!grammar || admits(c->id, c == candidates.begin())) {
            pool.push_back(*c);
            sum += weight(c->logit);
        } else {
            exclude(logits, c->id); // the weights are relative to another logit now
            sum  = sum_of(pool.begin(), pool.end());
            best = sum + sum_of(c + 1, candidates.end());
        }
        if (!too_few(sum)) {
            return true;
        }
    }
    return false;
}

// Prepares grammar_odds after the free choice, not with temperature_only(). It draws nothing.
void agd_sampler::weigh_choices(const float * logits) {
    free_pool.swap(pool);
    free_sum        = pool_sum;
    double rejected = 0;
    bool   first    = true;
    if (free_pool.size() > few_checks) {
        find_admitted_set();
    }
    for (const llama_token_data & c : free_pool) {
        rejected += admits(c.id, first) ? 0 : c.p;
        first = false;
    }
    rejected_share = rejected / free_sum;
    pool.clear();
    if (rejected > negligible * free_sum) { // the second choice matters
        choose_admitted([&] { return weigh_all(choices(logits)); });
    }
}

// The odds of a token under the grammar: the free choice's, and the second choice's if the grammar
// rejects the free one.
double agd_sampler::grammar_odds(const float * logits, llama_token token) {
    if (temperature_only()) {
        if (!check_best(logits, negligible, scored_checks)) {
            restrict_to_admitted(logits);
        }
        return weight(logits[token]) / weight_of_all();
    }
    double odds = rejected_share * pool_share(token);
    for (const llama_token_data & c : free_pool) {
        odds += c.id == token ? c.p / free_sum : 0;
    }
    return odds;
}

// The odds with which a sampler without a grammar draws a token.
double agd_sampler::free_odds(const float * logits, llama_token token) const {
    return temperature_only() ? weight(logits[token]) / weight_of_all() : pool_share(token);
}

// Lists what pick_free has drawn from.
void agd_sampler::list_mask(const float * logits) {
    mask.clear();
    mask_known     = true;
    const auto add = [&](llama_token t) {
        mask_known = mask.size() < opts.mask;
        if (mask_known) {
            mask.push_back(t);
        }
    };
    if (temperature_only()) {
        for_allowed([&](int32_t first, int32_t n) {
            for (llama_token t = first; t < first + n && mask_known; t++) {
                if (may(t) && logits[t] > agd::minus_infinity) {
                    add(t);
                }
            }
        });
        return;
    }
    for (auto c = pool.begin(); c != pool.end() && mask_known; ++c) {
        if (c->p > 0) {
            add(c->id);
        }
    }
    std::sort(mask.begin(), mask.end());
}

// The logarithm of a token's odds in the softmax of logits / temperature over mask. Draws use single precision, in which
// its weight and their sum may be off by more than a float of the result. NaN: mask is not known, or a logit is infinite.
double agd_sampler::listed_logprob(const float * logits, llama_token token) const {
    if (!mask_known) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    float best = agd::minus_infinity;
    for (const llama_token t : mask) {
        best = std::max(best, logits[t]);
    }
    const auto exponent = [&](llama_token t) { return (double(logits[t]) - double(best)) / double(opts.temperature); };
    const double sum    = std::accumulate(mask.begin(), mask.end(), 0.0,
                                          [&](double s, llama_token t) { return s + std::exp(exponent(t)); });
    return exponent(token) - std::log(sum);
}

// Adds the tokens of pool to children, with their share of so much of the odds, if they are admitted. Returns the
// share of the others.
double agd_sampler::add_pool(double odds) {
    double rejected = 0;
    bool   first    = true;
    if (grammar && pool.size() > few_checks) {
        find_admitted_set();
    }
    for (const llama_token_data & c : pool) {
        const double p = c.p / pool_sum;
        if (grammar && !admits(c.id, first)) {
            rejected += p;
        } else {
            add_child(c.id, odds * p);
        }
        first = false;
    }
    return rejected;
}

void agd_sampler::add_child(llama_token token, double odds) {
    if (odds <= 0) {
        return;
    }
    const auto same = std::find_if(children.begin(), children.end(),
                                   [&](const agd_child & c) { return c.token == token; });
    if (same == children.end()) {
        children.push_back({ token, static_cast<float>(std::log(odds)) });
    } else {
        same->logprob = static_cast<float>(std::log(std::exp(static_cast<double>(same->logprob)) + odds));
    }
}

llama_token agd_sampler::list_children(const float * logits, double share) {
    children.clear();
    children_rest = 0;
    only          = nullptr;
    if (grammar && grammar_first(logits)) {
        weigh_all(truncated(false));
        for (const llama_token_data & c : pool) {
            if (c.p > 0) {
                children.push_back({ c.id, static_cast<float>(std::log(c.p / pool_sum)) });
            }
        }
    } else if (temperature_only()) {
        list_heaviest(logits, share);
    } else {
        weigh_all(choices(logits));
        const double rejected = add_pool(1);
        if (grammar && rejected > negligible) { // the second choice
            choose_admitted([&] { return weigh_all(choices(logits)); });
            for (const llama_token_data & c : pool) {
                add_child(c.id, rejected * c.p / pool_sum);
            }
        }
    }
    if (children.empty()) {
        return argmax(logits) < 0 ? nothing_left(logits) : AGD_SAMPLE_DEAD;
    }
    return 0;
}

// list_children with temperature_only(): the heaviest admitted tokens, until the rest is at most share.
void agd_sampler::list_heaviest(const float * logits, double share) {
    if (grammar && set_known()) {
        only = admitted_set.data();
    }
    if (!sum_all(logits, factor())) {
        return;
    }
    double rest = 0;
    if (check_best(logits, share, few_checks)) { // a trained model's best tokens are admitted
        candidates.swap(pool);
        rest = weight_of_all();
        for (llama_token_data & c : candidates) {
            c.p = static_cast<float>(weight(c.logit));
            rest -= c.p;
        }
    } else {
        if (grammar) {
            restrict_to_admitted(logits);
        }
        rest = collect_heaviest(logits, share / (1 + share) * weight_of_all(), agd::minus_infinity);
    }
    const double sum = weight_of_all() - rest, log_sum = std::log(sum);
    const double by = 1 / double(opts.temperature);
    children_rest   = rest > rounding * sum ? rest / sum : 0;
    children.reserve(candidates.size());
    for (const llama_token_data & c : candidates) {
        if (c.p > 0) {
            const double exponent = (double(c.logit) - double(best_logit)) * by;
            children.push_back({ c.id, static_cast<float>(exponent - log_sum) });
        }
    }
}
