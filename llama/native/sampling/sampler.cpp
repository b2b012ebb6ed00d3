// Sampling under a grammar. A token is chosen from the logits first, and the grammar checks that token alone: to
// check a whole vocabulary takes milliseconds. After a rejection the grammar checks more candidates. Where the
// grammar admits few tokens, it lists them first and only their logits are read.
#include "api.h"
#include "sampling/chooser.h"
#include "grammar/grammar.h"
#include "errors.h"
#include "grammar/matcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace {

// Sampled tokens that forced text is tokenized with.
constexpr size_t kept_recent = 4;

// How many further tokens are drawn after a rejection before all admitted tokens are listed. A draw takes a
// microsecond; the list takes five thousand where a third of 150,000 tokens is admitted.
constexpr int redraws = 256;

// The most admitted tokens that are listed before anything is chosen.
constexpr size_t max_listed = 1024;
constexpr size_t no_limit   = std::numeric_limits<size_t>::max();

// The share of the odds that a score may leave out.
constexpr double negligible = 1e-5;

// Differences of sums of weights, at most, where no token is missing.
constexpr double rounding = 1e-9;

} // namespace

struct agd_sampler : agd::chooser {
    const llama_vocab *           vocab = nullptr;
    std::unique_ptr<agd::matcher> grammar; // null: unconstrained
    std::vector<llama_token>      recent;  // the last tokens of the text
    std::vector<llama_token>      admitted; // scratch
    bool                          dead = false;
    std::string                   detail;
    agd_score                     score = {}; // of the last token, with the option
    // For it, without temperature_only(): what the free choice was drawn from, and how much of it the grammar rejects.
    std::vector<llama_token_data> free_pool;
    double                        free_sum = 0, rejected_share = 0;
    double                        admitted_weight = 0; // with temperature_only(): of all admitted tokens
    std::vector<agd_child>        children; // result of list_children
    double                        children_rest = 0; // share of the odds that children lacks, at most

    // Adds a token to the text.
    void append(llama_token token) {
        position++;
        attempt = 0;
        if (grammar) {
            if (recent.size() == kept_recent) {
                recent.erase(recent.begin());
            }
            recent.push_back(token);
        }
    }

    // Removes the candidates that the grammar rejects; their order stays.
    void filter() {
        candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                        [&](const llama_token_data & c) { return !grammar->admits(c.id); }),
                         candidates.end());
    }

    // Collects all allowed tokens that the grammar admits in candidates. False if these are more than most.
    bool collect_admitted(const float * logits, size_t most) {
        candidates.clear();
        if (!grammar->admitted(admitted, most)) {
            return false;
        }
        for (const llama_token t : admitted) {
            if (logits[t] > agd::minus_infinity && !std::binary_search(suppressed.begin(), suppressed.end(), t)) {
                candidates.push_back({ t, logits[t], 0.0f });
            }
        }
        return true;
    }

    // Chooses under the grammar after it has rejected the free choice. This is exact. Once k of the best m tokens
    // are admitted, the best of these are the best k admitted tokens of the vocabulary. And drawing until a
    // token is admitted gives each admitted token the odds that it has among them.
    llama_token pick_admitted(const float * logits) {
        if (!chain || temperature_only() || !grammar->few_next()) { // otherwise listing is faster
            llama_token rejected = -1; // a token with nearly all the odds is drawn many times
            for (int i = 0; temperature_only() && i < redraws && !grammar->over_budget(); i++) {
                const llama_token token = redraw(logits);
                if (token < 0 || (token != rejected && grammar->admits(token, /*first=*/i == 0))) {
                    return token;
                }
                rejected = token;
            }
            if (collect_best_admitted(logits)) {
                return pick(true);
            }
        }
        collect_admitted(logits, no_limit);
        return candidates.empty() ? AGD_SAMPLE_DEAD : pick(false);
    }

    // Collects the best admitted tokens in candidates, as many as top-k takes, best first. False: not found among the
    // best tokens.
    bool collect_best_admitted(const float * logits) {
        const size_t want = chain ? static_cast<size_t>(std::max(opts.top_k, 0)) : 1;
        for (size_t m : widening) {
            if (want == 0 || want * 2 > m || m >= static_cast<size_t>(n_vocab)) {
                continue;
            }
            collect(logits, m);
            filter();
            if (candidates.size() >= want) {
                return true;
            }
        }
        return false;
    }

    // Prepares grammar_odds after the free choice, while the grammar is still before the token. It draws nothing.
    void weigh_choices(const float * logits) {
        if (temperature_only()) {
            admitted_weight = weigh_admitted(logits);
            return;
        }
        free_pool.swap(pool);
        free_sum        = pool_sum;
        double rejected = 0;
        bool   first    = true;
        for (const llama_token_data & c : free_pool) {
            rejected += grammar->admits(c.id, first) ? 0 : c.p;
            first = false;
        }
        rejected_share = rejected / free_sum;
        pool.clear();
        if (rejected > negligible * free_sum) { // the second choice matters
            const bool sorted = collect_best_admitted(logits);
            if (!sorted) {
                collect_admitted(logits, no_limit);
            }
            fill_pool(sorted);
        }
    }

    // The weight of all admitted tokens: of the best ones, as soon as the rest is negligible.
    double weigh_admitted(const float * logits) {
        double rest = weight_of_all(), sum = 0;
        size_t seen = 0; // the best tokens are the same in each step
        // Sorting 4,096 tokens takes longer than all else here, so a step of 512 comes before.
        for (size_t m : { size_t(8), widening[0], size_t(512), widening[1] }) {
            collect(logits, m);
            for (; seen < candidates.size(); seen++) {
                const double w = weight(candidates[seen].logit);
                rest -= w;
                sum += grammar->admits(candidates[seen].id, /*first=*/seen == 0) ? w : 0;
                if (rest <= negligible * sum) {
                    return sum;
                }
            }
            if (m >= static_cast<size_t>(n_vocab)) {
                return sum;
            }
        }
        collect_admitted(logits, no_limit);
        sum = 0;
        for (const llama_token_data & c : candidates) {
            sum += weight(c.logit);
        }
        return sum;
    }

    // The odds of a token under the grammar: those of the free choice, and those of the second choice if the grammar
    // rejects the free one.
    double grammar_odds(const float * logits, llama_token token) const {
        if (temperature_only()) {
            return weight(logits[token]) / admitted_weight;
        }
        double odds = rejected_share * pool_share(token);
        for (const llama_token_data & c : free_pool) {
            odds += c.id == token ? c.p / free_sum : 0;
        }
        return odds;
    }

    // The odds with which a sampler without a grammar draws a token.
    double free_odds(const float * logits, llama_token token) const {
        return temperature_only() ? weight(logits[token]) / weight_of_all() : pool_share(token);
    }

    // Lists the admitted tokens in candidates if they are few, so that only their logits are read. The choice is the
    // same as after a rejection of the free choice. Not with top-k, top-p or min-p, where other tokens count. A grammar
    // that needs much work for the list checks the chosen token instead.
    bool grammar_first(const float * logits) {
        try {
            return (!chain || temperature_only()) && grammar->few_next() && collect_admitted(logits, max_listed);
        } catch (const agd::too_ambiguous &) {
            grammar->forget();
            return false;
        }
    }

    llama_token sample(const float * logits) {
        llama_token token;
        if (dead || grammar) {
            token = guard([&] {
                const bool  listed = grammar_first(logits);
                llama_token t      = listed ? pick_admitted_only(logits) : pick_free(logits);
                const bool  scores = opts.score && chain && t >= 0;
                double      odds   = scores && listed ? pool_share(t) : 1;
                bool        known  = true;
                try {
                    if (scores && !listed) {
                        weigh_choices(logits);
                    }
                } catch (const agd::too_ambiguous &) {
                    grammar->forget();
                    known = false;
                }
                if (t >= 0 && !grammar->accept(t)) {
                    std::vector<llama_token_data> second;
                    second.swap(pool); // pick_admitted draws from the same
                    t = pick_admitted(logits);
                    pool.swap(second);
                    if (t >= 0) {
                        grammar->accept(t);
                    }
                }
                if (scores && !listed && t >= 0) {
                    odds = known ? grammar_odds(logits, t) : std::numeric_limits<double>::quiet_NaN();
                }
                score.drawn = static_cast<float>(std::log(odds));
                return t;
            });
        } else {
            token       = pick_free(logits);
            score.drawn = 0;
            if (opts.score && chain && token >= 0) {
                score.drawn = static_cast<float>(std::log(free_odds(logits, token)));
            }
        }
        if (opts.score && token >= 0) {
            score.model = agd_logprob(logits, n_vocab, token);
        }
        if (token >= 0) {
            append(token);
        }
        return token == AGD_SAMPLE_NOTFINITE ? nothing_left(logits) : token;
    }

    // The reason why no token can be chosen: the row, or that all tokens with a finite number are suppressed.
    llama_token nothing_left(const float * logits) const {
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
    llama_token pick_free(const float * logits) {
        if (!chain) {
            return argmax(logits);
        }
        if (temperature_only()) {
            return draw_from_all(logits);
        }
        if (truncates() && truncate(logits)) {
            return pick_truncated();
        }
        collect(logits, static_cast<size_t>(std::max(opts.top_k, 0)));
        return pick(opts.top_k > 0);
    }

    // Chooses among the tokens that grammar_first listed. A row without a finite number is told from one without an
    // admitted token.
    llama_token pick_admitted_only(const float * logits) {
        if (!candidates.empty()) {
            return pick(false);
        }
        return argmax(logits) < 0 ? AGD_SAMPLE_NOTFINITE : AGD_SAMPLE_DEAD;
    }

    // Adds the tokens of pool to children, with their share of so much of the odds, if they are admitted. Returns the
    // share of the others.
    double add_pool(double odds) {
        double rejected = 0;
        bool   first    = true;
        for (const llama_token_data & c : pool) {
            const double p = c.p / pool_sum;
            if (grammar && !grammar->admits(c.id, first)) {
                rejected += p;
            } else {
                add_child(c.id, odds * p);
            }
            first = false;
        }
        return rejected;
    }

    void add_child(llama_token token, double odds) {
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

    // Fills children with what sample draws from, and its odds. With temperature_only() so much may be missing.
    llama_token list_children(const float * logits, double share) {
        children.clear();
        children_rest = 0;
        if (argmax(logits) < 0) {
            return nothing_left(logits);
        }
        if (grammar && grammar_first(logits)) {
            fill_pool(false);
            add_pool_unchecked(pool_sum);
        } else if (temperature_only()) {
            list_heaviest(logits, share);
        } else {
            const bool truncated = truncates() && truncate(logits);
            if (!truncated) {
                collect(logits, static_cast<size_t>(std::max(opts.top_k, 0)));
                fill_pool(opts.top_k > 0);
            } else {
                fill_truncated_pool();
            }
            const double rejected = add_pool(1);
            if (grammar && rejected > negligible) { // the second choice
                const bool sorted = collect_best_admitted(logits);
                if (!sorted) {
                    collect_admitted(logits, no_limit);
                }
                pool.clear();
                fill_pool(sorted);
                for (const llama_token_data & c : pool) {
                    add_child(c.id, rejected * c.p / pool_sum);
                }
            }
        }
        return children.empty() ? AGD_SAMPLE_DEAD : 0;
    }

    // Makes children of all of pool, with weights that sum up to sum.
    void add_pool_unchecked(double sum) {
        for (const llama_token_data & c : pool) {
            if (c.p > 0) {
                children.push_back({ c.id, static_cast<float>(std::log(c.p / sum)) });
            }
        }
    }

    // list_children with temperature_only(): the heaviest admitted tokens, until the rest is at most share.
    void list_heaviest(const float * logits, double share) {
        draw_from_all(logits); // for the weights
        double rest = weight_of_all(), sum = 0;
        size_t seen = 0; // the best tokens are the same in each step
        pool.clear();
        for (size_t m : { size_t(8), size_t(32), widening[0], size_t(512), widening[1] }) { // as in weigh_admitted
            collect(logits, m);
            for (; seen < candidates.size(); seen++) {
                const llama_token_data & c = candidates[seen];
                const double             w = weight(c.logit);
                rest -= w;
                if (!grammar || grammar->admits(c.id, /*first=*/seen == 0)) {
                    sum += w;
                    pool.push_back({ c.id, c.logit, static_cast<float>(w) });
                }
                if (rest <= share * sum) {
                    children_rest = rest > rounding * sum ? rest / sum : 0;
                    add_pool_unchecked(sum);
                    return;
                }
            }
            if (m >= static_cast<size_t>(n_vocab)) {
                add_pool_unchecked(sum);
                return;
            }
        }
        if (grammar) {
            collect_admitted(logits, no_limit);
        } else {
            collect(logits, 0);
        }
        pool.clear();
        sum = 0;
        for (const llama_token_data & c : candidates) {
            pool.push_back({ c.id, c.logit, static_cast<float>(weight(c.logit)) });
            sum += pool.back().p;
        }
        add_pool_unchecked(sum);
    }

    // Appends the tokens that the grammar forces, at most max, to the text and to out. end is the token that must
    // end the text then, or -1. A grammar that needs too much work for this forces nothing.
    size_t force(llama_token * out, size_t max, llama_token & end) {
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
};

namespace {

std::vector<llama_token> suppressed_tokens(const llama_vocab * vocab, const agd_sampler_options & o,
                                           const std::vector<llama_token> & named_by_grammar) {
    const int32_t     n = llama_vocab_n_tokens(vocab);
    std::vector<bool> off(static_cast<size_t>(n));
    if (o.suppress_control) {
        for (llama_token t = 0; t < n; t++) {
            off[t] = llama_vocab_is_control(vocab, t) && !llama_vocab_is_eog(vocab, t);
        }
        for (llama_token t : named_by_grammar) {
            off[t] = false;
        }
        for (size_t i = 0; i < o.n_allow; i++) {
            off[o.allow[i]] = false;
        }
    }
    for (size_t i = 0; i < o.n_suppress; i++) {
        off[o.suppress[i]] = true;
    }
    std::vector<llama_token> out;
    for (llama_token t = 0; t < n; t++) {
        if (off[t]) {
            out.push_back(t);
        }
    }
    return out;
}

} // namespace

extern "C" struct agd_sampler * agd_sampler_new(struct agd_vocab_index * index, struct agd_sampler_options opts,
                                                char ** err) {
    return agd::guard(err, static_cast<agd_sampler *>(nullptr), [&]() -> agd_sampler * {
        const llama_vocab * vocab = index->vocab;
        auto                s     = std::make_unique<agd_sampler>();
        s->vocab                  = vocab;
        s->n_vocab                = llama_vocab_n_tokens(vocab);
        std::vector<llama_token> named;
        if (opts.grammar != nullptr) {
            auto rules = agd::parse_grammar(vocab, opts.grammar, &named); // throws
            s->grammar = std::make_unique<agd::matcher>(std::move(rules), index->get());
        }
        s->suppressed = suppressed_tokens(vocab, opts, named);
        if (opts.temperature > 0.0f) {
            s->chain = agd::make_chain(opts);
        }
        s->opts          = opts;
        s->opts.grammar  = nullptr; // the caller's memory
        s->opts.suppress = s->opts.allow = nullptr;
        s->opts.n_suppress = s->opts.n_allow = 0;
        return s.release();
    });
}

extern "C" struct agd_sampler * agd_sampler_clone(const struct agd_sampler * s, bool reseed, uint32_t seed,
                                                  char ** err) {
    return agd::guard(err, static_cast<agd_sampler *>(nullptr), [&]() -> agd_sampler * {
        auto c        = std::make_unique<agd_sampler>();
        c->vocab      = s->vocab;
        c->n_vocab    = s->n_vocab;
        c->opts       = s->opts;
        c->suppressed = s->suppressed;
        c->dead       = s->dead;
        if (s->grammar) {
            c->grammar = std::make_unique<agd::matcher>(*s->grammar);
        }
        if (s->chain) {
            c->chain = agd::make_chain(s->opts);
        }
        c->recent   = s->recent;
        c->position = s->position;
        c->attempt  = s->attempt;
        if (reseed) {
            c->opts.seed = seed;
        }
        return c.release();
    });
}

extern "C" void agd_sampler_free(struct agd_sampler * s) {
    delete s;
}

extern "C" llama_token agd_sample(struct agd_sampler * s, const float * logits) {
    try {
        return s->sample(logits);
    } catch (const std::exception & e) {
        s->detail = e.what();
    } catch (...) {
        s->detail = "unknown C++ exception";
    }
    return AGD_SAMPLE_THROWN;
}

extern "C" void agd_sample_batch(int threads, struct agd_sampler * const * samplers, const float * const * rows,
                                 int32_t n, llama_token * out) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
#endif
    for (int32_t i = 0; i < n; i++) {
        out[i] = agd_sample(samplers[i], rows[i]);
    }
    (void) threads;
}

extern "C" int agd_sampler_accept(struct agd_sampler * s, llama_token token) {
    try {
        const int rc = !s->grammar && !s->dead
                           ? 0
                           : s->guard([&] { return s->grammar->accept(token) ? 0 : AGD_SAMPLE_REJECTED; });
        if (rc == 0) {
            s->append(token);
        }
        return rc;
    } catch (const std::exception & e) {
        s->detail = e.what();
    } catch (...) {
        s->detail = "unknown C++ exception";
    }
    return AGD_SAMPLE_THROWN;
}

extern "C" int32_t agd_sampler_force(struct agd_sampler * s, llama_token * out, int32_t max, llama_token * end) {
    try {
        return static_cast<int32_t>(s->force(out, static_cast<size_t>(max), *end));
    } catch (const std::exception & e) {
        s->detail = e.what();
    } catch (...) {
        s->detail = "unknown C++ exception";
    }
    return AGD_SAMPLE_THROWN;
}

extern "C" struct agd_score agd_sampler_score(const struct agd_sampler * s) {
    return s->score;
}

extern "C" int32_t agd_sampler_children(struct agd_sampler * s, const float * logits, double share,
                                        const struct agd_child ** list, double * rest) {
    try {
        const llama_token rc = s->guard([&] { return s->list_children(logits, share); });
        *list                = s->children.data();
        *rest                = s->children_rest;
        return rc < 0 ? rc : static_cast<int32_t>(s->children.size());
    } catch (const std::exception & e) {
        s->detail = e.what();
    } catch (...) {
        s->detail = "unknown C++ exception";
    }
    return AGD_SAMPLE_THROWN;
}

extern "C" float agd_logprob(const float * logits, int32_t n, llama_token token) {
    return static_cast<float>(static_cast<double>(logits[token]) - agd::log_sum_exp(logits, n));
}

extern "C" const char * agd_sampler_detail(const struct agd_sampler * s) {
    return s->detail.c_str();
}
