// Who sees which cells. Candidates of one prompt see the prompt's cells, agents
// with the same rules and tools see those; the cells of generated tokens belong
// to one row each and lie scattered, because all sequences grow at once.
#include "attention.h"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace agd::attention {

namespace {

// From so many cells on a row takes part in a tile that lies as it is in the
// cache, with the cells that it does not see computed in vain. Below, its cells
// are gathered.
constexpr int dense = 12;

// The cells of a tile that a row sees. A mask has millions of values.
uint32_t seen(const uint16_t * mask) {
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

void fill(const uint16_t * mask, size_t stride, int cells, group & g) {
    const size_t n = g.rows.size();
    std::vector<std::vector<uint32_t>> own(n);
    for (int first = 0; first < cells; first += tile) {
        const uint32_t begin = static_cast<uint32_t>(g.entries.size());
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = seen(mask + g.rows[i] * stride + first);
            if (__builtin_popcount(bits) >= dense) {
                g.entries.push_back({ static_cast<uint32_t>(i), bits });
                continue;
            }
            for (; bits != 0; bits &= bits - 1) {
                own[i].push_back(first + __builtin_ctz(bits));
            }
        }
        const uint32_t end = static_cast<uint32_t>(g.entries.size());
        if (end > begin) {
            g.tiles.push_back({ static_cast<uint32_t>(first), begin, end });
        }
    }
    for (const auto & list : own) {
        g.own.push_back(static_cast<uint32_t>(g.cells.size()));
        g.cells.insert(g.cells.end(), list.begin(), list.end());
    }
    g.own.push_back(static_cast<uint32_t>(g.cells.size()));
}

} // namespace

void plan(const uint16_t * mask, size_t stride, int rows, int cells, int groups, std::vector<group> & out) {
    groups = std::clamp(groups, (rows + max_group - 1) / max_group, rows);
    out.clear();
    out.resize(groups);
    for (int i = 0; i < groups; i++) {
        for (int row = rows * i / groups; row < rows * (i + 1) / groups; row++) {
            out[i].rows.push_back(row);
        }
    }
    for (auto & g : out) {
        fill(mask, stride, cells, g);
    }
}

} // namespace agd::attention
