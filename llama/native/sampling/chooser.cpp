#include "sampling/chooser.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace agd {

namespace {

// A number in [0, 1) for one draw of one token: the finalizer of SplitMix64 (Steele, Lea and Flood 2014) over all
// three arguments. A draw depends on no earlier one, so tokens that need no draw change no later token.
double uniform(uint32_t seed, uint64_t position, uint32_t attempt) {
    const auto mix = [](uint64_t x) {
        x += 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        return x ^ (x >> 31);
    };
    return static_cast<double>(mix(mix(mix(seed) ^ position) ^ attempt) >> 11) * 0x1.0p-53;
}

} // namespace

// Top-k comes first because it makes the others cheap. The rest has the order of llama.cpp's own tools.
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

llama_token chooser::argmax(const float * logits) const {
    float       best = minus_infinity;
    llama_token id   = AGD_SAMPLE_NOTFINITE;
    for_blocks(logits, [&](int32_t at, int32_t, const run & r) {
        const float m = passes.max_value(r.x, r.n);
        if (m > best) {
            best = m;
            id   = at; // of the block, for now
        }
    });
    if (id >= 0) {
        while (logits[id] != best || !may(id)) {
            id++;
        }
    }
    return id;
}

void chooser::collect_all(const float * logits) {
    for_allowed([&](int32_t first, int32_t n) {
        for (llama_token t = first; t < first + n; t++) {
            if (logits[t] > minus_infinity && may(t)) {
                candidates.push_back({ t, logits[t], 0.0f });
            }
        }
    });
}

void chooser::collect_into_heap(const float * logits, const token_block & b, size_t k, float least) {
    uint64_t large[block / 64];
    passes.at_least(logits + b.first, b.count, least, large);
    for (int32_t at = b.first, end = b.first + b.count; at < end; at += 64) {
        uint64_t bits = large[(at - b.first) / 64] & allowed_bits(at);
        for (; bits != 0; bits &= bits - 1) {
            const llama_token t = at + __builtin_ctzll(bits);
            if (candidates.size() == k) {
                if (!(logits[t] > candidates.front().logit)) {
                    continue;
                }
                std::pop_heap(candidates.begin(), candidates.end(), better);
                candidates.pop_back();
            }
            candidates.push_back({ t, logits[t], 0.0f });
            std::push_heap(candidates.begin(), candidates.end(), better);
        }
    }
}

void chooser::collect(const float * logits, size_t k) {
    candidates.clear();
    if (k == 0) {
        collect_all(logits);
        return;
    }
    blocks.clear();
    for_blocks(logits, [&](int32_t at, int32_t count, const run & r) {
        blocks.push_back({ at, count, passes.max_value(r.x, r.n) });
    });
    collect_best(logits, k);
}

// Each of the k best blocks has a token as good as the k-th best maximum. So only blocks whose maximum is as good
// can hold one of the k best tokens.
void chooser::collect_best(const float * logits, size_t k) {
    candidates.clear();
    float floor = std::numeric_limits<float>::lowest();
    if (blocks.size() > k) {
        bests.clear();
        for (const token_block & b : blocks) {
            bests.push_back(b.best);
        }
        std::nth_element(bests.begin(), bests.begin() + (k - 1), bests.end(), std::greater<float>());
        floor = std::max(floor, bests[k - 1]);
    }
    for (const token_block & b : blocks) {
        const bool full = candidates.size() == k;
        if (b.best >= floor && (!full || b.best > candidates.front().logit)) {
            collect_into_heap(logits, b, k, full ? candidates.front().logit : floor);
        }
    }
    std::sort_heap(candidates.begin(), candidates.end(), better);
}

llama_token chooser::pick() {
    if (chain || candidates.empty()) {
        return draw(truncated(false));
    }
    return std::min_element(candidates.begin(), candidates.end(), better)->id;
}

llama_token_data_array chooser::choices(const float * logits) {
    if (truncates() && truncate(logits)) {
        return with_temperature();
    }
    collect(logits, static_cast<size_t>(std::max(opts.top_k, 0)));
    return truncated(opts.top_k > 0);
}

llama_token_data_array chooser::truncated(bool sorted) {
    llama_token_data_array arr = { candidates.data(), candidates.size(), -1, sorted };
    if (arr.size > 0) {
        llama_sampler_apply(chain.get(), &arr);
    }
    return arr;
}

double chooser::pool_share(llama_token token) const {
    const auto found = std::find_if(pool.begin(), pool.end(),
                                    [&](const llama_token_data & c) { return c.id == token; });
    return found == pool.end() ? 0 : found->p / pool_sum;
}

double chooser::next_uniform() {
    return uniform(opts.seed, position, attempt++);
}

double chooser::weigh_all(llama_token_data_array arr) {
    pool.clear();
    if (arr.size == 0) {
        return 0;
    }
    float best = arr.data[0].logit;
    for (size_t i = 1; !arr.sorted && i < arr.size; i++) {
        best = std::max(best, arr.data[i].logit);
    }
    double sum = 0;
    if (best == -minus_infinity) {
        for (size_t i = 0; i < arr.size; i++) {
            arr.data[i].p = 0;
        }
        std::min_element(arr.data, arr.data + arr.size, better)->p = 1;
        sum                                                        = 1;
    } else {
        for (size_t i = 0; i < arr.size; i++) {
            arr.data[i].p = std::exp(arr.data[i].logit - best);
            sum += arr.data[i].p;
        }
    }
    if (opts.score) {
        pool.assign(arr.data, arr.data + arr.size);
        pool_sum = sum;
    }
    return sum;
}

llama_token chooser::draw(llama_token_data_array arr) {
    if (arr.size == 0) {
        return AGD_SAMPLE_NOTFINITE;
    }
    const double target = weigh_all(arr) * next_uniform();
    double       run    = 0;
    for (size_t i = 0; i + 1 < arr.size; i++) {
        run += arr.data[i].p;
        if (run > target) {
            return arr.data[i].id;
        }
    }
    return arr.data[arr.size - 1].id;
}

std::vector<agd_child> list_best(const float * logits, int32_t n_vocab, size_t k, double log_sum) {
    std::vector<agd_child> list;
    if (k > 0) {
        chooser all;
        all.n_vocab = n_vocab;
        all.collect(logits, k);
        for (const llama_token_data & c : all.candidates) {
            list.push_back({ c.id, static_cast<float>(double(c.logit) - log_sum) });
        }
    }
    return list;
}

} // namespace agd
