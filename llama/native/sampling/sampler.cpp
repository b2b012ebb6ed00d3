// Sampling under a grammar. A token is chosen from the logits first, and the grammar checks that token alone. After a
// rejection another one is chosen among the tokens that the grammar admits. Where these are few, they are listed first
// and only their logits are read.
#include "api.h"
#include "sampling/chooser.h"
#include "grammar/grammar.h"
#include "errors.h"
#include "grammar/matcher.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace {

// Sampled tokens that forced text is tokenized with.
constexpr size_t kept_recent = 4;

// How many further tokens are drawn after a rejection before the set of admitted tokens is made. A draw takes a
// microsecond, the set ten or more, and a draw from it a hundred.
constexpr int redraws = 16;

// How many tokens the grammar checks one by one where the set would answer, too.
constexpr size_t few_checks = 32;

// The most admitted tokens that are listed before anything is chosen.
constexpr size_t max_listed = 1024;

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
    agd::token_set                admitted_set;
    bool                          set_known = false; // admitted_set is that of this place in the text
    bool                          dead      = false;
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
        attempt   = 0;
        set_known = false;
        if (grammar) {
            if (recent.size() == kept_recent) {
                recent.erase(recent.begin());
            }
            recent.push_back(token);
        }
    }

    void find_admitted_set() {
        if (!set_known) {
            grammar->admitted(admitted_set);
            set_known = true;
        }
    }

    // Whether the grammar admits a token. Without first, the work for it adds to that for the previous token.
    bool admits(llama_token token, bool first) {
        return set_known ? admitted_set.has(token) : grammar->admits(token, first);
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

    // Chooses under the grammar after it has rejected the free choice. Drawing until a token is admitted gives each
    // admitted token the odds that it has among them.
    llama_token pick_admitted(const float * logits) {
        llama_token rejected = -1; // a token with nearly all the odds is drawn many times
        for (int i = 0; temperature_only() && i < redraws && !grammar->over_budget(); i++) {
            const llama_token token = redraw(logits);
            if (token < 0 || (token != rejected && admits(token, /*first=*/i == 0))) {
                return token;
            }
            rejected = token;
        }
        const llama_token token = choose_admitted([&] { return pick_free(logits); });
        if (token >= 0 && temperature_only()) {
            admitted_weight = weight_of_all(); // weights are relative to another logit now
        }
        return token < 0 ? AGD_SAMPLE_DEAD : token;
    }

    // Fills pool with what pick_free draws from.
    void fill_free_pool(const float * logits) {
        if (truncates() && truncate(logits)) {
            fill_truncated_pool();
            return;
        }
        collect(logits, static_cast<size_t>(std::max(opts.top_k, 0)));
        fill_pool(opts.top_k > 0);
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
            choose_admitted([&] { fill_free_pool(logits); });
        }
    }

    // The weight of all admitted tokens: of the best ones, if the rest is negligible. Where refused tokens have most of
    // the weight, rounding leaves no more than a guess of the rest.
    double weigh_admitted(const float * logits) {
        const double all  = weight_of_all();
        double       rest = all, sum = 0;
        bool         first = true;
        collect(logits, 8);
        for (const llama_token_data & c : candidates) {
            const double w = weight(c.logit);
            rest -= w;
            sum += admits(c.id, first) ? w : 0;
            first = false;
            if (rest <= negligible * sum && 2 * sum >= all) {
                return sum;
            }
        }
        return choose_admitted([&] { return weigh_all_allowed(logits); });
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
            fill_free_pool(logits);
            const double rejected = add_pool(1);
            if (grammar && rejected > negligible) { // the second choice
                choose_admitted([&] { fill_free_pool(logits); });
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
        if (!grammar) {
            add_heaviest(logits, share, { 8, 32, widening[0], 512, widening[1], 0 });
        } else if (!add_heaviest(logits, share, { 8, few_checks })) { // a trained model's best tokens are admitted
            choose_admitted([&] {
                if (draw_from_all(logits) >= 0) {
                    add_heaviest(logits, share, { 8, 32, widening[0], 512, widening[1], 0 });
                }
            });
        }
    }

    // Makes children of the heaviest admitted ones of so many best tokens, 0 for all, until the rest is at most share.
    // False: it is more.
    bool add_heaviest(const float * logits, double share, std::initializer_list<size_t> numbers) {
        const double all  = weight_of_all();
        double       rest = all, sum = 0;
        size_t       seen = 0; // the best tokens are the same in each step
        pool.clear();
        for (const size_t m : numbers) {
            if (m == 0) {
                pool.clear();
                sum = seen = 0;
            }
            collect(logits, m);
            for (; seen < candidates.size(); seen++) {
                const llama_token_data & c = candidates[seen];
                const double             w = weight(c.logit);
                rest -= w;
                if (!grammar || admits(c.id, /*first=*/seen == 0)) {
                    sum += w;
                    pool.push_back({ c.id, c.logit, static_cast<float>(w) });
                }
                if (m > 0 && rest <= share * sum && 2 * sum >= all) { // as in weigh_admitted
                    children_rest = rest > rounding * sum ? rest / sum : 0;
                    add_pool_unchecked(sum);
                    return true;
                }
            }
            if (m == 0 || candidates.size() < m) { // these were all
                add_pool_unchecked(sum);
                return true;
            }
        }
        return false;
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
