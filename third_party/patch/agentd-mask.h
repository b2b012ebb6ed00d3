// Which cells each row of a batch sees, written into llama.cpp's mask from the lists of
// agentd-cells.h: the cells of its sequence, and not all cells of the cache one after the
// other, of which most hold prefixes that nobody looks at now.
//
// Where only agentd's own attention reads a mask, it gets lists of cells in the order of their positions. Where a
// device gathers the cells that rows see, they are counted.
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
    // The mask is written as values, and only the numbers below are wanted; cells is scratch space.
    bool    count      = false;
    int32_t row_cells  = 0; // the most cells that a row sees
    int32_t tile_cells = 0; // the most cells that the rows of a tile see together: see tile_rows
};

// tile_rows is how many rows share one list of gathered cells in ggml's CUDA code: rows 0 to 7, 8 to 15 and so on.
constexpr int tile_rows = 8;

// layout is that of row_lists. Who writes them and who reads them are compiled apart: change it with them.
constexpr uint64_t layout = 3 << 16 | sizeof(row_lists);

// graph_hooks are called when a graph has its memory: before its inputs are set, and after. The first says what is
// wanted of which masks: extra points to row_lists that are not yet filled, or is null.
using graph_hook = void (*)(ggml_backend_sched_t sched, ggml_cgraph * graph);

struct graph_hooks {
    graph_hook before_inputs, after_inputs;
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

// mask_name is what llama.cpp calls all masks. name_masks appends a point and a digit.
constexpr char mask_name[] = "attn_inp_kq_mask";

// name_masks numbers the masks of a graph that has just been built. ggml's scheduler gives each device a copy
// whose name contains that of the mask.
inline void name_masks(ggml_cgraph * graph) {
    int n = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        ggml_tensor *       mask = node->op == GGML_OP_FLASH_ATTN_EXT ? node->src[3] : nullptr;
        // With one digit no name contains another.
        if (mask != nullptr && mask->op == GGML_OP_NONE && n < 10 && std::strcmp(mask->name, mask_name) == 0) {
            ggml_format_name(mask, "%s.%d", mask_name, n++);
        }
    }
}

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

// count finds row_cells and tile_cells of a batch.
template <typename batch, typename find>
void count(row_lists & to, const batch & rows, size_t cells, position window, find && positions) {
    struct last {
        int64_t  tile = -1; // in which a sequence had its last row
        position seen;
        int32_t  cells; // that row saw
    };
    std::array<last, max_sequences> of;
    std::vector<uint32_t> &         tile_of = to.cells; // the last tile that saw a cell, from 1 on
    tile_of.assign(cells, 0);
    to.row_cells = to.tile_cells = 0;
    int32_t together             = 0; // what the rows of this tile see
    for (int64_t r = 0; r < static_cast<int64_t>(rows.n_tokens); r++) {
        const int64_t  tile = r / tile_rows;
        const position pos  = rows.pos[r];
        const auto &   list = positions(rows.seq_id[r][0]);
        last &         prev = of[rows.seq_id[r][0]];
        const bool     more = window == 0 && prev.tile >= 0 && prev.seen <= pos; // it sees all that prev saw
        const position from = window == 0 ? 0 : std::max(0, pos - window + 1);
        int32_t        n    = more ? prev.cells : 0;
        together            = r % tile_rows == 0 ? 0 : together;
        list.each(more ? prev.seen + 1 : from, pos + 1, [&](cell c) { n += c < cells; });
        list.each(more && prev.tile == tile ? prev.seen + 1 : from, pos + 1, [&](cell c) {
            if (c < cells && tile_of[c] != tile + 1) {
                tile_of[c] = tile + 1;
                together++;
            }
        });
        to.row_cells  = std::max(to.row_cells, n);
        to.tile_cells = std::max(to.tile_cells, together);
        prev          = { tile, pos, n };
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
    if (lists != nullptr && lists->count) {
        count(*lists, rows, cells, window, positions);
        lists = nullptr;
    }
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
