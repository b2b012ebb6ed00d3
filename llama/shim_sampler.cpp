// Sampling: the candidates are chosen from the logits first, and the grammar is
// asked about the chosen token alone. Only when it says no are more candidates
// shown to it, because a grammar check of a whole vocabulary costs milliseconds.
#include "shim.h"
#include "shim_grammar.h"
#include "shim_internal.h"
#include "shim_matcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace {

struct sampler_deleter {
    void operator()(llama_sampler * s) const { llama_sampler_free(s); }
};
using sampler_ptr = std::unique_ptr<llama_sampler, sampler_deleter>;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// A grammar rejection widens the search to the best candidates in these steps
// before the whole vocabulary: most often the right token is among the first.
constexpr size_t widening[] = { 128, 4096 };

// Sampled tokens that are looked at to see how the model splits its text.
constexpr size_t kept_recent = 4;

// A number in [0, 1) for one draw of one token: the finalizer of SplitMix64
// (Steele, Lea and Flood 2014) over all three. What is drawn for a token depends on
// nothing that happened before it, so that tokens which need no draw change nothing.
double uniform(uint32_t seed, uint64_t position, uint32_t attempt) {
    const auto mix = [](uint64_t x) {
        x += 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        return x ^ (x >> 31);
    };
    return static_cast<double>(mix(mix(mix(seed) ^ position) ^ attempt) >> 11) * 0x1.0p-53;
}

// Tokens looked at together when the best k are collected.
constexpr int32_t heap_block = 256;

// Largest value of x[0,n). Independent lanes let the compiler use vector maxima;
// NaN never wins a comparison, so it is ignored here.
float max_value(const float * x, size_t n) {
    constexpr size_t lanes = 16;
    float            m[lanes];
    std::fill(m, m + lanes, minus_infinity);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (size_t j = 0; j < lanes; j++) {
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
        }
    }
    for (; i < n; i++) {
        m[0] = x[i] > m[0] ? x[i] : m[0];
    }
    return *std::max_element(m, m + lanes);
}

// Order of candidates: higher logit first, then lower id, so that ties are
// broken the same way whatever the path that found them.
bool better(const llama_token_data & a, const llama_token_data & b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

} // namespace

struct agd_sampler {
    const llama_vocab *           vocab   = nullptr;
    int32_t                       n_vocab = 0;
    agd_sampler_options           opts    = {};
    sampler_ptr                   chain;      // truncation and temperature; empty: greedy
    std::unique_ptr<agd::matcher> grammar;    // empty: unconstrained
    std::vector<llama_token>      suppressed; // sorted
    std::vector<llama_token_data> candidates; // scratch
    std::vector<llama_token>      recent;     // the last tokens of the text
    uint64_t                      position = 0; // tokens of the text so far
    uint32_t                      attempt  = 0; // draws for the next one so far
    bool                          dead = false;
    std::string                   detail;

    // A token now belongs to the text.
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

    // Calls f(first, length) for every run of tokens that may be sampled.
    template <typename F> void for_allowed(F f) const {
        int32_t at = 0;
        for (llama_token t : suppressed) {
            if (t > at) {
                f(at, t - at);
            }
            at = t + 1;
        }
        if (at < n_vocab) {
            f(at, n_vocab - at);
        }
    }

    llama_token argmax(const float * logits) const {
        float       best = minus_infinity;
        llama_token id   = AGD_SAMPLE_NOTFINITE;
        for_allowed([&](int32_t first, int32_t n) {
            const float m = max_value(logits + first, n);
            if (m > best) {
                best = m;
                id   = static_cast<llama_token>(std::find(logits + first, logits + first + n, m) - logits);
            }
        });
        return id;
    }

    // The k best allowed tokens, best first, in candidates; k == 0: all, unsorted.
    void collect(const float * logits, size_t k) {
        candidates.clear();
        if (k == 0) {
            for_allowed([&](int32_t first, int32_t n) {
                for (llama_token t = first; t < first + n; t++) {
                    if (logits[t] > minus_infinity) {
                        candidates.push_back({ t, logits[t], 0.0f });
                    }
                }
            });
            return;
        }
        // A heap whose top is the worst of the best k; few tokens ever enter it,
        // so whole blocks are skipped by their maximum.
        float floor = minus_infinity;
        for_allowed([&](int32_t first, int32_t n) {
            const int32_t end = first + n;
            for (int32_t block = first; block < end; block += heap_block) {
                const int32_t stop = std::min(block + heap_block, end);
                if (!(max_value(logits + block, stop - block) > floor)) {
                    continue;
                }
                for (llama_token t = block; t < stop; t++) {
                    if (!(logits[t] > floor)) {
                        continue;
                    }
                    if (candidates.size() == k) {
                        std::pop_heap(candidates.begin(), candidates.end(), better);
                        candidates.pop_back();
                    }
                    candidates.push_back({ t, logits[t], 0.0f });
                    std::push_heap(candidates.begin(), candidates.end(), better);
                    if (candidates.size() == k) {
                        floor = candidates.front().logit;
                    }
                }
            }
        });
        std::sort_heap(candidates.begin(), candidates.end(), better);
    }

    // Picks from the candidates: the first one, or what the chain draws.
    llama_token pick(bool sorted) {
        if (candidates.empty()) {
            return AGD_SAMPLE_NOTFINITE;
        }
        if (!chain) {
            return sorted ? candidates.front().id
                          : std::min_element(candidates.begin(), candidates.end(), better)->id;
        }
        llama_token_data_array arr = { candidates.data(), candidates.size(), -1, sorted };
        llama_sampler_apply(chain.get(), &arr);
        return draw(arr);
    }

    // One of the tokens, each as often as the softmax of the logits says.
    llama_token draw(llama_token_data_array & arr) {
        if (arr.size == 0) {
            return AGD_SAMPLE_NOTFINITE;
        }
        float best = arr.data[0].logit;
        for (size_t i = 1; !arr.sorted && i < arr.size; i++) {
            best = std::max(best, arr.data[i].logit);
        }
        double sum = 0;
        for (size_t i = 0; i < arr.size; i++) {
            arr.data[i].p = std::exp(arr.data[i].logit - best);
            sum += arr.data[i].p;
        }
        const double target = sum * uniform(opts.seed, position, attempt++);
        double       run    = 0;
        for (size_t i = 0; i + 1 < arr.size; i++) {
            run += arr.data[i].p;
            if (run > target) {
                return arr.data[i].id;
            }
        }
        return arr.data[arr.size - 1].id;
    }

    // Drops the candidates that the grammar rejects; their order stays.
    void filter() {
        candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                        [&](const llama_token_data & c) { return !grammar->admits(c.id); }),
                         candidates.end());
    }

    // All allowed tokens that the grammar admits, in candidates.
    void collect_admitted(const float * logits) {
        std::vector<bool> admitted;
        grammar->admitted(admitted);
        candidates.clear();
        for_allowed([&](int32_t first, int32_t n) {
            for (llama_token t = first; t < first + n; t++) {
                if (admitted[t] && logits[t] > minus_infinity) {
                    candidates.push_back({ t, logits[t], 0.0f });
                }
            }
        });
    }

    // The choice under the grammar after it has rejected the free choice. Exact:
    // the best k admitted tokens of the vocabulary are the best k admitted of the
    // best m, once k of those are admitted.
    llama_token pick_admitted(const float * logits) {
        const size_t want = chain ? static_cast<size_t>(std::max(opts.top_k, 0)) : 1;
        if (want > 0) {
            for (size_t m : widening) {
                if (want * 2 > m || m >= static_cast<size_t>(n_vocab)) {
                    continue;
                }
                collect(logits, m);
                filter();
                if (candidates.size() >= want) {
                    return pick(true);
                }
            }
        }
        collect_admitted(logits);
        return candidates.empty() ? AGD_SAMPLE_DEAD : pick(false);
    }

    llama_token sample(const float * logits) {
        llama_token token;
        if (!chain) {
            token = argmax(logits);
        } else {
            collect(logits, static_cast<size_t>(std::max(opts.top_k, 0)));
            token = pick(opts.top_k > 0);
        }
        if (token >= 0 && (grammar || dead)) {
            token = constrain(token, logits);
        }
        if (token >= 0) {
            append(token);
        }
        return token;
    }

    // Appends the tokens that the grammar forces, at most max, to the text and to
    // out; end is the token that must end it then, -1 if none must. A grammar that
    // needs too much work for this is not asked further.
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
            end = grammar->tokens().ending;
        }
        return n;
    }

    // The chosen token, or another one if the grammar rejects it; accepts it.
    llama_token constrain(llama_token token, const float * logits) {
        return guard([&] {
            if (!grammar->admits(token)) {
                token = pick_admitted(logits);
            }
            if (token >= 0) {
                grammar->accept(token);
            }
            return token;
        });
    }

    // Runs f with the grammar. One that has failed is not asked again, and what
    // it remembers is freed.
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

// Top-k comes first because it makes the others cheap; the order of the rest is
// that of llama.cpp's own tools.
sampler_ptr make_chain(const agd_sampler_options & o) {
    sampler_ptr chain(llama_sampler_chain_init({ /*no_perf=*/true }));
    if (o.top_k > 0) {
        llama_sampler_chain_add(chain.get(), llama_sampler_init_top_k(o.top_k));
    }
    if (o.top_p > 0.0f && o.top_p < 1.0f) {
        llama_sampler_chain_add(chain.get(), llama_sampler_init_top_p(o.top_p, 1));
    }
    if (o.min_p > 0.0f) {
        llama_sampler_chain_add(chain.get(), llama_sampler_init_min_p(o.min_p, 1));
    }
    llama_sampler_chain_add(chain.get(), llama_sampler_init_temp(o.temperature));
    return chain;
}

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

struct agd_vocab_index {
    const llama_vocab *                     vocab;
    std::once_flag                          once;
    std::shared_ptr<const agd::vocab_index> index; // made for the first grammar

    std::shared_ptr<const agd::vocab_index> get() {
        std::call_once(once, [&] { index = std::make_shared<const agd::vocab_index>(vocab); });
        return index;
    }
};

extern "C" struct agd_vocab_index * agd_vocab_index_new(const struct llama_vocab * vocab) {
    return agd::guard(nullptr, static_cast<agd_vocab_index *>(nullptr), [&] {
        auto * index = new agd_vocab_index;
        index->vocab = vocab;
        return index;
    });
}

extern "C" void agd_vocab_index_free(struct agd_vocab_index * index) {
    delete index;
}

extern "C" struct agd_sampler * agd_sampler_new(struct agd_vocab_index * index, struct agd_sampler_options opts,
                                                char ** err) {
    return agd::guard(err, static_cast<agd_sampler *>(nullptr), [&]() -> agd_sampler * {
        const llama_vocab * vocab = index->vocab;
        auto                s     = std::make_unique<agd_sampler>();
        s->vocab   = vocab;
        s->n_vocab = llama_vocab_n_tokens(vocab);
        std::vector<llama_token> named;
        if (opts.grammar != nullptr) {
            auto rules = agd::parse_grammar(vocab, opts.grammar, &named); // throws
            s->grammar = std::make_unique<agd::matcher>(std::move(rules), index->get());
        }
        s->suppressed = suppressed_tokens(vocab, opts, named);
        if (opts.temperature > 0.0f) {
            s->chain = make_chain(opts);
        }
        s->opts         = opts;
        s->opts.grammar = nullptr; // the caller's memory
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
            c->chain = make_chain(s->opts);
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

extern "C" int agd_sampler_accept(struct agd_sampler * s, llama_token token) {
    try {
        const int rc = !s->grammar && !s->dead ? 0 : s->guard([&] { return s->grammar->accept(token) ? 0 : AGD_SAMPLE_REJECTED; });
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

extern "C" const char * agd_sampler_detail(const struct agd_sampler * s) {
    return s->detail.c_str();
}
