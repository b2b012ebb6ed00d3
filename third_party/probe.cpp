// The probe runs the kernels that were just built and compares them with plain loops.
//
// That a library compiled for "this CPU" compiled says little: compilers have emitted AMX code that
// faults, and virtual machines report instructions that they do not run. So the build calls this program
// before it keeps its products. It multiplies matrices of the types that models are stored in, with every
// buffer type the CPU backend offers (repacked weights, AMX tiles), for one token, for a few and for many,
// because each of these takes another path through ggml.
//
// Exit status: 0 all right, 1 a wrong result or nothing to run, death by SIGILL a bad instruction.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int64_t kInner = 512; // columns of the weights; a multiple of every quantization block
constexpr int64_t kRows  = 96;  // rows of the weights; a multiple of every repacking group
constexpr int64_t kTokens[] = {1, 7, 64};

// Relative error of the result, as the ratio of norms. Activations are quantized to 8 bits on the way.
constexpr double kTolerance = 0.02;

std::vector<float> random_values(size_t n, uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    std::vector<float> v(n);
    for (float & x : v) x = normal(rng);
    return v;
}

// multiply runs y = W x on the backend, W of the given type in a buffer of the given type. It returns the
// relative error against plain loops over the dequantized W, or a negative number when the backend does
// not do this combination.
double multiply(ggml_backend_t backend, ggml_backend_buffer_type_t buft, ggml_type type, int64_t tokens) {
    ggml_init_params params = {ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, /*no_alloc=*/true};
    ggml_context * weights = ggml_init(params);
    ggml_context * compute = ggml_init(params);

    ggml_tensor * w = ggml_new_tensor_2d(weights, type, kInner, kRows);
    ggml_tensor * x = ggml_new_tensor_2d(compute, GGML_TYPE_F32, kInner, tokens);
    ggml_tensor * y = ggml_mul_mat(compute, w, x);

    double error = -1;
    ggml_backend_buffer_t wbuf = ggml_backend_alloc_ctx_tensors_from_buft(weights, buft);
    ggml_backend_buffer_t cbuf = ggml_backend_alloc_ctx_tensors(compute, backend);
    if (wbuf && cbuf && ggml_backend_supports_op(backend, y)) {
        const std::vector<float> wf = random_values(kInner * kRows, 1);
        const std::vector<float> xf = random_values(kInner * tokens, 2);

        std::vector<uint8_t> stored(ggml_nbytes(w));
        ggml_quantize_chunk(type, wf.data(), stored.data(), 0, kRows, kInner, nullptr);
        ggml_backend_tensor_set(w, stored.data(), 0, stored.size());
        ggml_backend_tensor_set(x, xf.data(), 0, xf.size() * sizeof(float));

        std::vector<float> plain(wf);
        if (const auto to_float = ggml_get_type_traits(type)->to_float) {
            to_float(stored.data(), plain.data(), kInner * kRows);
        }

        ggml_cgraph * graph = ggml_new_graph(compute);
        ggml_build_forward_expand(graph, y);
        if (ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS) {
            std::vector<float> got(kRows * tokens);
            ggml_backend_tensor_get(y, got.data(), 0, got.size() * sizeof(float));
            double diff = 0, norm = 0;
            for (int64_t t = 0; t < tokens; t++) {
                for (int64_t r = 0; r < kRows; r++) {
                    double want = 0;
                    for (int64_t i = 0; i < kInner; i++) want += double(plain[r * kInner + i]) * xf[t * kInner + i];
                    const double d = got[t * kRows + r] - want;
                    diff += d * d;
                    norm += want * want;
                }
            }
            error = std::sqrt(diff / norm);
            if (std::isnan(error)) error = INFINITY;
        }
    }
    ggml_backend_buffer_free(wbuf);
    ggml_backend_buffer_free(cbuf);
    ggml_free(weights);
    ggml_free(compute);
    return error;
}

} // namespace

int main(int argc, char ** argv) {
    // A build with one backend for each CPU generation has none until one is chosen from the directory.
    if (argc > 1) ggml_backend_load_all_from_path(argv[1]);
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!device) {
        fprintf(stderr, "probe: no CPU backend\n");
        return 1;
    }
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);

    std::vector<ggml_backend_buffer_type_t> bufts = {ggml_backend_dev_buffer_type(device)};
    const auto extra = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t * b = extra ? extra(device) : nullptr; b && *b; b++) bufts.push_back(*b);

    std::string ran;
    for (ggml_backend_buffer_type_t buft : bufts) {
        int multiplications = 0;
        for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                               GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_MXFP4}) {
            for (int64_t tokens : kTokens) {
                // Said before, so that a fault can be placed.
                fprintf(stderr, "probe: %s %s x%d\n", ggml_backend_buft_name(buft), ggml_type_name(type), int(tokens));
                const double error = multiply(backend, buft, type, tokens);
                if (error > kTolerance) {
                    fprintf(stderr, "probe: %s %s, %d tokens: wrong result, relative error %g\n",
                            ggml_backend_buft_name(buft), ggml_type_name(type), int(tokens), error);
                    return 1;
                }
                if (error >= 0) multiplications++;
            }
        }
        ran += std::string(" ") + ggml_backend_buft_name(buft) + ":" + std::to_string(multiplications);
    }
    printf("%s\n", ran.c_str());
    return 0;
}
