// The choice of a kernel, and what all kernels need.
#include "attention/attention.h"

#include "ggml-backend.h"

#include <algorithm>

namespace agd::attention {

const kernel * kernels() {
    static kernel list[max_kernels + 1] = {};
#if defined(__x86_64__)
    static const int count = [] {
        int n = 0;
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
            list[n++] = compute_avx512;
        }
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
            list[n++] = compute_avx2;
        }
        return n;
    }();
    (void) count;
#endif
    return list;
}

const kernel * packed_kernels() {
    static kernel list[max_kernels + 1] = {};
#if defined(__x86_64__)
    static const int count = [] {
        int n = 0;
        __builtin_cpu_init();
        if (kernels()[0] == compute_avx512 && __builtin_cpu_supports("avx512bf16")) {
            if (can_use_amx()) {
                list[n++] = compute_amx_bf16;
            }
            list[n++] = compute_avx512_bf16;
        }
        return n;
    }();
    (void) count;
#endif
    return list;
}

bool packable(const operands & o) {
    const auto has_reader = [](const kv_view & c) { return c.type != element::f32 && c.type != element::other; };
    return o.dk % 32 == 0 && o.dv % 32 == 0 && has_reader(o.k) && has_reader(o.v);
}

kernel kernel_for(const operands & o, bool rounds) {
    const kernel packed = packed_kernels()[0];
    return rounds && packed != nullptr && packable(o) ? packed : kernels()[0];
}

bool rounds_activations(ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        const ggml_tensor * w    = node->op == GGML_OP_MUL_MAT ? node->src[0] : nullptr;
        if (w != nullptr && w->buffer != nullptr &&
            ggml_backend_buffer_get_usage(w->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
            return w->type != GGML_TYPE_F32 && w->type != GGML_TYPE_F16;
        }
    }
    return false;
}

kv_view make_kv_view(const void * data, ggml_type type, size_t cell, size_t head, int64_t n) {
    kv_view k{ static_cast<const char *>(data), cell, head, ggml_row_size(type, n), element::other, nullptr };
    switch (type) {
        case GGML_TYPE_F32: k.type = element::f32; break;
        case GGML_TYPE_F16: k.type = element::f16; break;
        case GGML_TYPE_BF16: k.type = element::bf16; break;
        case GGML_TYPE_Q8_0: k.type = element::q8_0; break;
        default: k.to_float = ggml_get_type_traits(type)->to_float;
    }
    return k;
}

size_t scratch_floats(const operands & o, int heads) {
    const size_t rows = static_cast<size_t>(max_group) * o.repeat;
    return heads * ((rows + tile) * (o.dk + o.dv) + 18 * rows);
}

int heads_at_once(const operands & o, const group & g) {
    constexpr size_t fast = 128 << 10; // bytes of queries and outputs that stay in the cache of a core
    const size_t     rows = o.repeat * g.entries.size() / std::max<size_t>(g.blocks.size(), 1); // of a tile and head
    const size_t     used = sizeof(float) * (o.dk + o.dv) * std::max<size_t>(rows, 1);
    return static_cast<int>(std::max<size_t>(fast / used, 1));
}

float * scratch_buffer::reserve(size_t n) {
    if (n > size) {
        data.reset(new (std::align_val_t{ 64 }) float[n]);
        size = n;
    }
    return data.get();
}

} // namespace agd::attention
