// The choice of a kernel, and what all kernels need.
#include "attention/attention.h"

namespace agd::attention {

const kernel * kernels() {
    static kernel list[max_kernels + 1] = {};
#if defined(__x86_64__) && defined(_OPENMP)
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

size_t scratch_floats(const operands & o) {
    const size_t heads = static_cast<size_t>(max_group) * o.repeat;
    return (heads + tile) * (o.dk + o.dv) + 2 * heads;
}

float * scratch_buffer::reserve(size_t n) {
    if (n > size) {
        data.reset(new (std::align_val_t{ 64 }) float[n]);
        size = n;
    }
    return data.get();
}

} // namespace agd::attention
