// Products of matrices by ggml's CPU backend against plain loops, for the types of weights that the patch computes: all
// widths of a batch, rows that do not fill a job, and several threads. With the patch and AVX2, a row alone has the same
// bits as in each batch; with an expert, too.
//
//     products                    checks them
//     products few                checks some widths of a batch, for emulators
//     products TYPE ROWS THREADS  prints the GFLOP/s of one: the best of five by processor time, with weights that fit no cache
//     products TYPE ROWS THREADS USED  the same for 64 experts of 512 rows, of which each row of activations takes USED
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr int   widest  = 70; // rows of a batch
constexpr float epsilon = 1e-5f;

struct product {
    ggml_type type;
    int       in, out; // columns of the input and of the output
    int       batches = 1;
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

// Rows of values in the type.
std::vector<char> converted(const product & p, const std::vector<float> & values) {
    std::vector<char> v(ggml_row_size(p.type, p.in) * (values.size() / p.in));
    if (p.type == GGML_TYPE_F32) {
        std::memcpy(v.data(), values.data(), v.size());
    } else {
        ggml_quantize_chunk(p.type, values.data(), v.data(), 0, values.size() / p.in, p.in, nullptr);
    }
    return v;
}

std::vector<float> as_floats(const product & p, const std::vector<char> & weights) {
    std::vector<float> v(static_cast<size_t>(p.in) * p.out);
    if (p.type == GGML_TYPE_F32) {
        std::memcpy(v.data(), weights.data(), weights.size());
    } else {
        ggml_get_type_traits(p.type)->to_float(weights.data(), v.data(), v.size());
    }
    return v;
}

using backend = std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)>;

backend with_threads(int n) {
    backend b(ggml_backend_cpu_init(), ggml_backend_free);
    ggml_backend_cpu_set_n_threads(b.get(), n);
    return b;
}

// A backend that computes ggml's own products, in buffers that the patch has sized.
backend with_references(int threads) {
    backend b = with_threads(threads);
    ggml_backend_cpu_set_use_ref(b.get(), true);
    return b;
}

// Where weights of the type lie after llama.cpp has loaded a model: in a buffer of repacked weights, if that takes them.
ggml_backend_buffer_type_t place_of(ggml_backend_t backend, ggml_tensor * product) {
    const auto dev = ggml_backend_get_device(backend);
    const auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts"));
    for (auto * type = get != nullptr ? get(dev) : nullptr; type != nullptr && *type != nullptr; type++) {
        ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(*type, 0);
        product->src[0]->buffer     = empty;
        const bool takes            = ggml_backend_dev_supports_op(dev, product);
        product->src[0]->buffer     = nullptr;
        ggml_backend_buffer_free(empty);
        if (takes) {
            return *type;
        }
    }
    return ggml_backend_get_default_buffer_type(backend);
}

template <class T, void (*F)(T *)> struct deleter {
    void operator()(T * p) const { F(p); }
};

// A graph with one product: rows of an input times weights, or times those of the experts that each row names.
class computation {
  public:
    computation(ggml_backend_t backend, const product & p, int rows, const std::vector<char> & weights,
                ggml_op_hint hint = GGML_HINT_NONE)
        : computation(backend, static_cast<size_t>(p.out) * rows * p.batches) {
        w                    = ggml_new_tensor_2d(weights_ctx.get(), p.type, p.in, p.out);
        x                    = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, p.in, rows, p.batches);
        ggml_tensor * result = ggml_mul_mat(ctx.get(), w, x);
        ggml_mul_mat_set_hint(result, hint);
        finish(result, weights);
    }

    // chosen has `used` experts for each of some rows. The experts of a row share its input, or have one each.
    computation(ggml_backend_t backend, const product & p, const std::vector<int32_t> & chosen, int used, bool shared,
                const std::vector<char> & weights)
        : computation(backend, p.out * chosen.size()) {
        const int64_t rows    = chosen.size() / used;
        const int64_t experts = weights.size() / (ggml_row_size(p.type, p.in) * p.out);
        w                     = ggml_new_tensor_3d(weights_ctx.get(), p.type, p.in, p.out, experts);
        x                     = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, p.in, shared ? 1 : used, rows);
        auto * all            = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_I32, used + 3,
                                                   rows); // as in a model, ids are a part of it
        finish(ggml_mul_mat_id(ctx.get(), w, x, ggml_view_2d(ctx.get(), all, used, rows, all->nb[1], 0)), weights);
        for (int64_t r = 0; r < rows; r++) {
            ggml_backend_tensor_set(all, &chosen[r * used], r * all->nb[1], used * sizeof(int32_t));
        }
    }

    // RMS norms of rows, each of which is multiplied with one factor.
    computation(ggml_backend_t backend, int in, const std::vector<float> & factors)
        : computation(backend, in * factors.size()) {
        w                = ggml_new_tensor_2d(weights_ctx.get(), GGML_TYPE_F32, 1, factors.size());
        x                = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, in, factors.size());
        const auto bytes = reinterpret_cast<const char *>(factors.data());
        finish(ggml_mul(ctx.get(), ggml_rms_norm(ctx.get(), x, epsilon), w), { bytes, bytes + ggml_nbytes(w) });
    }

    const std::vector<float> & run(const float * input) {
        std::fill(out.begin(), out.end(), NAN);
        ggml_backend_tensor_set(x, input, 0, ggml_nbytes(x));
        if (ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS) {
            ggml_backend_tensor_get(y, out.data(), 0, ggml_nbytes(y));
        }
        return out;
    }

  private:
    using context        = std::unique_ptr<ggml_context, deleter<ggml_context, ggml_free>>;
    using backend_buffer = std::unique_ptr<ggml_backend_buffer, deleter<ggml_backend_buffer, ggml_backend_buffer_free>>;

    computation(ggml_backend_t backend, size_t results) : backend(backend), out(results) {
        weights_ctx.reset(ggml_init({ ggml_tensor_overhead(), nullptr, true }));
        ctx.reset(ggml_init({ 8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true }));
    }

    void finish(ggml_tensor * result, const std::vector<char> & weights) {
        y = result;
        weights_buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_ctx.get(), place_of(backend, y)));
        buffer.reset(ggml_backend_alloc_ctx_tensors(ctx.get(), backend));
        ggml_backend_tensor_set(w, weights.data(), 0, weights.size());
        graph = ggml_new_graph(ctx.get());
        ggml_build_forward_expand(graph, y);
    }

    ggml_backend_t     backend;
    std::vector<float> out;
    context            weights_ctx, ctx;
    backend_buffer     weights_buffer, buffer;
    ggml_tensor *      w, *x, *y;
    ggml_cgraph *      graph;
};

// The rounding of activations in relation to the largest of a block, or to each one. Sums of floats add little to it.
double rounding(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return 1e-6;
        case GGML_TYPE_F16: return 1.0 / 1024;
        case GGML_TYPE_BF16: return 1.0 / 256;
        default: return 1.0 / 254 + 1.0 / 1024;
    }
}

// One row in double precision.
bool row_is_right(const product & p, const std::vector<float> & weights, const float * x, const float * y) {
    const float largest = *std::max_element(x, x + p.in, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    for (int o = 0; o < p.out; o++) {
        double sum = 0, bound = 0;
        for (int i = 0; i < p.in; i++) {
            const double w = weights[static_cast<size_t>(o) * p.in + i];
            sum += w * x[i];
            bound += std::fabs(w) * rounding(p.type) * std::fabs(ggml_is_quantized(p.type) ? largest : x[i]);
        }
        if (!(std::fabs(sum - y[o]) <= bound)) { // NaN is wrong, too
            std::printf("%s, %d to %d columns: column %d is %g, want %g\n", ggml_type_name(p.type), p.in, p.out, o,
                        y[o], sum);
            return false;
        }
    }
    return true;
}

bool same_bits_in_each_batch() {
#if defined(PATCHED)
    return ggml_cpu_has_avx2() != 0 && ggml_cpu_has_fma() != 0 && ggml_cpu_has_f16c() != 0;
#else
    return false;
#endif
}

bool check(const product & p, bool few) {
    const auto weights = converted(p, random_values(static_cast<size_t>(p.in) * p.out, 1));
    const auto floats  = as_floats(p, weights);
    const auto input   = random_values(static_cast<size_t>(p.in) * widest * p.batches, 2);

    const auto         one = with_threads(1);
    std::vector<float> alone;
    computation        row(one.get(), { p.type, p.in, p.out }, 1, weights);
    for (int r = 0; r < widest * p.batches; r++) {
        const float * x = &input[static_cast<size_t>(r) * p.in];
        const auto &  y = row.run(x);
        if (!row_is_right(p, floats, x, y.data())) {
            return false;
        }
        alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const int threads : { 1, 2, 3 }) {
        const auto several = with_threads(threads);
        for (int rows = 1; rows <= widest; rows += !few || rows == 5 ? 1 : rows == 1 ? 4 : 16) {
            const int    first = (widest - rows) / 2; // so that rows have different places in batches
            computation  some(several.get(), p, rows, weights);
            const auto & y = some.run(&input[static_cast<size_t>(first) * p.in]);
            for (int r = 0; r < rows * p.batches; r++) {
                const float *got  = &y[static_cast<size_t>(r) * p.out],
                            *want = &alone[static_cast<size_t>(first + r) * p.out];
                const bool right  = same_bits_in_each_batch()
                                        ? std::memcmp(got, want, p.out * sizeof(float)) == 0
                                        : row_is_right(p, floats, &input[static_cast<size_t>(first + r) * p.in], got);
                if (!right) {
                    std::printf("%s, %d to %d columns, %d threads: row %d of %d differs from that row alone\n",
                                ggml_type_name(p.type), p.in, p.out, threads, r, rows);
                    return false;
                }
            }
        }
    }
    const auto   reference = with_references(3);
    computation  all(reference.get(), p, widest, weights);
    const auto & y = all.run(input.data());
    for (int r = 0; r < widest * p.batches; r++) {
        if (!row_is_right(p, floats, &input[static_cast<size_t>(r) * p.in], &y[static_cast<size_t>(r) * p.out])) {
            std::printf("the reference of row %d is not right\n", r);
            return false;
        }
    }
    return true;
}

// Products of experts: each pair of a row and an expert has the result of that row alone and the expert's matrix.
bool check_experts(const product & p, bool few) {
    constexpr int experts = 8, inputs = 128;
    const auto    weights = converted(p, random_values(static_cast<size_t>(p.in) * p.out * experts, 1));
    const size_t  size    = weights.size() / experts;
    const auto    input   = random_values(static_cast<size_t>(p.in) * inputs, 2);
    const auto    one     = with_threads(1);

    std::vector<std::vector<float>> floats, alone; // of each expert
    for (int e = 0; e < experts; e++) {
        const std::vector<char> own(weights.begin() + e * size, weights.begin() + (e + 1) * size);
        computation             row(one.get(), p, { e }, 1, true, weights); // repacked or not, as for all
        floats.push_back(as_floats(p, own));
        alone.emplace_back();
        for (int r = 0; r < inputs; r++) {
            const auto & y = row.run(&input[static_cast<size_t>(r) * p.in]);
            if (!row_is_right(p, floats[e], &input[static_cast<size_t>(r) * p.in], y.data())) {
                std::printf("%s, %d to %d columns: row %d with expert %d is not right\n", ggml_type_name(p.type), p.in,
                            p.out, r, e);
                return false;
            }
            alone[e].insert(alone[e].end(), y.begin(), y.end());
        }
    }
    std::mt19937 random(3);
    for (const int threads : { 1, 2, 3 }) {
        const auto several = with_threads(threads);
        for (const int rows :
             few ? std::vector<int>{ 1, 7, 40 } : std::vector<int>{ 1, 2, 3, 5, 6, 7, 12, 17, 32, 33, 64, 100, 128 }) {
            for (int used = 1; used <= experts; used += few ? 3 : 1) {
                for (const bool shared : { true, false }) {
                    std::vector<int32_t> chosen;
                    std::vector<float>   x;
                    std::vector<int>     from; // which input a pair has
                    const int            hot     = rows % 3 == 0 ? static_cast<int>(random() % experts)
                                                                 : -1; // all rows choose it first
                    const int            without = used < experts && hot != 3 ? 3 : -1; // no row chooses it
                    for (int r = 0; r < rows; r++) {
                        int all[experts], n = 0;
                        for (int e = 0; e < experts; e++) {
                            if (e != hot && e != without) {
                                all[n++] = e;
                            }
                        }
                        std::shuffle(all, all + n, random);
                        for (int i = 0; i < used; i++) {
                            chosen.push_back(hot < 0 ? all[i] : i == 0 ? hot : all[i - 1]);
                            from.push_back(shared ? r : (r * used + i) % inputs);
                            if (i == 0 || !shared) {
                                const float * row = &input[static_cast<size_t>(from.back()) * p.in];
                                x.insert(x.end(), row, row + p.in);
                            }
                        }
                    }
                    computation  some(several.get(), p, chosen, used, shared, weights);
                    const auto & y = some.run(x.data());
                    for (size_t i = 0; i < chosen.size(); i++) {
                        const float *got  = &y[i * p.out],
                                    *want = &alone[chosen[i]][static_cast<size_t>(from[i]) * p.out];
                        const bool right  = same_bits_in_each_batch()
                                                ? std::memcmp(got, want, p.out * sizeof(float)) == 0
                                                : row_is_right(p, floats[chosen[i]],
                                                               &input[static_cast<size_t>(from[i]) * p.in], got);
                        if (!right) {
                            std::printf(
                                "%s, %d to %d columns, %d threads, %d rows with %d experts each: pair %zu differs from that row alone\n",
                                ggml_type_name(p.type), p.in, p.out, threads, rows, used, i);
                            return false;
                        }
                    }
                }
            }
        }
    }
    std::vector<int32_t> chosen(inputs);
    std::iota(chosen.begin(), chosen.end(), 0);
    std::for_each(chosen.begin(), chosen.end(), [](int32_t & e) { e %= experts; });
    const auto   reference = with_references(3);
    computation  all(reference.get(), p, chosen, 1, true, weights);
    const auto & y = all.run(input.data());
    for (int r = 0; r < inputs; r++) {
        if (!row_is_right(p, floats[chosen[r]], &input[static_cast<size_t>(r) * p.in],
                          &y[static_cast<size_t>(r) * p.out])) {
            std::printf("the reference of row %d with expert %d is not right\n", r, chosen[r]);
            return false;
        }
    }
    return true;
}

const ggml_type types[] = { GGML_TYPE_F32,  GGML_TYPE_F16,    GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                            GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
                            GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4 };

// Types of experts that inference/load counts as invariant because ggml computes each of their rows alone.
const ggml_type experts_of_ggml[] = { GGML_TYPE_Q2_K, GGML_TYPE_Q3_K };

// Matrices with one part of a panel and with several, with and without a rest, for blocks of 8, 32 and 256 weights.
bool check_all(bool few) {
    for (const ggml_type type : types) {
        const int block = std::max<int>(ggml_blck_size(type), 8);
        for (const product p : { product{ type, block, 4 }, product{ type, 5 * block, 80 }, product{ type, 256, 48 },
                                 product{ type, 3 * block, 24, 2 }, product{ type, block == 256 ? 768 : 1056, 33 },
                                 product{ type, block == 8 ? 8200 : block, 33 } }) {
            if (!check(p, few)) {
                return false;
            }
        }
        if (!check_experts({ type, block, 48 }, few) ||
            !check_experts({ type, block == 8 ? 72 : 2 * block, 33 }, true)) {
            return false;
        }
    }
    return std::all_of(std::begin(experts_of_ggml), std::end(experts_of_ggml),
                       [&](ggml_type type) { return check_experts({ type, 512, 48 }, few); });
}

// A product with the hint of a Hadamard transform is left to ggml, which reads no weights for it: weights of zero give
// other values than zero.
bool transforms_are_left_to_ggml() {
    const product p{ GGML_TYPE_F32, 64, 64 };
    const auto    one = with_threads(1);
    computation   some(one.get(), p, 1, converted(p, std::vector<float>(64 * 64)), GGML_HINT_SRC0_IS_HADAMARD);
    const auto &  y     = some.run(random_values(p.in, 1).data());
    const bool    right = std::all_of(y.begin(), y.end(), [](float v) { return std::isfinite(v) && v != 0; });
    if (!right) {
        std::printf("a Hadamard transform is computed as a product with its matrix\n");
    }
    return right;
}

// RMS norms of rows, each multiplied with a factor: as in double precision, and a row alone has the same bits.
bool norms_and_factors_are_right() {
    constexpr int rows = 7;
    for (const int in : { 1, 15, 16, 33, 1024 }) {
        const auto input = random_values(static_cast<size_t>(in) * rows, 1), factors = random_values(rows, 2);
        for (const int threads : { 1, 3 }) {
            const auto   several = with_threads(threads), one = with_threads(1);
            computation  all(several.get(), in, factors);
            const auto & results = all.run(input.data());
            for (int r = 0; r < rows; r++) {
                const float *x = &input[static_cast<size_t>(r) * in], *y = &results[static_cast<size_t>(r) * in];
                computation  alone(one.get(), in, { factors[r] });
                bool         right   = std::memcmp(alone.run(x).data(), y, in * sizeof(float)) == 0;
                const double squares = std::inner_product(x, x + in, x, 0.0) / in;
                for (int i = 0; i < in; i++) {
                    const double want = x[i] / std::sqrt(squares + epsilon) * factors[r];
                    right             = right && std::fabs(y[i] - want) <= 1e-6 * std::fabs(want);
                }
                if (!right) {
                    std::printf("row %d of %d numbers: the norm times a factor is not right\n", r, in);
                    return false;
                }
            }
        }
    }
    return true;
}

// used is 0 for one matrix.
int time_product(const char * name, int rows, int threads, int used) {
    for (const ggml_type type : types) {
        if (std::strcmp(name, ggml_type_name(type)) != 0) {
            continue;
        }
        constexpr int     experts = 64;
        const product     p{ type, used > 0 ? 1024 : 512, used > 0 ? 512 : 32768 };
        const auto        some = converted(p, random_values(static_cast<size_t>(p.in) * 64, 1));
        std::vector<char> weights;
        for (int i = 0; i < p.out / 64 * (used > 0 ? experts : 1); i++) {
            weights.insert(weights.end(), some.begin(), some.end());
        }
        std::mt19937         random(3);
        std::vector<int32_t> chosen, all(experts);
        std::iota(all.begin(), all.end(), 0);
        for (int r = 0; r < rows && used > 0; r++) {
            std::shuffle(all.begin(), all.end(), random);
            chosen.insert(chosen.end(), all.begin(), all.begin() + used);
        }
        const auto input = random_values(static_cast<size_t>(p.in) * rows, 2);
        const auto b     = with_threads(threads);
        const auto c     = used > 0 ? std::make_unique<computation>(b.get(), p, chosen, used, true, weights)
                                    : std::make_unique<computation>(b.get(), p, rows, weights);
        double     best  = 0;
        for (int i = 0; i < 5; i++) {
            const std::clock_t began = std::clock();
            c->run(input.data());
            const double took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / threads;
            best              = std::max(best, 2e-9 * p.in * p.out * rows * std::max(used, 1) / took);
        }
        std::printf("%.1f\n", best);
        return EXIT_SUCCESS;
    }
    std::printf("no type %s\n", name);
    return EXIT_FAILURE;
}

} // namespace

#if defined(VARIANT) // of libraries for each generation of processors
extern "C" int ggml_backend_score();
#else
static int ggml_backend_score() {
    return 1;
}
#endif

int main(int argc, char ** argv) {
    if (ggml_backend_score() == 0) {
        std::printf("this processor cannot run the library\n");
        return EXIT_SUCCESS;
    }
    if (argc == 4 || argc == 5) {
        return time_product(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argc == 5 ? std::atoi(argv[4]) : 0);
    }
    ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const bool few = argc == 2 && std::strcmp(argv[1], "few") == 0;
    return transforms_are_left_to_ggml() && norms_and_factors_are_right() && check_all(few) ? EXIT_SUCCESS
                                                                                            : EXIT_FAILURE;
}
