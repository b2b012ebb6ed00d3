// A row's result depends only on its own query and cells, bit for bit. Random histories whose sequences part are
// computed many rows at a time: with cells anywhere in the cache, prompts cut anywhere, any number of groups, and
// cells of nobody that are not finite. Each row must give the bits that it gives alone in another cache.
#include "attention/attention.h"
#include "testing/check.h"

#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace agd::attention;

namespace {

std::mt19937 rng{ 1 };

int below(int n) {
    return static_cast<int>(rng() % static_cast<unsigned>(n));
}

struct shape {
    ggml_type type;
    int       heads, kv_heads, dk, dv;
    bool      sinks;
};

std::vector<float> random_floats(size_t n, float factor) {
    std::normal_distribution<float> normal;
    std::vector<float>              x(n);
    std::generate(x.begin(), x.end(), [&] { return factor * normal(rng); });
    return x;
}

// Tokens, each of which goes on from another one or begins a sequence.
struct history {
    shape                         s;
    std::vector<std::vector<int>> sequences; // tokens by position
    std::vector<uint8_t>          k, v;      // of each token
    std::vector<float>            sinks;
    int                           tokens = 0;

    history(const shape & shape, int n) : s(shape) {
        while (static_cast<int>(sequences.size()) < n) {
            std::vector<int> path;
            if (!sequences.empty() && below(5) != 0) {
                path = sequences[below(static_cast<int>(sequences.size()))];
                path.resize(below(static_cast<int>(path.size())) + 1);
            }
            for (int more = 1 + below(below(3) == 0 ? 150 : 40); more > 0; more--) {
                path.push_back(tokens++);
            }
            sequences.push_back(path);
        }
        k     = stored(s.dk);
        v     = stored(s.dv);
        sinks = random_floats(s.sinks ? s.heads : 0, 2);
    }

    std::vector<uint8_t> stored(int n) const {
        const auto           values = random_floats(size_t(tokens) * s.kv_heads * n, 1);
        std::vector<uint8_t> to(ggml_row_size(s.type, n) * s.kv_heads * tokens);
        ggml_quantize_chunk(s.type, values.data(), to.data(), 0, int64_t(tokens) * s.kv_heads, n, nullptr);
        return to;
    }
};

// The row of a sequence at a position.
struct row {
    int                sequence, position;
    std::vector<float> q;
};

// llama.cpp's batch, as far as the mask is concerned.
struct batch {
    size_t                 n_tokens = 0;
    std::vector<int32_t>   pos, sequences;
    std::vector<int32_t *> seq_id;
};

// Computes rows over a cache that has the first tokens of each sequence at random cells, and junk in all others.
std::vector<float> computed(const history & h, kernel run, const std::vector<row> & rows,
                            const std::vector<int> & lengths, int window, int groups, int threads) {
    const shape &    s     = h.s;
    const int        cells = (h.tokens + below(100)) / tile * tile + tile;
    std::vector<int> place(cells);
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), rng);
    std::vector<agentd::position_set> positions(lengths.size());
    const size_t                      k_head = ggml_row_size(s.type, s.dk), v_head = ggml_row_size(s.type, s.dv);
    const size_t                      k_cell = k_head * s.kv_heads, v_cell = v_head * s.kv_heads;
    std::vector<uint8_t> k(k_cell * cells, 0xff), v(v_cell * cells, below(2) == 0 ? 0xff : 0x11); // 0xff: NaN
    for (size_t n = 0; n < lengths.size(); n++) {
        for (int p = 0; p < lengths[n]; p++) {
            const int token = h.sequences[n][p], cell = place[token];
            positions[n].insert({ p, cell });
            std::memcpy(&k[cell * k_cell], &h.k[token * k_cell], k_cell);
            std::memcpy(&v[cell * v_cell], &h.v[token * v_cell], v_cell);
        }
    }
    batch              b;
    std::vector<float> q;
    for (const row & r : rows) {
        b.pos.push_back(r.position);
        b.sequences.push_back(r.sequence);
        q.insert(q.end(), r.q.begin(), r.q.end());
    }
    b.n_tokens = rows.size();
    for (int32_t & x : b.sequences) {
        b.seq_id.push_back(&x);
    }
    agentd::row_lists lists;
    agentd::list(lists, b, cells, window, [&](int n) -> const auto & { return positions[n]; });
    std::vector<group> plans;
    plan({ &lists, nullptr, 0, int(rows.size()), cells }, groups, threads, plans);
    std::vector<float> out(rows.size() * s.heads * s.dv);
    operands           o{};
    o.q      = reinterpret_cast<const char *>(q.data());
    o.k      = make_kv_view(k.data(), s.type, k_cell, k_head, s.dk);
    o.v      = make_kv_view(v.data(), s.type, v_cell, v_head, s.dv);
    o.out    = out.data();
    o.sinks  = s.sinks ? h.sinks.data() : nullptr;
    o.dk     = s.dk;
    o.dv     = s.dv;
    o.heads  = s.heads;
    o.repeat = s.heads / s.kv_heads;
    o.q_row  = sizeof(float) * s.heads * s.dk;
    o.q_head = sizeof(float) * s.dk;
    o.scale  = 2 / std::sqrt(float(s.dk));
    scratch_buffer scratch;
    for (const group & g : plans) {
        for (int head = 0, n; head < s.kv_heads; head += n) {
            n = 1 + below(s.kv_heads - head);
            run(o, g, head, n, scratch.reserve(scratch_floats(o, n)));
        }
    }
    return out;
}

void same_bits_as_alone(const shape & s) {
    const history    h(s, 2 + below(30));
    const int        sequences = static_cast<int>(h.sequences.size());
    const int        window    = below(3) == 0 ? 1 + below(100) : 0;
    std::vector<int> lengths;
    std::vector<row> rows;
    for (int n = 0; n < sequences; n++) {
        const int length = static_cast<int>(h.sequences[n].size());
        lengths.push_back(1 + below(length)); // others may have parted later
        for (int i = below(4) == 0 ? std::min(lengths[n], 1 + below(70)) : below(2); i > 0; i--) {
            rows.push_back({ n, lengths[n] - i, random_floats(size_t(s.heads) * s.dk, 1) });
        }
    }
    std::shuffle(rows.begin(), rows.begin() + (below(2) == 0 ? 0 : rows.size()), rng);
    if (rows.empty()) {
        return;
    }
    const size_t        size = size_t(s.heads) * s.dv;
    std::vector<kernel> all;
    for (const kernel * k = kernels(); *k != nullptr; k++) {
        all.push_back(*k);
    }
    operands o{};
    o.k  = make_kv_view(nullptr, s.type, 0, 0, s.dk);
    o.v  = make_kv_view(nullptr, s.type, 0, 0, s.dv);
    o.dk = s.dk;
    o.dv = s.dv;
    for (const kernel * k = packed_kernels(); *k != nullptr && packable(o); k++) {
        all.push_back(*k);
    }
    for (size_t k = 0; k < all.size(); k++) {
        const auto together = computed(h, all[k], rows, lengths, window, 1 + below(5), 1 + below(3));
        for (size_t i = 0; i < rows.size(); i++) {
            std::vector<int> own(sequences);
            own[rows[i].sequence] = rows[i].position + 1;
            const auto alone      = computed(h, all[k], { rows[i] }, own, window, 1, 1);
            CHECK(std::memcmp(alone.data(), &together[i * size], size * sizeof(float)) == 0,
                  "kernel %zu, %s, window %d: row %zu of %zu, position %d", k, ggml_type_name(s.type), window, i,
                  rows.size(), rows[i].position);
        }
    }
}

} // namespace

int main() {
    for (int i = 0; i < 20; i++) {
        for (const ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 }) {
            same_bits_as_alone({ type, 2, 2, 64, 64, false });
            same_bits_as_alone({ type, 6, 2, 96, 32, true });
            same_bits_as_alone({ type, 4, 1, 32, 128, false });
        }
    }
    return testing::result();
}
