// Which cells each row of a batch sees, written into llama.cpp's mask from the lists of
// agentd-cells.h: the cells of its sequence, and not all cells of the cache one after the
// other, of which most hold prefixes that nobody looks at now.
//
// Where only agentd's own attention reads a mask, it gets lists of cells in the order of their positions.
#ifndef AGENTD_MASK_H
#define AGENTD_MASK_H

#include "agentd-cells.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace agentd {

// row_lists stands for a mask, whose ggml_tensor::extra points to it: the cells that each row sees, by their positions.
struct row_lists {
    static constexpr cell     none  = std::numeric_limits<cell>::max(); // no cell has this position
    static constexpr position chunk = 32;                               // lists begin and end at multiples of it

    struct row {
        int64_t  list;     // cells[list + p] has the position p
        position from, to; // the row sees these; to is not included
    };

    std::vector<cell> cells; // the lists of all sequences
    std::vector<row>  rows;
    bool              filled = false;
};

// layout is that of row_lists. Who writes them and who reads them are compiled apart: change it with them.
constexpr uint64_t layout = 4 << 16 | sizeof(row_lists);

// A hook is called when a graph has its memory, before its inputs are set. It says which masks are wanted as lists:
// extra points to row_lists that are not yet filled, or is null.
using graph_hook = void (*)(ggml_backend_sched_t sched, ggml_cgraph * graph);

struct graph_hooks {
    graph_hook before_inputs;
};

// installed is the hooks of all contexts, or null: then nobody sets extra.
inline std::atomic<const graph_hooks *> & installed() {
    static std::atomic<const graph_hooks *> hooks{ nullptr };
    return hooks;
}

// max_sequences is LLAMA_MAX_SEQ.
constexpr int max_sequences = 256;

// max_position bounds the length of lists.
constexpr position max_position = 1 << 24;

// T is the type whose bits make a value: 0 is seen, hidden is negative infinity.
template <typename T> struct values_writer {
    T *    to;
    size_t stride;
    T      hidden;

    T *  row(size_t r) { return to + r * stride; }
    void clear(size_t r) { std::fill_n(row(r), stride, hidden); }
    void copy(size_t r, size_t from) { std::copy_n(row(from), stride, row(r)); }
    void show(size_t r, cell c) { row(r)[c] = 0; }
};

// write writes the rows of a batch. A row sees its sequence up to its own position, of a
// window (0: none) only so many positions.
template <typename writer, typename batch, typename find>
void write(writer to, const batch & rows, size_t cells, position window, find && positions) {
    struct last {
        int64_t  row = -1; // that a sequence had
        position seen;
    };
    std::array<last, max_sequences> of;
    for (int64_t r = 0; r < static_cast<int64_t>(rows.n_tokens); r++) {
        const auto     seq  = rows.seq_id[r][0];
        const position pos  = rows.pos[r];
        last &         prev = of[seq];
        position       from = 0;
        if (window == 0 && prev.row >= 0 && prev.seen <= pos) {
            to.copy(r, prev.row);
            from = prev.seen + 1;
        } else {
            to.clear(r);
            from = window == 0 ? 0 : std::max(0, pos - window + 1);
        }
        positions(seq).each(from, pos + 1, [&](cell c) {
            if (c < cells) {
                to.show(r, c);
            }
        });
        prev = { r, pos };
    }
}

// list writes the rows of a batch as lists.
template <typename batch, typename find>
void list(row_lists & to, const batch & rows, size_t cells, position window, find && positions) {
    constexpr position chunk = row_lists::chunk;
    struct range {
        position from = std::numeric_limits<position>::max(), to = 0;
        int64_t  list = 0;
        bool     written = false;
    };
    std::array<range, max_sequences> of;
    to.cells.clear();
    to.rows.resize(rows.n_tokens);
    for (size_t r = 0; r < to.rows.size(); r++) {
        const position pos = rows.pos[r];
        range &        s   = of[rows.seq_id[r][0]];
        to.rows[r]         = { 0, window == 0 ? 0 : std::max(0, pos - window + 1), pos + 1 };
        s.from             = std::min(s.from, to.rows[r].from);
        s.to               = std::max(s.to, to.rows[r].to);
    }
    for (size_t r = 0; r < to.rows.size(); r++) {
        const auto seq = rows.seq_id[r][0];
        range &    s   = of[seq];
        if (!s.written) {
            const auto &   of_seq = positions(seq);
            const position first = s.from / chunk * chunk, end = (s.to + chunk - 1) / chunk * chunk;
            s.list    = static_cast<int64_t>(to.cells.size()) - first;
            s.written = true;
            auto at   = of_seq.from(first);
            for (position p = first; p < end; p++) {
                const cell c = at != of_seq.end() && at->first == p ? (at++)->second : row_lists::none;
                to.cells.push_back(c < cells ? c : row_lists::none);
            }
        }
        to.rows[r].list = s.list;
    }
    to.filled = true;
}

// fill_mask writes the mask of a batch whose rows see what came before them in their
// sequence; of a window (0: none) only so many positions. It says whether it has: an unusual
// sequence is left to llama.cpp's own loop. Positions of two dimensions (M-RoPE) order the cells of
// one position, such as those of an image; where each has one cell there is nothing to order.
template <typename batch, typename find>
bool fill_mask(ggml_tensor * mask, const batch & rows, position window, find && positions) {
    for (uint32_t r = 0; r < rows.n_tokens; r++) {
        const auto seq = rows.seq_id[r][0];
        if (seq < 0 || seq >= max_sequences || rows.pos[r] < 0 || rows.pos[r] >= max_position ||
            !positions(seq).regular()) {
            return false;
        }
    }
    const auto cells = static_cast<size_t>(mask->ne[0]);
    auto *     lists  = installed() != nullptr ? static_cast<row_lists *>(mask->extra) : nullptr;
    if (lists != nullptr) {
        list(*lists, rows, cells, window, positions);
    } else if (mask->type == GGML_TYPE_F16) {
        write(values_writer<uint16_t>{ static_cast<uint16_t *>(mask->data), cells, 0xfc00 }, rows, cells, window, positions);
    } else {
        uint32_t    hidden;
        const float infinity = -INFINITY;
        std::memcpy(&hidden, &infinity, sizeof hidden);
        write(values_writer<uint32_t>{ static_cast<uint32_t *>(mask->data), cells, hidden }, rows, cells, window, positions);
    }
    return true;
}

} // namespace agentd

// agentd_set_graph_hooks is defined by a llama.cpp that has the patch, and null in another. It
// returns false, and installs nothing, if llama.cpp was compiled with another layout. The hooks must stay.
extern "C" __attribute__((weak)) bool agentd_set_graph_hooks(const agentd::graph_hooks * hooks, uint64_t layout);

#endif
