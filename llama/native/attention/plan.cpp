// Finds which rows see which cells, tile by tile in the order of positions. A tile always has the same positions, so
// a row's sums have the same order whatever is computed beside it and wherever its cells lie. Candidates of one
// prompt share the tiles of the prompt; agents with the same rules and tools share those. Where sequences part, each
// has its own tile.
#include "attention/attention.h"

#include <algorithm>
#include <limits>
#include <numeric>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace agd::attention {

namespace {

using agentd::cell;
using agentd::position;
using agentd::row_lists;

// Which of two tiles' cells are the same, as bits.
uint32_t equal(const cell * a, const cell * b) {
    uint32_t bits = 0;
#if defined(__SSE2__)
    const auto load = [](const cell * p) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)); };
    const auto four = [&](int i) { return _mm_cmpeq_epi32(load(a + i), load(b + i)); };
    for (int i = 0; i < tile; i += 16) {
        const __m128i low = _mm_packs_epi32(four(i), four(i + 4)), high = _mm_packs_epi32(four(i + 8), four(i + 12));
        bits |= static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) << i;
    }
#else
    for (int i = 0; i < tile; i++) {
        bits |= static_cast<uint32_t>(a[i] == b[i]) << i;
    }
#endif
    return bits;
}

// The lowest n bits.
uint32_t lowest(position n) {
    return n <= 0 ? 0 : n >= tile ? ~0u : (1u << n) - 1;
}

// A tile of cells that some rows see.
struct variant {
    cell               cells[tile];
    uint32_t           seen;
    std::vector<entry> entries;
    uint32_t           place; // of its block: see planner::add
};

class planner {
  public:
    planner(const row_lists & lists, group & g) : lists_(lists), g_(g) {
        std::fill_n(nobody_, tile, row_lists::none);
        position from = std::numeric_limits<position>::max(), to = 0;
        for (const uint32_t row : g.rows) {
            from = std::min(from, lists.rows[row].from / tile * tile);
            to   = std::max(to, lists.rows[row].to);
        }
        for (; from < to; from += tile) {
            add(from);
        }
        order();
    }

  private:
    const row_lists &    lists_;
    group &              g_;
    cell                 nobody_[tile];
    std::vector<variant> variants_; // of one tile; the others keep their memory
    size_t               used_ = 0;
    // Blocks have the order of these places, and of positions where they are the same. Blocks of rows that have parted
    // from others are then side by side, so that their queries and outputs stay in the processor's cache.
    std::vector<uint32_t> places_;
    uint32_t              place_of_[max_group] = {}; // the last block of each row

    // Adds the tile that begins with a position.
    void add(position first) {
        used_ = 0;
        for (uint32_t i = 0; i < g_.rows.size(); i++) {
            const row_lists::row & r   = lists_.rows[g_.rows[i]];
            const uint32_t         own = lowest(r.to - first) & ~lowest(r.from - first);
            if (own == 0) {
                continue;
            }
            const cell *   cells = lists_.cells.data() + r.list + first;
            const uint32_t seen  = own & ~equal(cells, nobody_);
            if (seen == 0) {
                continue;
            }
            variant & v = find(cells, seen);
            for (uint32_t fresh = seen & ~v.seen; fresh != 0; fresh &= fresh - 1) {
                v.cells[__builtin_ctz(fresh)] = cells[__builtin_ctz(fresh)];
            }
            v.seen |= seen;
            v.entries.push_back({ i, seen });
            v.place = std::max({ v.place, v.entries[0].row, place_of_[i] });
        }
        for (size_t n = 0; n < used_; n++) {
            const variant & v = variants_[n];
            for (const entry & e : v.entries) {
                place_of_[e.row] = v.place;
            }
            places_.push_back(v.place);
            const auto begin = static_cast<uint32_t>(g_.entries.size());
            g_.entries.insert(g_.entries.end(), v.entries.begin(), v.entries.end());
            g_.blocks.push_back({ static_cast<uint32_t>(g_.cells.size()),
                                  static_cast<uint32_t>(tile - __builtin_clz(v.seen)), begin,
                                  static_cast<uint32_t>(g_.entries.size()) });
            g_.cells.insert(g_.cells.end(), v.cells, v.cells + tile);
        }
    }

    void order() {
        std::vector<uint32_t> at(g_.blocks.size());
        std::iota(at.begin(), at.end(), 0);
        std::stable_sort(at.begin(), at.end(), [&](uint32_t a, uint32_t b) { return places_[a] < places_[b]; });
        std::vector<block> blocks;
        for (const uint32_t i : at) {
            blocks.push_back(g_.blocks[i]);
        }
        g_.blocks.swap(blocks);
    }

    // The variant that has the cells that a row sees, or space for them. Else a new one.
    variant & find(const cell * cells, uint32_t seen) {
        for (size_t n = 0; n < used_; n++) {
            variant &      v    = variants_[n];
            const uint32_t both = v.seen & seen;
            if (both == 0 ||
                (v.cells[__builtin_ctz(both)] == cells[__builtin_ctz(both)] && (both & ~equal(v.cells, cells)) == 0)) {
                return v;
            }
        }
        if (used_ == variants_.size()) {
            variants_.emplace_back();
        }
        variant & v = variants_[used_++];
        std::copy_n(nobody_, tile, v.cells);
        v.seen = v.place = 0;
        v.entries.clear();
        return v;
    }
};

// Reads values as lists. A row's list goes on with the one before if it begins with it: a prompt's rows have one.
void read(const mask_view & mask, row_lists & to) {
    constexpr uint64_t hidden = 0xfc00fc00fc00fc00; // four values
    size_t             list = 0, size = 0;          // the last list
    for (int row = 0; row < mask.rows; row++) {
        size_t     n   = 0; // cells of this row
        const auto see = [&](cell c) {
            if (n < size && to.cells[list + n] != c) {
                const size_t before = list;
                list                = (to.cells.size() + tile - 1) / tile * tile;
                size                = n;
                to.cells.resize(list, row_lists::none);
                to.cells.resize(list + n);
                std::copy_n(to.cells.begin() + before, n, to.cells.begin() + list);
            }
            if (n == size) {
                to.cells.push_back(c);
                size++;
            }
            n++;
        };
        const uint16_t * values = mask.values + row * mask.stride;
        for (int c = 0; c < mask.cells; c += 4) {
            uint64_t four;
            __builtin_memcpy(&four, values + c, sizeof four);
            for (int i = c; four != hidden && i < c + 4; i++) {
                if (values[i] == 0) {
                    see(i);
                }
            }
        }
        to.rows.push_back({ static_cast<int64_t>(list), 0, static_cast<position>(n) });
    }
    to.cells.resize((to.cells.size() + tile - 1) / tile * tile, row_lists::none);
}

} // namespace

void plan(const mask_view & mask, int groups, int threads, std::vector<group> & out) {
    row_lists values;
    if (mask.lists == nullptr) {
        read(mask, values);
    }
    const row_lists & lists = mask.lists != nullptr ? *mask.lists : values;
    const int         rows  = mask.rows;
    groups                  = std::clamp(groups, (rows + max_group - 1) / max_group, rows);
    out.clear();
    out.resize(groups);
    for (int i = 0; i < groups; i++) {
        for (int row = rows * i / groups; row < rows * (i + 1) / groups; row++) {
            out[i].rows.push_back(row);
        }
    }
#pragma omp parallel for num_threads(std::min(threads, groups)) schedule(dynamic, 1)
    for (int i = 0; i < groups; i++) {
        planner(lists, out[i]);
    }
}

} // namespace agd::attention
