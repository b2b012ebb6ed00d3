// Which cells each row of a batch sees, written into llama.cpp's mask from the lists of
// agentd-cells.h: the cells of its sequence, and not all cells of the cache one after the
// other, of which most hold prefixes that nobody looks at now.
//
// Where only agentd's own attention reads a mask, it is written as bits. Where a device gathers the cells that rows
// see, they are counted.
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
#include <vector>

namespace agentd {

// bit_rows stands for a mask, whose ggml_tensor::extra points to it: bit c % 32 of word c / 32 of
// a row is cell c, which that row sees. Words hold something only where a row sees something: bit
// w % 64 of which[w / 64] says that of word w.
struct bit_rows {
    std::vector<uint32_t> words;
    std::vector<uint64_t> which;
    size_t                stride = 0, which_stride = 0; // of a row
    bool                  filled = false;
    // The mask is written as values, and only the numbers below are wanted; words are scratch space.
    bool    count      = false;
    int32_t row_cells  = 0; // the most cells that a row sees
    int32_t tile_cells = 0; // the most cells that the rows of a tile see together: see tile_rows
};

// tile_rows is how many rows share one list of gathered cells in ggml's CUDA code: rows 0 to 7, 8 to 15 and so on.
constexpr int tile_rows = 8;

// layout is that of bit_rows. Who writes them and who reads them are compiled apart: change it with them.
constexpr uint64_t layout = 2 << 16 | sizeof(bit_rows);

// graph_hooks are called when a graph has its memory: before its inputs are set, and after. The first says what is
// wanted of which masks: bit_rows that are not yet filled, or null, are what extra is behind it.
using graph_hook = void (*)(ggml_backend_sched_t sched, ggml_cgraph * graph);

struct graph_hooks {
    graph_hook before_inputs, after_inputs;
};

// installed is the hooks of all contexts, or null: then nobody sets extra.
inline std::atomic<const graph_hooks *> & installed() {
    static std::atomic<const graph_hooks *> hooks{ nullptr };
    return hooks;
}

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

// The two ways in which a mask is written.

struct bits_writer {
    bit_rows & to;

    bits_writer(bit_rows & b, size_t rows, size_t cells) : to(b) {
        to.stride       = (cells + 31) / 32;
        to.which_stride = (to.stride + 63) / 64;
        to.words.resize(rows * to.stride);
        to.which.resize(rows * to.which_stride);
        to.filled = true;
    }

    uint32_t * row(size_t r) { return to.words.data() + r * to.stride; }
    uint64_t * which(size_t r) { return to.which.data() + r * to.which_stride; }

    void clear(size_t r) { std::fill_n(which(r), to.which_stride, 0); }

    void copy(size_t r, size_t from) {
        for (size_t i = 0; i < to.which_stride; i++) {
            which(r)[i] = which(from)[i];
            for (uint64_t left = which(r)[i]; left != 0; left &= left - 1) {
                const size_t w = 64 * i + __builtin_ctzll(left);
                row(r)[w]      = row(from)[w];
            }
        }
    }

    void show(size_t r, cell c) {
        const size_t   w   = c / 32;
        const uint32_t bit = uint32_t{ 1 } << (c % 32);
        uint64_t &     has = which(r)[w / 64];
        row(r)[w]          = (has >> (w % 64) & 1) != 0 ? row(r)[w] | bit : bit;
        has |= uint64_t{ 1 } << (w % 64);
    }
};

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

// max_sequences is LLAMA_MAX_SEQ.
constexpr int max_sequences = 256;

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

// count finds row_cells and tile_cells of a batch.
template <typename batch, typename find>
void count(bit_rows & to, const batch & rows, size_t cells, position window, find && positions) {
    struct last {
        int64_t  tile = -1; // in which a sequence had its last row
        position seen;
        int32_t  cells; // that row saw
    };
    std::array<last, max_sequences> of;
    std::vector<uint32_t> &         tile_of = to.words; // the last tile that saw a cell, from 1 on
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
        if (seq < 0 || seq >= max_sequences || rows.pos[r] < 0 || !positions(seq).regular()) {
            return false;
        }
    }
    const auto cells = static_cast<size_t>(mask->ne[0]);
    auto *     bits  = installed() != nullptr ? static_cast<bit_rows *>(mask->extra) : nullptr;
    if (bits != nullptr && bits->count) {
        count(*bits, rows, cells, window, positions);
        bits = nullptr;
    }
    if (bits != nullptr) {
        write(bits_writer(*bits, rows.n_tokens, cells), rows, cells, window, positions);
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
