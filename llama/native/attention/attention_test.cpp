// Compares the attention kernels and the planner with plain loops: every kernel that this CPU can run, every type
// of keys and values that has its own reader and one that has none, masks as values and as lists.
#include "attention/attention.h"
#include "testing/check.h"

#include "ggml.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

using namespace agd::attention;

namespace {

struct shape {
    int rows, cells, heads, kv_heads, dk, dv, groups;
};

struct problem {
    shape                 s;
    ggml_type             type;
    std::vector<float>    q, sinks;
    std::vector<uint8_t>  k, v;
    std::vector<uint16_t> mask; // F16
    float                 scale;

    bool sees(int row, int cell) const { return mask[size_t(row) * s.cells + cell] == 0; }
    void show(int row, int from, int to) {
        for (int c = from; c < to; c++) {
            mask[size_t(row) * s.cells + c] = 0;
        }
    }
};

using random = std::mt19937;

std::vector<uint8_t> random_values(random & r, ggml_type type, int64_t rows, int64_t n) {
    std::normal_distribution<float> normal;
    std::vector<float>              values(rows * n);
    for (float & x : values) {
        x = normal(r);
    }
    std::vector<uint8_t> stored(ggml_row_size(type, n) * rows);
    ggml_quantize_chunk(type, values.data(), stored.data(), 0, rows, n, nullptr);
    return stored;
}

problem make(const shape & s, ggml_type type, bool sinks, random & r) {
    problem                         p{ s, type, {}, {}, {}, {}, {}, 2 / std::sqrt(float(s.dk)) };
    std::normal_distribution<float> normal;
    p.q.resize(size_t(s.rows) * s.heads * s.dk);
    for (float & x : p.q) {
        x = normal(r);
    }
    for (int h = 0; sinks && h < s.heads; h++) {
        p.sinks.push_back(4 * normal(r));
    }
    p.k = random_values(r, type, int64_t(s.cells) * s.kv_heads, s.dk);
    p.v = random_values(r, type, int64_t(s.cells) * s.kv_heads, s.dv);
    p.mask.assign(size_t(s.rows) * s.cells, 0xfc00);
    return p;
}

std::vector<float> floats(const std::vector<uint8_t> & stored, ggml_type type) {
    const auto *       traits = ggml_get_type_traits(type);
    std::vector<float> out(stored.size() / traits->type_size * traits->blck_size);
    if (type == GGML_TYPE_F32) {
        std::memcpy(out.data(), stored.data(), stored.size());
        return out;
    }
    traits->to_float(stored.data(), out.data(), static_cast<int64_t>(out.size()));
    return out;
}

// The definition, in doubles and only over the cells that are seen.
std::vector<double> exact(const problem & p) {
    const shape &       s = p.s;
    const auto          k = floats(p.k, p.type), v = floats(p.v, p.type);
    std::vector<double> out(size_t(s.rows) * s.heads * s.dv);
    for (int row = 0; row < s.rows; row++) {
        for (int h = 0; h < s.heads; h++) {
            const int           kv = h / (s.heads / s.kv_heads);
            std::vector<double> score(s.cells);
            double              top = -std::numeric_limits<double>::infinity(), sum = 0;
            for (int c = 0; c < s.cells; c++) {
                if (!p.sees(row, c)) {
                    continue;
                }
                for (int d = 0; d < s.dk; d++) {
                    score[c] += double(p.q[(size_t(row) * s.heads + h) * s.dk + d]) *
                                k[(size_t(c) * s.kv_heads + kv) * s.dk + d];
                }
                score[c] *= p.scale;
                top = std::max(top, score[c]);
            }
            if (!p.sinks.empty()) {
                top = std::max(top, double(p.sinks[h]));
                sum = std::exp(p.sinks[h] - top);
            }
            double * o = &out[(size_t(row) * s.heads + h) * s.dv];
            for (int c = 0; c < s.cells; c++) {
                if (!p.sees(row, c)) {
                    continue;
                }
                const double w = std::exp(score[c] - top);
                sum += w;
                for (int d = 0; d < s.dv; d++) {
                    o[d] += w * v[(size_t(c) * s.kv_heads + kv) * s.dv + d];
                }
            }
            for (int d = 0; sum != 0 && d < s.dv; d++) {
                o[d] /= sum;
            }
        }
    }
    return out;
}

// The operands without q, sinks and the output.
operands operands_of(const problem & p) {
    const shape & s    = p.s;
    const auto    view = [&](const std::vector<uint8_t> & data, int n) {
        const size_t head = ggml_row_size(p.type, n);
        return make_kv_view(data.data(), p.type, head * s.kv_heads, head, n);
    };
    operands o{};
    o.k      = view(p.k, s.dk);
    o.v      = view(p.v, s.dv);
    o.dk     = s.dk;
    o.dv     = s.dv;
    o.heads  = s.heads;
    o.repeat = s.heads / s.kv_heads;
    o.q_row  = sizeof(float) * s.heads * s.dk;
    o.q_head = sizeof(float) * s.dk;
    o.scale  = p.scale;
    return o;
}

std::vector<float> computed(const problem & p, kernel run, bool as_lists) {
    const shape &      s = p.s;
    std::vector<float> out(size_t(s.rows) * s.heads * s.dv);
    operands           o = operands_of(p);
    o.q                  = reinterpret_cast<const char *>(p.q.data());
    o.out                = out.data();
    o.sinks              = p.sinks.empty() ? nullptr : p.sinks.data();
    agentd::row_lists lists; // the positions of a row are the cells that it sees, in their order
    for (int row = 0; as_lists && row < s.rows; row++) {
        const auto list = static_cast<int64_t>(lists.cells.size());
        for (int c = 0; c < s.cells; c++) {
            if (p.sees(row, c)) {
                lists.cells.push_back(c);
            }
        }
        lists.rows.push_back({ list, 0, static_cast<int>(lists.cells.size() - list) });
        lists.cells.resize((lists.cells.size() + tile - 1) / tile * tile, agentd::row_lists::none);
    }
    std::vector<group> groups;
    plan({ as_lists ? &lists : nullptr, p.mask.data(), size_t(s.cells), s.rows, s.cells }, s.groups, 2, groups);
    scratch_buffer scratch;
    for (const group & g : groups) {
        run(o, g, 0, s.kv_heads, scratch.reserve(scratch_floats(o, s.kv_heads)));
    }
    return out;
}

// Calls f with the result and the tolerance of each kernel, after it has compared both kinds of masks.
void each_kernel(const problem & p, const std::function<void(const std::vector<float> &, double)> & f) {
    const auto run = [&](kernel k, int number, double tolerance) {
        const auto got = computed(p, k, false), lists = computed(p, k, true);
        CHECK(std::memcmp(got.data(), lists.data(), got.size() * sizeof(float)) == 0,
              "kernel %d differs with the mask as lists", number);
        f(got, tolerance);
    };
    for (const kernel * k = kernels(); *k != nullptr; k++) {
        run(*k, int(k - kernels()), 5e-6);
    }
    for (const kernel * k = packed_kernels(); *k != nullptr && packable(operands_of(p)); k++) {
        run(*k, -1 - int(k - packed_kernels()), 0.03);
    }
}

struct mask_kind {
    const char * name;
    void (*fill)(problem & p, random & r);
};

const mask_kind mask_kinds[] = {
    { "everything",
      [](problem & p, random &) {
          for (int row = 0; row < p.s.rows; row++) {
              p.show(row, 0, p.s.cells);
          }
      } },
    { "nothing for some rows",
      [](problem & p, random &) {
          for (int row = 0; row < p.s.rows; row += 2) {
              p.show(row, 3, 70);
          }
      } },
    { "a prompt of many tokens",
      [](problem & p, random &) {
          for (int row = 0; row < p.s.rows; row++) {
              p.show(row, 5, p.s.cells - p.s.rows + row + 1);
          }
      } },
    { "candidates of prompts, grown together",
      [](problem & p, random &) {
          for (int row = 0; row < p.s.rows; row++) {
              const int prompt = row / 4 * 40 % 100;
              p.show(row, 0, 45);
              p.show(row, 50 + prompt, 50 + prompt + 37);
              for (int c = 150 + row; c < p.s.cells; c += p.s.rows) {
                  p.show(row, c, c + 1);
              }
          }
      } },
    { "prompts computed a few tokens at a time",
      [](problem & p, random &) {
          for (int row = 0; row < p.s.rows; row++) {
              for (int c = row % 3 * 7; c + 7 < p.s.cells - 40; c += 21) {
                  p.show(row, c, c + 7);
              }
              p.show(row, p.s.cells - 40, p.s.cells - 40 + row % 30);
          }
      } },
    { "single cells anywhere",
      [](problem & p, random & r) {
          for (int row = 0; row < p.s.rows; row++) {
              for (int n = int(r() % 100); n > 0; n--) {
                  const int c = int(r() % p.s.cells);
                  p.show(row, c, c + 1);
              }
          }
      } },
    { "runs anywhere",
      [](problem & p, random & r) {
          for (int row = 0; row < p.s.rows; row++) {
              for (int n = int(r() % 8); n > 0; n--) {
                  const int c = int(r() % p.s.cells);
                  p.show(row, c, std::min(p.s.cells, c + int(r() % 60)));
              }
          }
      } },
};

const shape shapes[] = {
    { 1, 256, 2, 1, 64, 64, 1 },     { 7, 256, 4, 2, 64, 64, 2 },
    { 64, 512, 4, 4, 128, 128, 1 },  { 100, 288, 6, 2, 80, 48, 3 },
    { 130, 256, 8, 1, 16, 32, 200 }, { 20, 2240, 2, 1, 32, 32, 2 }, // more tiles than the planner reads at a time
};

constexpr ggml_type kv_types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 };

void is_exact(const problem & p, const std::string & name) {
    const auto want = exact(p);
    each_kernel(p, [&](const std::vector<float> & got, double tolerance) {
        for (size_t i = 0; i < want.size(); i++) {
            CHECK(std::fabs(got[i] - want[i]) < tolerance, "%s: value %zu is %g, want %g", name.c_str(), i,
                  double(got[i]), want[i]);
        }
    });
}

void matches_the_definition() {
    for (const auto & mask : mask_kinds) {
        for (size_t i = 0; i < std::size(shapes); i++) {
            for (const bool sinks : { false, true }) {
                random  r(static_cast<unsigned>(i));
                problem p = make(shapes[i], GGML_TYPE_F16, sinks, r);
                mask.fill(p, r);
                is_exact(p, std::string(mask.name) + ", shape " + std::to_string(i));
            }
        }
    }
    for (const ggml_type type : kv_types) {
        random  r(1);
        problem p = make({ 40, 256, 4, 2, 96, 64, 2 }, type, false, r);
        mask_kinds[3].fill(p, r);
        is_exact(p, ggml_type_name(type));
    }
}

// The figures of README.md: random queries, keys and values, 1,024 cells, scores with a deviation of 1 and of 4.
void errors_are_as_documented() {
    for (const ggml_type type : { GGML_TYPE_F16, GGML_TYPE_Q8_0 }) {
        for (const float deviation : { 1.0f, 4.0f }) {
            random  r(3);
            problem p = make({ 8, 1024, 16, 8, 128, 128, 1 }, type, false, r);
            p.scale   = deviation / std::sqrt(float(p.s.dk));
            mask_kinds[0].fill(p, r);
            const auto want = exact(p);
            each_kernel(p, [&](const std::vector<float> & got, double tolerance) {
                double most = 0, squares = 0, size = 0;
                for (size_t i = 0; i < want.size(); i++) {
                    most = std::max(most, std::fabs(got[i] - want[i]));
                    squares += (got[i] - want[i]) * (got[i] - want[i]);
                    size += want[i] * want[i];
                }
                const double error = std::sqrt(squares / double(want.size())),
                             rms   = std::sqrt(size / double(want.size()));
                std::printf("%s, deviation %g, tolerance %g: results %.2g, error %.1e, at most %.1e\n",
                            ggml_type_name(type), double(deviation), tolerance, rms, error, most);
                CHECK(error < (tolerance > 1e-3 ? 0.01 : 1e-6) * rms, "the error is larger");
            });
        }
    }
}

// Puts a number that is not finite into every value of a cell. Blocks of quantized types begin with an F16 factor.
void spoil(std::vector<uint8_t> & stored, ggml_type type, int cells, int cell, float bad) {
    const size_t size = stored.size() / cells, step = ggml_type_size(type);
    for (size_t at = cell * size; at < (cell + 1) * size; at += step) {
        if (type == GGML_TYPE_F32) {
            std::memcpy(&stored[at], &bad, sizeof bad);
        } else if (type == GGML_TYPE_BF16) {
            const ggml_bf16_t x = ggml_fp32_to_bf16(bad);
            std::memcpy(&stored[at], &x, sizeof x);
        } else {
            const ggml_fp16_t x = ggml_fp32_to_fp16(bad);
            std::memcpy(&stored[at], &x, sizeof x);
        }
    }
    if (type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0) { // no zeros: 0 times infinity is another number
        for (size_t at = cell * size; at < (cell + 1) * size; at += step) {
            std::memset(&stored[at + 2], 0x11, step - 2);
        }
    }
}

// A cell that is not finite changes only the rows that see it.
void hidden_cells_harm_no_row() {
    constexpr int victim   = 140;
    const float   infinity = std::numeric_limits<float>::infinity();
    for (const float bad : { infinity, -infinity, std::numeric_limits<float>::quiet_NaN() }) {
        for (const ggml_type type : kv_types) {
            for (const auto & mask : mask_kinds) {
                random  r(2);
                problem p = make(shapes[1], type, false, r);
                mask.fill(p, r);
                spoil(p.k, type, p.s.cells, victim, bad);
                spoil(p.v, type, p.s.cells, victim, bad);
                const auto want = exact(p);
                each_kernel(p, [&](const std::vector<float> & got, double tolerance) {
                    for (int row = 0; row < p.s.rows; row++) {
                        for (int i = row * p.s.heads * p.s.dv; i < (row + 1) * p.s.heads * p.s.dv; i++) {
                            if (p.sees(row, victim)) {
                                CHECK(!std::isfinite(got[i]), "%s, %s: row %d sees %g and value %d is %g", mask.name,
                                      ggml_type_name(type), row, double(bad), i, double(got[i]));
                            } else {
                                CHECK(std::fabs(got[i] - want[i]) < tolerance,
                                      "%s, %s: row %d does not see %g, value %d is %g, want %g", mask.name,
                                      ggml_type_name(type), row, double(bad), i, double(got[i]), want[i]);
                            }
                        }
                    }
                });
            }
        }
    }
}

} // namespace

int main() {
    if (kernels()[0] == nullptr) {
        std::printf("this CPU has neither AVX-512 nor AVX2: nothing to test\n");
    }
    matches_the_definition();
    errors_are_as_documented();
    hidden_cells_harm_no_row();
    return testing::result();
}
