// Finds which rows see which cells. Candidates of one prompt share the prompt's cells; agents with the same rules
// and tools share those. Cells of generated tokens belong to one row each. The cells of one sequence lie apart
// where several sequences grew at once.
#include "attention/attention.h"

#include <algorithm>
#include <unordered_map>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace agd::attention {

namespace {

// A row that sees so many cells of a tile uses the tile as it lies in the cache; the cells that it does not see
// are computed in vain. Below that, its cells are gathered. A prompt that was computed some tokens at a time beside
// others has half of many tiles, and computing these whole took twice as long.
constexpr int min_dense = 28;

// The cells of a tile that a row sees, as bits. A mask has millions of values.
uint32_t visible_bits(const uint16_t * mask) {
#if defined(__SSE2__)
    const auto half = [](const uint16_t * p) {
        const __m128i zero = _mm_setzero_si128();
        const __m128i low  = _mm_cmpeq_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)), zero);
        const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 8)), zero);
        return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
    };
    return half(mask) | half(mask + 16) << 16;
#else
    uint32_t bits = 0;
    for (int i = 0; i < tile; i++) {
        bits |= static_cast<uint32_t>(mask[i] == 0) << i;
    }
    return bits;
#endif
}

// Cells that lie apart and that the same rows see: a prompt computed a few tokens at a time beside others, seen by
// all its continuations.
struct gathered_cells {
    row_set               rows;
    std::vector<uint32_t> cells;
};

class planner {
  public:
    planner(const mask_view & mask, group & g) : g_(g) {
        const int tiles = mask.cells / tile;
        for (int from = 0; from < tiles; from += stretch) {
            const int n            = std::min(stretch, tiles - from);
            row_set   any[stretch] = {}; // the rows that see a cell of a tile
            for (size_t i = 0; i < g.rows.size(); i++) {
                const auto note = [&](int t, uint32_t bits) {
                    bits_[t][i] = bits;
                    any[t] |= row_set{ 1 } << i;
                };
                if (mask.bits != nullptr) {
                    const agentd::bit_rows & b   = *mask.bits;
                    const uint32_t *         row = b.words.data() + g.rows[i] * b.stride + from;
                    for (uint64_t left = b.which[g.rows[i] * b.which_stride + from / stretch]; left != 0;
                         left &= left - 1) {
                        const int t = __builtin_ctzll(left);
                        note(t, row[t]);
                    }
                    continue;
                }
                const uint16_t * row = mask.values + g.rows[i] * mask.stride + static_cast<size_t>(from) * tile;
                for (int t = 0; t < n; t++) {
                    if (const uint32_t bits = visible_bits(row + t * tile); bits != 0) {
                        note(t, bits);
                    }
                }
            }
            for (int t = 0; t < n; t++) {
                if (any[t] != 0) {
                    add(any[t], bits_[t], (from + t) * tile);
                }
            }
        }
        gather_rest();
    }

  private:
    // A mask is read row by row, so many tiles of each at a time, for the sake of the cache: one word of
    // bit_rows::which.
    static constexpr int stretch = 64;

    uint32_t                              bits_[stretch][max_group];
    group &                               g_;
    std::vector<gathered_cells>           lists_;
    std::unordered_map<row_set, uint32_t> index_; // of lists_

    // Adds the tile that begins with the cell first, of which each row sees its bits.
    void add(row_set rows, const uint32_t * bits, int first) {
        row_set      rows_of[tile] = {};
        const size_t begin         = g_.entries.size();
        for (; rows != 0; rows &= rows - 1) {
            const int i = __builtin_ctzll(rows);
            if (__builtin_popcount(bits[i]) >= min_dense) {
                g_.entries.push_back({ static_cast<uint32_t>(i), bits[i] });
                continue;
            }
            for (uint32_t b = bits[i]; b != 0; b &= b - 1) {
                rows_of[__builtin_ctz(b)] |= row_set{ 1 } << i;
            }
        }
        if (g_.entries.size() > begin) {
            end_block(first, 0, begin);
        }
        for (int c = 0; c < tile; c++) {
            if (rows_of[c] != 0) {
                gather_cell(rows_of[c], first + c);
            }
        }
    }

    void end_block(uint32_t first, uint32_t gathered, size_t begin) {
        g_.blocks.push_back(
            { first, gathered, static_cast<uint32_t>(begin), static_cast<uint32_t>(g_.entries.size()) });
    }

    void gather_cell(row_set rows, uint32_t cell) {
        const auto [at, fresh] = index_.try_emplace(rows, static_cast<uint32_t>(lists_.size()));
        if (fresh) {
            lists_.push_back({ rows, {} });
        }
        gathered_cells & s = lists_[at->second];
        s.cells.push_back(cell);
        if (s.cells.size() == tile) {
            gather(&s, 1);
            s.cells.clear();
        }
    }

    // Makes one block of the cells of some lists, at most a tile together.
    void gather(const gathered_cells * lists, size_t n) {
        const size_t first = g_.cells.size(), begin = g_.entries.size();
        uint32_t     of_row[max_group] = {};
        row_set      all               = 0;
        for (size_t l = 0; l < n; l++) {
            const uint32_t bits = (lists[l].cells.size() == tile ? ~0u : (1u << lists[l].cells.size()) - 1)
                                  << (g_.cells.size() - first);
            g_.cells.insert(g_.cells.end(), lists[l].cells.begin(), lists[l].cells.end());
            for (row_set r = lists[l].rows; r != 0; r &= r - 1) {
                of_row[__builtin_ctzll(r)] |= bits;
            }
            all |= lists[l].rows;
        }
        for (; all != 0; all &= all - 1) {
            const int row = __builtin_ctzll(all);
            g_.entries.push_back({ static_cast<uint32_t>(row), of_row[row] });
        }
        end_block(static_cast<uint32_t>(first), static_cast<uint32_t>(g_.cells.size() - first), begin);
    }

    // Makes blocks of the rest of the lists. Lists with rows in common share a block: the tokens of one prompt in
    // this step, for example, of which each row sees one more.
    void gather_rest() {
        lists_.erase(
            std::remove_if(lists_.begin(), lists_.end(), [](const gathered_cells & s) { return s.cells.empty(); }),
            lists_.end());
        size_t from = 0;
        while (from < lists_.size()) {
            size_t  to = from, cells = 0;
            row_set all = lists_[from].rows;
            while (to < lists_.size() && cells + lists_[to].cells.size() <= tile && (lists_[to].rows & all) != 0) {
                all |= lists_[to].rows;
                cells += lists_[to++].cells.size();
            }
            gather(&lists_[from], to - from);
            from = to;
        }
    }
};

} // namespace

void plan(const mask_view & mask, int groups, int threads, std::vector<group> & out) {
    const int rows = mask.rows;
    groups         = std::clamp(groups, (rows + max_group - 1) / max_group, rows);
    out.clear();
    out.resize(groups);
    for (int i = 0; i < groups; i++) {
        for (int row = rows * i / groups; row < rows * (i + 1) / groups; row++) {
            out[i].rows.push_back(row);
        }
    }
    const int used_threads = std::min(threads, groups);
    (void) used_threads;
#ifdef _OPENMP
#pragma omp parallel for num_threads(used_threads) schedule(dynamic, 1)
#endif
    for (int i = 0; i < groups; i++) {
        planner(mask, out[i]);
    }
}

} // namespace agd::attention
