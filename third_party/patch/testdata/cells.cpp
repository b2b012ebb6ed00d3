// Random traces of what agentd-cells.h and agentd-mask.h do, against std::set and plain
// loops over all cells. patch_test.go compiles and runs it.
#include "agentd-mask.h"
#include "llama-batch.h"
#include "llama-kv-cells.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace {

std::mt19937 rng{ 1 };

int below(int n) {
    return static_cast<int>(rng() % static_cast<unsigned>(n));
}

void check(bool ok, const char * what, int line) {
    if (!ok) {
        std::fprintf(stderr, "cells.cpp:%d: not so: %s\n", line, what);
        std::exit(1);
    }
}
#define CHECK(x) check((x), #x, __LINE__)

void cell_sets() {
    agentd::cell_set   ours;
    std::set<uint32_t> theirs;
    for (int step = 0; step < 20000; step++) {
        const auto c = static_cast<uint32_t>(below(300));
        switch (below(step % 2000 < 1000 ? 3 : 5)) {
            case 0:
            case 1: ours.insert(c), theirs.insert(c); break;
            default: ours.erase(c), theirs.erase(c); break;
        }
        if (below(500) == 0) {
            ours.clear(), theirs.clear();
        }
        CHECK(ours.size() == theirs.size() && ours.empty() == theirs.empty());
        CHECK(theirs.empty() || (*ours.begin() == *theirs.begin() && *ours.rbegin() == *theirs.rbegin()));
    }
}

// Unusual positions have several cells, are negative or far away.
void position_sets(bool unusual) {
    agentd::position_set                   ours;
    std::set<std::pair<int32_t, uint32_t>> theirs;
    std::map<int32_t, uint32_t>            at; // the cell that a position may have
    for (int step = 0; step < 40000; step++) {
        int32_t  p = below(60);
        uint32_t c = static_cast<uint32_t>(below(5));
        if (unusual && below(10) == 0) {
            p = below(2) == 0 ? -1 - below(3) : (1 << 24) + below(3);
        }
        if (!unusual) {
            c = at.try_emplace(p, c).first->second;
        }
        if (below(step % 4000 < 2000 ? 3 : 5) < 2) {
            ours.insert({ p, c }), theirs.insert({ p, c });
        } else {
            CHECK(ours.erase({ p, c }) == theirs.erase({ p, c }));
            if (theirs.count({ p, c }) == 0) {
                at.erase(p);
            }
        }
        if (below(1000) == 0) {
            ours.clear(), theirs.clear(), at.clear();
        }
        CHECK(ours.size() == theirs.size() && ours.empty() == theirs.empty());
        CHECK(unusual || ours.regular());
        if (theirs.empty()) {
            CHECK(ours.begin() == ours.end());
            continue;
        }
        CHECK(*ours.begin() == *theirs.begin() && *ours.rbegin() == *theirs.rbegin());
        const std::pair<int32_t, uint32_t> some{ below(64) - 2, static_cast<uint32_t>(below(6)) };
        auto                               mine = ours.upper_bound(some);
        auto                               its  = theirs.upper_bound(some);
        CHECK((mine == ours.end()) == (its == theirs.end()) && (its == theirs.end() || *mine == *its));
        for (; its != theirs.begin() && below(4) != 0;) {
            CHECK(mine != ours.begin());
            CHECK(*--mine == *--its);
        }
        if (!unusual) {
            const int             p0 = below(70) - 5, p1 = below(70) - 5;
            std::vector<uint32_t> seen, want;
            ours.each(p0, p1, [&](uint32_t i) { seen.push_back(i); });
            for (const auto & e : theirs) {
                if (e.first >= p0 && e.first < p1) {
                    want.push_back(e.second);
                }
            }
            CHECK(seen == want);
        }
    }
}

// cache is cells, and what they should be.
struct cache {
    static constexpr uint32_t size = 400;
    static constexpr int      seqs = 12;

    struct cell {
        int           pos = -1;
        std::set<int> of;
    };

    llama_kv_cells    cells;
    std::vector<cell> want = std::vector<cell>(size);

    cache() { cells.resize(size); }

    int length(int s) const {
        int last = -1;
        for (const cell & c : want) {
            last = c.of.count(s) != 0 ? std::max(last, c.pos) : last;
        }
        return last + 1;
    }

    void append(int s) {
        for (uint32_t i = 0, from = below(size); i < size; i++) {
            const uint32_t at = (from + i) % size;
            if (want[at].pos < 0) {
                const int p = length(s);
                cells.pos_set(at, p);
                cells.seq_add(at, s);
                want[at] = { p, { s } };
                return;
            }
        }
    }

    void copy(int from, int to, int p0, int p1) {
        CHECK(agentd::copy(cells, from, to, p0, p1));
        for (cell & c : want) {
            if (c.pos >= p0 && c.pos < p1 && c.of.count(from) != 0) {
                c.of.insert(to);
            }
        }
    }

    void remove(int s, int p0, int p1) {
        uint32_t first = size, head = size;
        CHECK(agentd::remove(cells, s, p0, p1, head));
        for (uint32_t i = 0; i < size; i++) {
            cell & c = want[i];
            if (c.pos >= p0 && c.pos < p1 && c.of.erase(s) != 0 && c.of.empty()) {
                c.pos = -1;
                first = std::min(first, i);
            }
        }
        CHECK(head == first);
    }

    void verify() const {
        uint32_t used = 0, last = 0;
        for (uint32_t i = 0; i < size; i++) {
            CHECK(cells.is_empty(i) == (want[i].pos < 0));
            for (int s = 0; s < seqs; s++) {
                CHECK(cells.seq_has(i, s) == (want[i].of.count(s) != 0));
            }
            if (want[i].pos >= 0) {
                CHECK(cells.pos_get(i) == want[i].pos);
                used++, last = i + 1;
            }
        }
        CHECK(cells.get_used() == used && cells.used_max_p1() == last);
        for (int s = 0; s < seqs; s++) {
            CHECK(cells.seq_pos_max(s) == length(s) - 1);
        }
    }
};

// step does something that a server does.
void step(cache & c) {
    const int s = below(cache::seqs), other = below(cache::seqs), n = c.length(s);
    switch (below(8)) {
        case 0: c.remove(s, below(n + 1), below(2) == 0 ? below(n + 1) : std::numeric_limits<int>::max()); break;
        case 1:
            if (s != other) {
                c.remove(other, 0, std::numeric_limits<int>::max());
                c.copy(s, other, 0, below(n + 2));
            }
            break;
        case 2: // goes on with what both have
            if (s != other && c.length(other) == 0) {
                const int half = n / 2;
                c.copy(s, other, 0, half);
                c.copy(s, other, half, n);
            }
            break;
        default:
            for (int i = below(20); i > 0; i--) {
                c.append(s);
            }
    }
}

// mask writes one of random rows: some sequences with one, some with more. Those of one lie side by side, or apart.
void mask(cache & c) {
    std::vector<int32_t> seq, pos;
    for (int s = 0; s < cache::seqs; s++) {
        const int n = c.length(s), rows = std::min(n, below(3) == 0 ? below(40) : below(2));
        for (int i = 0; i < rows; i++) {
            seq.push_back(s);
            pos.push_back(n - rows + i);
        }
    }
    if (seq.empty()) {
        return;
    }
    if (below(3) == 0) {
        for (size_t i = seq.size() - 1; i > 0; i--) {
            const size_t j = below(static_cast<int>(i + 1));
            std::swap(seq[i], seq[j]), std::swap(pos[i], pos[j]);
        }
    }
    std::vector<int32_t *> ids;
    for (int32_t & s : seq) {
        ids.push_back(&s);
    }
    llama_ubatch batch{};
    batch.n_tokens       = seq.size();
    batch.pos            = pos.data();
    batch.seq_id         = ids.data();
    const size_t n_kv    = cache::size / 32 * 32 + 32; // 416
    const int    window  = below(2) == 0 ? 0 : 1 + below(50);
    const auto   find    = [&](int s) -> const auto & { return c.cells.positions(s); };
    const auto   visible = [&](size_t r, size_t i) {
        if (i >= cache::size || c.want[i].pos < 0 || c.want[i].of.count(seq[r]) == 0) {
            return false;
        }
        return c.want[i].pos <= pos[r] && (window == 0 || pos[r] - c.want[i].pos < window);
    };
    ggml_tensor t{};
    t.ne[0] = n_kv, t.ne[1] = seq.size(), t.ne[2] = t.ne[3] = 1;
    std::vector<float>    floats(n_kv * seq.size(), 7);
    std::vector<uint16_t> halves(n_kv * seq.size(), 7);
    agentd::row_lists     lists;
    lists.cells.assign(3000, 1);
    lists.rows.resize(300);
    t.type = GGML_TYPE_F32, t.data = floats.data();
    CHECK(agentd::fill_mask(&t, batch, window, find));
    t.type = GGML_TYPE_F16, t.data = halves.data();
    CHECK(agentd::fill_mask(&t, batch, window, find));
    static const agentd::graph_hooks hooks{};
    agentd::installed() = &hooks;
    t.extra = &lists, t.data = nullptr;
    CHECK(agentd::fill_mask(&t, batch, window, find) && lists.filled && lists.rows.size() == seq.size());
    agentd::installed() = nullptr;
    for (size_t r = 0; r < seq.size(); r++) {
        for (size_t i = 0; i < n_kv; i++) {
            const bool sees = visible(r, i);
            CHECK(floats[r * n_kv + i] == (sees ? 0.0f : -INFINITY));
            CHECK(halves[r * n_kv + i] == (sees ? 0 : 0xfc00));
            const auto & row = lists.rows[r];
            const int    p   = c.want[std::min<size_t>(i, cache::size - 1)].pos;
            CHECK(sees == (i < cache::size && p >= row.from && p < row.to && lists.cells[row.list + p] == i));
        }
    }
    // A sequence that has two cells at a position is not for us, and nothing is written.
    lists.filled = false;
    agentd::position_set twice;
    twice.insert({ 0, 1 }), twice.insert({ 0, 2 });
    CHECK(!agentd::fill_mask(&t, batch, window, [&](int) -> const auto & { return twice; }) && !lists.filled);
}

} // namespace

int main() {
    cell_sets();
    position_sets(false);
    position_sets(true);
    for (int trace = 0; trace < 20; trace++) {
        cache c;
        for (int i = 0; i < 200; i++) {
            step(c);
            c.verify();
            mask(c);
        }
    }
    std::puts("ok");
}
