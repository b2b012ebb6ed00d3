// Products of matrices by ggml's CPU backend against plain loops, for the types that the patch touches: all widths of
// a batch, rows that do not fill a job, and several threads. With the patch, and AVX2 but no AVX-512, a row of a
// BF16 product has the same bits in each batch.
//
//     products                    checks them
//     products TYPE ROWS THREADS  prints the GFLOP/s of one: the best of five, with weights that fit no cache
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

// Rows of a batch: up to four tiles of three and one of one, and several blocks of 24 tiles.
constexpr int widths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 100 };
constexpr int widest   = 100;

struct product {
    ggml_type type;
    int       in, out; // columns of the input and of the output
};

std::vector<float> random_values(size_t n, unsigned seed) {
    std::mt19937                    random(seed);
    std::normal_distribution<float> normal;
    std::vector<float>              v(n);
    for (float & x : v) {
        x = normal(random);
    }
    return v;
}

// The first `rows` rows of an input times weights, which are converted to the type.
class computation {
  public:
    computation(const product & p, int rows, int threads, const std::vector<float> & weights,
                const std::vector<float> & input)
        : out(static_cast<size_t>(p.out) * rows, NAN), backend(ggml_backend_cpu_init()),
          ctx(ggml_init({ 8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true })) {
        ggml_backend_cpu_set_n_threads(backend, threads);
        ggml_tensor * w = ggml_new_tensor_2d(ctx, p.type, p.in, p.out);
        ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, p.in, rows);
        y               = ggml_mul_mat(ctx, w, x);
        buffer          = ggml_backend_alloc_ctx_tensors(ctx, backend);

        std::vector<char> converted(ggml_nbytes(w));
        if (p.type == GGML_TYPE_F32) {
            std::memcpy(converted.data(), weights.data(), converted.size());
        } else {
            ggml_quantize_chunk(p.type, weights.data(), converted.data(), 0, p.out, p.in, nullptr);
        }
        ggml_backend_tensor_set(w, converted.data(), 0, converted.size());
        ggml_backend_tensor_set(x, input.data(), 0, ggml_nbytes(x));
        graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, y);
    }

    computation(const computation &)             = delete;
    computation & operator=(const computation &) = delete;

    ~computation() {
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
        ggml_backend_free(backend);
    }

    const std::vector<float> & run() {
        if (ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS) {
            ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
        }
        return out;
    }

  private:
    std::vector<float>    out;
    ggml_backend_t        backend;
    ggml_context *        ctx;
    ggml_tensor *         y;
    ggml_backend_buffer_t buffer;
    ggml_cgraph *         graph;
};

// One row in double precision. The bound is that of rounding weights and activations to the type.
bool row_is_right(const product & p, const std::vector<float> & weights, const float * x, const float * y) {
    const double unit = p.type == GGML_TYPE_F32 ? 1e-6 : p.type == GGML_TYPE_F16 ? 1.0 / 1024 : 1.0 / 128;
    for (int o = 0; o < p.out; o++) {
        double sum = 0, size = 0;
        for (int i = 0; i < p.in; i++) {
            const double term = double{ weights[static_cast<size_t>(o) * p.in + i] } * x[i];
            sum += term;
            size += std::fabs(term);
        }
        if (!(std::fabs(sum - y[o]) <= unit * size)) { // NaN is wrong, too
            std::printf("%s, %d to %d columns: column %d is %g, want %g\n", ggml_type_name(p.type), p.in, p.out, o,
                        y[o], sum);
            return false;
        }
    }
    return true;
}

bool same_bits_in_each_batch(ggml_type type) {
#if defined(PATCHED) && defined(__x86_64__)
    return type == GGML_TYPE_BF16 && __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f");
#else
    (void) type;
    return false;
#endif
}

bool check(const product & p, int threads) {
    const auto   weights = random_values(static_cast<size_t>(p.in) * p.out, 1);
    const auto   input   = random_values(static_cast<size_t>(p.in) * widest, 2);
    computation  all(p, widest, threads, weights, input);
    const auto & widest_batch = all.run();
    for (const int rows : widths) {
        computation  some(p, rows, threads, weights, input);
        const auto & batch = some.run();
        for (int r = 0; r < rows; r++) {
            const size_t at = static_cast<size_t>(r) * p.out;
            if (!row_is_right(p, weights, &input[static_cast<size_t>(r) * p.in], &batch[at])) {
                std::printf("in row %d of %d, %d threads\n", r, rows, threads);
                return false;
            }
            if (same_bits_in_each_batch(p.type) &&
                std::memcmp(&batch[at], &widest_batch[at], p.out * sizeof(float)) != 0) {
                std::printf("%s, %d to %d columns, %d threads: row %d differs between batches of %d and %d rows\n",
                            ggml_type_name(p.type), p.in, p.out, threads, r, rows, widest);
                return false;
            }
        }
    }
    return true;
}

const ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };

int time_product(const char * name, int rows, int threads) {
    for (const ggml_type type : types) {
        if (std::strcmp(name, ggml_type_name(type)) != 0) {
            continue;
        }
        const product p{ type, 512, 32768 };
        computation   c(p, rows, threads, random_values(static_cast<size_t>(p.in) * p.out, 1),
                        random_values(static_cast<size_t>(p.in) * rows, 2));
        double        best = 0;
        for (int i = 0; i < 5; i++) {
            const auto began = std::chrono::steady_clock::now();
            c.run();
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
            best                                     = std::max(best, 2e-9 * p.in * p.out * rows / took.count());
        }
        std::printf("%.1f\n", best);
        return EXIT_SUCCESS;
    }
    std::printf("no type %s\n", name);
    return EXIT_FAILURE;
}

} // namespace

int main(int argc, char ** argv) {
    if (argc == 4) {
        return time_product(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
    }
    for (const ggml_type type : types) {
        for (const int in : { 8, 40, 64, 200 }) {
            for (const int out : { 4, 8, 12, 16, 24, 48, 80 }) { // jobs of 4, 8 and 16 columns
                for (const int threads : { 1, 2, 3 }) {
                    if (!check({ type, in, out }, threads)) {
                        return EXIT_FAILURE;
                    }
                }
            }
        }
    }
    return EXIT_SUCCESS;
}
