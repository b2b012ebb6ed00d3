// Products of weights and batches of rows for x86 processors with AVX2, in place of ggml's own. traits.cpp includes
// this file and asks it first.
//
// The bits of a row of the result depend on that row and on the weights only: not on the other rows of the batch, the
// tile the row falls into, or the number of threads. Each sum is one chain in the order of the elements, in one lane of
// a panel; those of floats have another order (agentd-dots.h). Threads take groups of panels of weights (agentd-tiles.h),
// or of rows of weights where the activations are the panels (agentd-columns.h) or nothing is (agentd-dots.h);
// agentd-jobs.h says which.
#ifndef AGENTD_PRODUCTS_H
#define AGENTD_PRODUCTS_H

#include "agentd-experts.h"

namespace {
namespace agentd_products {

// Whether a product with n rows of activations makes panels of these.
template <class W> bool transposes(int64_t n) { return W::dot == kind::bfloats && (n > few || uses_tiles<W>()); }

template <class W> void compute(const ggml_compute_params * params, ggml_tensor * dst) {
    const ggml_tensor *src0 = dst->src[0], *src1 = dst->src[1];
    GGML_TENSOR_BINARY_OP_LOCALS
    const bool    transposed = transposes<W>(ne11);
    const bool    converts   = transposed || W::dot != kind::floats;
    const int64_t rows       = transposed ? lanes : 1; // of activations that are converted together
    const int64_t sets       = (ne11 + rows - 1) / rows;
    const size_t  stride     = transposed ? panel_words(ne10) * sizeof(ints) : converts ? activations<W>::stride(ne10) : nb11; // of a set
    char *        work       = static_cast<char *>(params->wdata) + -reinterpret_cast<uintptr_t>(params->wdata) % cache_line;

    tiles_in_use  tiles;

    if (converts) {
        const int64_t length = transposed ? W::block : block;
        const int64_t blocks = (ne10 + length - 1) / length, all = blocks * sets * ne12 * ne13;
        for (int64_t i = all * params->ith / params->nth; i < all * (params->ith + 1) / params->nth; i++) {
            const int64_t set = i / blocks, i11 = set % sets * rows, i12 = set / sets % ne12, i13 = set / sets / ne12;
            const char *  x  = static_cast<const char *>(src1->data) + i11 * nb11 + i12 * nb12 + i13 * nb13;
            char *        to = work + set * stride;
#if defined(AGENTD_BFLOATS)
            if constexpr (W::dot == kind::bfloats) {
                if (transposed) {
                    const int width = uses_tiles<W>() ? panel_width(ne11 - i11) : lanes;
                    pack_block<W>(rows_from(ne11 - i11, [=](int64_t r) { return x + r * nb11; }), width, ne10, i % blocks * length, to);
                    continue;
                }
            }
#endif
            convert_block<W>(reinterpret_cast<const float *>(x), to, ne10, i % blocks * length);
        }
    }
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    const int64_t groups = (ne01 + group_rows - 1) / group_rows, all = groups * ne12 * ne13;
    each_group(params, all, [](int64_t done) { return done; }, [&](int64_t i, int64_t next) {
        const int64_t matrix = i / groups, i12 = matrix % ne12, i13 = matrix / ne12;
        const char *  x = converts ? work + (i13 * ne12 + i12) * sets * stride :
                                     static_cast<const char *>(src1->data) + i12 * nb12 + i13 * nb13;
        const matrices a{ static_cast<const uint8_t *>(src0->data) + i12 / (ne12 / ne02) * nb02 + i13 / (ne13 / ne03) * nb03,
                          nb01,
                          ne01,
                          ne11,
                          ne00,
                          x,
                          stride,
                          reinterpret_cast<float *>(static_cast<char *>(dst->data) + i12 * nb2 + i13 * nb3),
                          static_cast<int64_t>(nb1 / sizeof(float)) };
        const int64_t row = i % groups * group_rows;
        next              = (next - matrix * groups) * group_rows;
        if (transposed) {
            group_of_panels<W>(a, row, next, tiles);
        } else if constexpr (W::dot == kind::floats) {
            group_of_dots<W>(a, row, next);
        } else {
            group<W>(a, row, next);
        }
    });
}

// Calls f with the kind of some weights, if there is one for them.
template <class F> bool with_weights(const ggml_tensor * w, F && f) {
    const auto fits = [&](auto kind_of) {
        return w->ne[0] % (kind_of.dot == kind::bytes ? kind_of.block : 8) == 0 && (f(kind_of), true);
    };
    switch (w->type) {
        case GGML_TYPE_F32: return fits(weights<GGML_TYPE_F32>());
        case GGML_TYPE_F16: return fits(weights<GGML_TYPE_F16>());
        case GGML_TYPE_BF16: return fits(weights<GGML_TYPE_BF16>());
        case GGML_TYPE_Q8_0: return fits(weights<GGML_TYPE_Q8_0>());
        case GGML_TYPE_Q4_0: return fits(weights<GGML_TYPE_Q4_0>());
        case GGML_TYPE_Q4_1: return fits(weights<GGML_TYPE_Q4_1>());
        case GGML_TYPE_Q5_0: return fits(weights<GGML_TYPE_Q5_0>());
        case GGML_TYPE_Q5_1: return fits(weights<GGML_TYPE_Q5_1>());
        case GGML_TYPE_IQ4_NL: return fits(weights<GGML_TYPE_IQ4_NL>());
        case GGML_TYPE_MXFP4: return fits(weights<GGML_TYPE_MXFP4>());
        case GGML_TYPE_Q4_K: return fits(weights<GGML_TYPE_Q4_K>());
        case GGML_TYPE_Q5_K: return fits(weights<GGML_TYPE_Q5_K>());
        case GGML_TYPE_Q6_K: return fits(weights<GGML_TYPE_Q6_K>());
        default: return false;
    }
}

// Whether op is a product that this file may compute.
inline bool is_product(const ggml_tensor * op) {
    if (op->op == GGML_OP_MUL_MAT_ID) {
        return op->src[1]->type == GGML_TYPE_F32 && op->src[1]->nb[0] == sizeof(float) && ggml_is_contiguous(op) &&
               ggml_is_contiguous(op->src[0]);
    }
    return op->op == GGML_OP_MUL_MAT && op->type == GGML_TYPE_F32 && op->src[1]->type == GGML_TYPE_F32 &&
           op->src[0]->nb[0] == ggml_type_size(op->src[0]->type) && op->src[1]->nb[0] == sizeof(float) &&
           op->op_params[1] != GGML_HINT_SRC0_IS_HADAMARD;
}

inline bool compute_product(const ggml_compute_params * params, ggml_tensor * op) {
    return is_product(op) && !params->use_ref && with_weights(op->src[0], [&](auto w) {
        op->op == GGML_OP_MUL_MAT ? compute<decltype(w)>(params, op) : compute_experts<decltype(w)>(params, op);
    });
}

// The size of the activations. ggml's own products, which compute references, need theirs.
inline bool product_work_size(const ggml_tensor * op, size_t * size) {
    return is_product(op) && with_weights(op->src[0], [&](auto w) {
        if (op->op == GGML_OP_MUL_MAT_ID) {
            *size = experts_work_size<decltype(w)>(op);
            return;
        }
        const ggml_type own = ggml_get_type_traits_cpu(op->src[0]->type)->vec_dot_type;
        const int64_t * ne  = op->src[1]->ne;
        const size_t    one = transposes<decltype(w)>(ne[1])
                                  ? (ne[1] + lanes - 1) / lanes * panel_words(ne[0]) * sizeof(ints)
                                  : ne[1] * activations<decltype(w)>::stride(ne[0]); // of a matrix
        *size = std::max(ggml_row_size(own, ggml_nelements(op->src[1])), one * ne[2] * ne[3] + cache_line);
    });
}

// Whether weights are read as they are in their file, so that ggml must not repack them.
inline bool reads_as_is(const ggml_tensor * w) { return with_weights(w, [](auto) {}); }

} // namespace agentd_products
} // namespace

#endif // AGENTD_PRODUCTS_H
