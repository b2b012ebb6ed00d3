// Samplers for Go.
#include "api.h"
#include "errors.h"
#include "grammar/matcher.h"
#include "sampling/sampler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace {

// The tokens that are never sampled, sorted; with ends also those that end a generation.
std::vector<llama_token> suppressed_tokens(const agd_vocab_index & index, const agd_sampler_options & o,
                                           std::vector<llama_token> admitted, bool ends) {
    std::vector<llama_token> out(o.suppress, o.suppress + o.n_suppress);
    if (o.suppress_control) {
        admitted.insert(admitted.end(), o.allow, o.allow + o.n_allow);
        std::sort(admitted.begin(), admitted.end());
        std::set_difference(index.control.begin(), index.control.end(), admitted.begin(), admitted.end(),
                            std::back_inserter(out));
    }
    if (ends) {
        out.insert(out.end(), index.ends.begin(), index.ends.end());
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

// f(), or AGD_SAMPLE_THROWN with the reason in the detail.
template <typename F> int32_t checked(agd_sampler * s, F f) {
    try {
        return f();
    } catch (const std::exception & e) {
        s->detail = e.what();
    } catch (...) {
        s->detail = "unknown C++ exception";
    }
    return AGD_SAMPLE_THROWN;
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
        s->suppressed = suppressed_tokens(*index, opts, named, opts.least > 0);
        if (opts.least > 0) {
            s->later = suppressed_tokens(*index, opts, named, false);
        }
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
        c->later      = s->later;
        c->dead       = s->dead;
        if (s->grammar) {
            c->grammar = std::make_unique<agd::matcher>(*s->grammar);
            c->share_admitted(*s);
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
    return checked(s, [&] { return s->sample(logits); });
}

extern "C" void agd_sample_batch(int threads, struct agd_sampler * const * samplers, const float * const * rows,
                                 int32_t n, llama_token * out) {
    // Rows take different times.
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int32_t i = 0; i < n; i++) {
        out[i] = agd_sample(samplers[i], rows[i]);
    }
}

extern "C" int agd_sampler_accept(struct agd_sampler * s, llama_token token) {
    return checked(s, [&] {
        const int rc = !s->grammar && !s->dead
                           ? 0
                           : s->guard([&] { return s->grammar->accept(token) ? 0 : AGD_SAMPLE_REJECTED; });
        if (rc == 0) {
            s->append(token);
        }
        return rc;
    });
}

extern "C" int32_t agd_sampler_force(struct agd_sampler * s, llama_token * out, int32_t max, llama_token * end) {
    return checked(s, [&] { return static_cast<int32_t>(s->force(out, static_cast<size_t>(max), *end)); });
}

extern "C" struct agd_score agd_sampler_score(const struct agd_sampler * s) {
    return s->score;
}

extern "C" int32_t agd_sampler_top(const struct agd_sampler * s, const struct agd_child ** list) {
    *list = s->top.data();
    return static_cast<int32_t>(s->top.size());
}

extern "C" int32_t agd_sampler_mask(const struct agd_sampler * s, const llama_token ** list) {
    *list = s->mask.data();
    return s->mask_known ? static_cast<int32_t>(s->mask.size()) : -1;
}

extern "C" void agd_score_rows(int threads, const float * const * rows, const llama_token * tokens, int32_t n,
                               int32_t n_vocab, int32_t n_top, struct agd_rank * out, struct agd_child * top) {
#pragma omp     parallel for num_threads(threads) schedule(dynamic, 1)
    for (int32_t i = 0; i < n; i++) {
        const float * row = rows[i];
        const float   own = row[tokens[i]];
        const double  sum = agd::log_sum_exp(row, n_vocab);
        out[i]            = { static_cast<float>(double(own) - sum), 1 };
        for (int32_t t = 0; t < n_vocab; t++) {
            out[i].rank += row[t] > own;
        }
        std::fill_n(top + size_t(i) * n_top, n_top, agd_child{ -1, 0 });
        try {
            const auto list = agd::list_best(row, n_vocab, static_cast<size_t>(n_top), sum);
            std::copy(list.begin(), list.end(), top + size_t(i) * n_top);
        } catch (...) { // no memory
            out[i].logprob = std::numeric_limits<float>::quiet_NaN();
        }
    }
}

extern "C" int32_t agd_sampler_children(struct agd_sampler * s, const float * logits, double share,
                                        const struct agd_child ** list, double * rest) {
    return checked(s, [&] {
        const llama_token rc = s->guard([&] { return s->list_children(logits, share); });
        *list                = s->children.data();
        *rest                = s->children_rest;
        return rc < 0 ? rc : static_cast<int32_t>(s->children.size());
    });
}

extern "C" double agd_log_sum(const float * logits, int32_t n) {
    return agd::log_sum_exp(logits, n);
}

extern "C" const char * agd_sampler_detail(const struct agd_sampler * s) {
    return s->detail.c_str();
}
