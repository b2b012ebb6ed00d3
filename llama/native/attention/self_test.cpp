#include "attention/self_test.h"

#include "assumptions.h"

#include "ggml-alloc.h"
#include "ggml.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

namespace agd::attention {

thread_local bool self_testing = false;

namespace {

constexpr int64_t dk = 32, dv = 32, rows = 3, cells = 64, heads = 2, outputs = 5;
constexpr float   scale     = 0.25f;
constexpr double  tolerance = 1e-3;

struct free_context {
    void operator()(ggml_context * c) const { ggml_free(c); }
};
struct free_backend {
    void operator()(ggml_backend_t b) const { ggml_backend_free(b); }
};
struct free_buffer {
    void operator()(ggml_backend_buffer_t b) const { ggml_backend_buffer_free(b); }
};
struct scope {
    scope() { self_testing = true; }
    ~scope() { self_testing = false; }
};

// Numbers that differ from each other, all below 1.
float number(int64_t i) {
    return static_cast<float>((i * 37 + 11) % 101) / 101 - 0.5f;
}

bool sees(int64_t row, int64_t cell) {
    return (cell + row) % 3 != 0;
}

bool differs(double got, double want) {
    return !(std::fabs(got - want) <= tolerance * (1 + std::fabs(want)));
}

// Fills a tensor and returns its values as the kernels see them.
std::vector<float> fill(ggml_tensor * t, int64_t first) {
    std::vector<float> values(ggml_nelements(t));
    for (size_t i = 0; i < values.size(); i++) {
        values[i] = number(first + static_cast<int64_t>(i));
    }
    if (t->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(t, values.data(), 0, ggml_nbytes(t));
        return values;
    }
    std::vector<uint8_t> stored(ggml_nbytes(t));
    ggml_quantize_chunk(t->type, values.data(), stored.data(), 0, ggml_nrows(t), t->ne[0], nullptr);
    ggml_backend_tensor_set(t, stored.data(), 0, stored.size());
    ggml_get_type_traits(t->type)->to_float(stored.data(), values.data(), static_cast<int64_t>(values.size()));
    return values;
}

struct fixture {
    std::unique_ptr<ggml_context, free_context>       meta;
    std::unique_ptr<ggml_backend, free_backend>       backend;
    std::unique_ptr<ggml_backend_buffer, free_buffer> buffer;

    explicit fixture(ggml_backend_dev_t device)
        : meta(ggml_init({ 32 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, /*no_alloc=*/true })),
          backend(ggml_backend_dev_init(device, nullptr)) {}

    bool allocate() {
        buffer.reset(ggml_backend_alloc_ctx_tensors(meta.get(), backend.get()));
        return buffer != nullptr;
    }

    // As llama_context does: threads first, then the graph.
    bool compute(ggml_tensor * node) {
        const auto reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend.get()));
        const auto set = reinterpret_cast<ggml_backend_set_n_threads_t>(
            ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
        if (set == nullptr) {
            return false;
        }
        set(backend.get(), 1);
        ggml_cgraph * graph = ggml_new_graph(meta.get());
        ggml_build_forward_expand(graph, node);
        return ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_SUCCESS;
    }
};

// One row and head of the attention, by its definition.
std::vector<double> plain(const float * q, const std::vector<float> & k, const std::vector<float> & v, float sink,
                          int64_t row) {
    std::vector<double> out(dv);
    double              sum = std::exp(double(sink));
    for (int64_t c = 0; c < cells; c++) {
        if (!sees(row, c)) {
            continue;
        }
        double score = 0;
        for (int64_t d = 0; d < dk; d++) {
            score += double(q[d]) * k[c * dk + d];
        }
        const double weight = std::exp(score * scale);
        sum += weight;
        for (int64_t d = 0; d < dv; d++) {
            out[d] += weight * v[c * dv + d];
        }
    }
    for (double & x : out) {
        x /= sum;
    }
    return out;
}

const char * attention_differs(ggml_backend_dev_t device, ggml_type kv_type) {
    fixture f(device);
    if (f.backend == nullptr) {
        return "ggml no longer makes a backend of our device";
    }
    ggml_context * m     = f.meta.get();
    ggml_tensor *  q     = ggml_new_tensor_3d(m, GGML_TYPE_F32, dk, rows, heads);
    ggml_tensor *  k     = ggml_new_tensor_3d(m, kv_type, dk, cells, 1);
    ggml_tensor *  v     = ggml_new_tensor_3d(m, kv_type, dv, cells, 1);
    ggml_tensor *  mask  = ggml_new_tensor_2d(m, GGML_TYPE_F16, cells, rows);
    ggml_tensor *  sinks = ggml_new_tensor_1d(m, GGML_TYPE_F32, heads);
    ggml_tensor *  out   = ggml_flash_attn_ext(m, q, k, v, mask,
                                               assumption::broken(assumption::attention_op) ? 2 * scale : scale, 0, 0);
    ggml_flash_attn_ext_add_sinks(out, sinks);
    ggml_tensor * other = ggml_add(m, q, q);
    if (!f.allocate()) {
        return "ggml no longer allocates tensors for our device";
    }
    if (!ggml_backend_supports_op(f.backend.get(), out) || ggml_backend_supports_op(f.backend.get(), other)) {
        return "ggml no longer asks our device which operations it supports";
    }
    const auto               qs = fill(q, 1), ks = fill(k, 5000), vs = fill(v, 9000), ss = fill(sinks, 70);
    std::vector<ggml_fp16_t> bits(rows * cells);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cells; c++) {
            bits[r * cells + c] = ggml_fp32_to_fp16(sees(r, c) ? 0.0f : -INFINITY);
        }
    }
    ggml_backend_tensor_set(mask, bits.data(), 0, ggml_nbytes(mask));
    if (!f.compute(out)) {
        return "ggml no longer computes with our device";
    }
    std::vector<float> got(ggml_nelements(out));
    ggml_backend_tensor_get(out, got.data(), 0, ggml_nbytes(out));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t h = 0; h < heads; h++) {
            const auto want = plain(&qs[(h * rows + r) * dk], ks, vs, ss[h], r);
            for (int64_t d = 0; d < dv; d++) {
                if (differs(got[(r * heads + h) * dv + d], want[d])) {
                    return "ggml has other operands, parameters or layouts of FLASH_ATTN_EXT than agentd's attention reads";
                }
            }
        }
    }
    return nullptr;
}

const char * product_differs(ggml_backend_dev_t device) {
    fixture f(device);
    if (f.backend == nullptr) {
        return "ggml no longer makes a backend of our device";
    }
    ggml_context * m = f.meta.get();
    ggml_tensor *  w = ggml_new_tensor_2d(m, GGML_TYPE_F32, dk, outputs);
    ggml_tensor *  x = ggml_new_tensor_2d(m, GGML_TYPE_F32, dk, rows);
    ggml_tensor *  y = ggml_mul_mat(m, w, x);
    ggml_set_name(y, "result_output");
    ggml_set_output(y);
    if (!f.allocate()) {
        return "ggml no longer allocates tensors for our device";
    }
    ggml_backend_buffer_set_usage(f.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    const auto         ws = fill(w, 1), xs = fill(x, 400);
    std::vector<float> got(ggml_nelements(y));
    if (!f.compute(y)) {
        return "ggml no longer computes with our device";
    }
    ggml_backend_tensor_get_async(f.backend.get(), y, got.data(), 0, ggml_nbytes(y));
    ggml_backend_synchronize(f.backend.get());
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < outputs; o++) {
            double want = 0;
            for (int64_t d = 0; d < dk; d++) {
                want += double(ws[o * dk + d]) * xs[r * dk + d];
            }
            if (differs(got[r * outputs + o], want)) {
                return "ggml no longer reads a result through the backend that computes it";
            }
        }
    }
    return nullptr;
}

} // namespace

std::string self_test(ggml_backend_dev_t device) {
    const scope running;
    for (const ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 }) {
        if (const char * wrong = attention_differs(device, type)) {
            return std::string(wrong) + " (" + ggml_type_name(type) + ")";
        }
    }
    const char * wrong = product_differs(device);
    return wrong != nullptr ? wrong : "";
}

} // namespace agd::attention
