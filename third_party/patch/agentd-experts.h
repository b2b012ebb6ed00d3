// Products of the weights of experts and the rows that chose them, in a mixture of experts.
//
// A row is computed once for each expert that it chose. These pairs are sorted by expert, so that an expert's weights
// meet all of its rows at once. Threads take groups of rows of weights, whose number does not depend on the experts.
#ifndef AGENTD_EXPERTS_H
#define AGENTD_EXPERTS_H

#include "agentd-dots.h"
#include "agentd-jobs.h"
#include "agentd-squares.h"

namespace {
namespace agentd_products {

constexpr int64_t reading = 16; // rows that take as long as reading the weights does

// An expert that was chosen. Its pairs are `rows` in order from `first` on, and its panels those from `panel` on.
struct chosen {
    int32_t expert, rows;
    int64_t first, panel;
};

// What a product of experts keeps in the work buffer, before the activations.
struct pairs_by_expert {
    int64_t   experts, used, all; // experts, those of a row, pairs
    int64_t * count;              // of the chosen experts
    chosen *  list;
    int32_t * order;              // pair i is row i / used, and its expert number i % used

    static size_t size(int64_t experts, int64_t all) {
        return GGML_PAD(sizeof(int64_t) + experts * (sizeof(chosen) + sizeof(int64_t)) + all * sizeof(int32_t),
                        cache_line);
    }

    pairs_by_expert(char * work, int64_t experts, const ggml_tensor * ids)
        : experts(experts), used(ids->ne[0]), all(used * ids->ne[1]), count(reinterpret_cast<int64_t *>(work)),
          list(reinterpret_cast<chosen *>(count + 1 + experts)), order(reinterpret_cast<int32_t *>(list + experts)) {}

    void sort(const ggml_tensor * ids) {
        const auto expert = [=](int64_t i) {
            return *reinterpret_cast<const int32_t *>(static_cast<const char *>(ids->data) + i / used * ids->nb[1] +
                                                      i % used * ids->nb[0]);
        };
        int64_t * next = count + 1; // where the next pair of each expert goes
        std::fill(next, next + experts, 0);
        for (int64_t i = 0; i < all; i++) {
            next[expert(i)]++;
        }
        *count        = 0;
        int64_t first = 0, panel = 0;
        for (int64_t e = 0; e < experts; e++) {
            const int64_t n = next[e];
            next[e]         = first;
            if (n > 0) {
                list[(*count)++] = { static_cast<int32_t>(e), static_cast<int32_t>(n), first, panel };
            }
            first += n;
            panel += (n + lanes - 1) / lanes;
        }
        for (int64_t i = 0; i < all; i++) {
            order[next[expert(i)]++] = static_cast<int32_t>(i);
        }
    }

    // The row of x that the pair at a place of the order has.
    const char * row(const ggml_tensor * x, int64_t i) const {
        const int64_t pair = order[i];
        return static_cast<const char *>(x->data) + pair % used % x->ne[1] * x->nb[1] + pair / used * x->nb[2];
    }
};

// The bytes of the activations of all pairs: rows, or panels of each chosen expert.
template <class W> size_t pairs_size(int64_t experts, int64_t all, int64_t k) {
    if (uses_tiles<W>()) {
        return (std::min(experts, all) + all / lanes) * panel_words(k) * sizeof(ints);
    }
    return all * activations<W>::stride(k);
}

// Converts the rows that experts are multiplied with: a thread takes every nth, or every nth panel.
template <class W> void convert_pairs(const ggml_compute_params * params, const ggml_tensor * x,
                                      const pairs_by_expert & pairs, char * to) {
    const int64_t k = x->ne[0], stride = activations<W>::stride(k);
#if defined(AGENTD_BFLOATS)
    for (const chosen *c = pairs.list, *end = c + (uses_tiles<W>() ? *pairs.count : 0); c < end; c++) {
        for (int64_t i = 0, panel = c->panel; i < c->rows; i += lanes, panel++) {
            if (panel % params->nth == params->ith) {
                const auto at = [&](int64_t r) { return pairs.row(x, c->first + i + r); };
                for (int64_t e = 0; e < k; e += W::block) {
                    pack_block<W>(rows_from(c->rows - i, at), panel_width(c->rows - i), k, e, to + panel * panel_words(k) * sizeof(ints));
                }
            }
        }
    }
#endif
    for (int64_t i = params->ith; i < pairs.all && !uses_tiles<W>(); i += params->nth) {
        const char * row = pairs.row(x, i);
        if constexpr (W::dot == kind::floats) {
            std::memcpy(to + i * stride, row, stride);
        } else {
            for (int64_t e = 0; e < k; e += block) {
                convert_block<W>(reinterpret_cast<const float *>(row), to + i * stride, k, e);
            }
        }
    }
}

template <class W> void compute_experts(const ggml_compute_params * params, ggml_tensor * dst) {
    const ggml_tensor *src0 = dst->src[0], *src1 = dst->src[1], *ids = dst->src[2];
    GGML_TENSOR_BINARY_OP_LOCALS
    char * work = static_cast<char *>(params->wdata) + -reinterpret_cast<uintptr_t>(params->wdata) % cache_line;
    pairs_by_expert pairs(work, ne02, ids);
    char *          x      = work + pairs_by_expert::size(ne02, pairs.all);
    const size_t    stride = activations<W>::stride(ne10);

    if (params->ith == 0) {
        pairs.sort(ids);
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    convert_pairs<W>(params, src1, pairs, x);
    ggml_barrier(params->threadpool);

    tiles_in_use  tiles;
    const int64_t groups = (ne01 + group_rows - 1) / group_rows, experts = *pairs.count;
    // A group of an expert with few rows takes as long as reading its weights does.
    const auto before   = [&](int64_t i) { return (pairs.list[i].first + i * reading) * groups; };
    const auto group_at = [&](int64_t done) {
        int64_t i = 0, end = experts;
        while (end - i > 1) {
            (before((i + end) / 2) <= done ? i : end) = (i + end) / 2;
        }
        return i * groups + (done - before(i)) / (pairs.list[i].rows + reading);
    };
    each_group(params, (pairs.all + experts * reading) * groups, group_at, [&](int64_t i, int64_t next) {
        const chosen & c = pairs.list[i / groups];
        // What this thread reads next is in the same matrix, or in that of an expert behind it.
        next              = std::min(next, experts * groups - 1);
        const int64_t row = (pairs.list[next / groups].expert - c.expert) * ne01 + next % groups * group_rows;
        const matrices a{ static_cast<const uint8_t *>(src0->data) + c.expert * nb02,
                          nb01,
                          ne01,
                          c.rows,
                          ne00,
                          x + (uses_tiles<W>() ? c.panel * panel_words(ne10) * sizeof(ints) : c.first * stride),
                          stride,
                          static_cast<float *>(dst->data),
                          ne0,
                          pairs.order + c.first };
        if (uses_tiles<W>()) {
            group_of_panels<W>(a, i % groups * group_rows, row, tiles);
        } else if constexpr (W::dot != kind::bytes) {
            group_of_dots<W>(a, i % groups * group_rows, row);
        } else {
            group<W>(a, i % groups * group_rows, row);
        }
    });
}

// The bytes of the work buffer. ggml's own products, which compute references, need what its plan says.
template <class W> size_t experts_work_size(const ggml_tensor * op) {
    const ggml_tensor *w = op->src[0], *x = op->src[1], *ids = op->src[2];
    const int64_t      experts = w->ne[2], all = ids->ne[0] * ids->ne[1];
    const size_t       own = ggml_row_size(ggml_get_type_traits_cpu(w->type)->vec_dot_type, ggml_nelements(x)) +
                             experts * (sizeof(int64_t) + all * sizeof(int64_t) + cache_line) + 4 * cache_line;
    return std::max(own, pairs_by_expert::size(experts, all) + pairs_size<W>(experts, all, x->ne[0]) + cache_line);
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_EXPERTS_H
