// Which cells each row of a batch sees, written into llama.cpp's mask from the lists of
// agentd-cells.h: the cells of its sequence, and not all cells of the cache one after the
// other, of which most hold prefixes that nobody looks at now.
//
// Where only agentd's own attention reads a mask, it is written as bits.
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
};

// layout is that of bit_rows. Who writes them and who reads them are compiled apart: change it with them.
constexpr uint64_t layout = 1 << 16 | sizeof(bit_rows);

// graph_hook is called when a graph has its memory and before its inputs are set. It says
// for which masks bits suffice: bit_rows that are not yet filled, or null, are what extra is
// behind it.
using graph_hook = void (*)(ggml_backend_sched_t sched, ggml_cgraph * graph);

// installed is the hook of all contexts, or null: then nobody sets extra.
inline std::atomic<graph_hook> & installed() {
    static std::atomic<graph_hook> hook{ nullptr };
    return hook;
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
    if (auto * bits = installed() != nullptr ? static_cast<bit_rows *>(mask->extra) : nullptr) {
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

// agentd_set_graph_hook is defined by a llama.cpp that has the patch, and null in another. It
// returns false, and installs nothing, if llama.cpp was compiled with another layout.
extern "C" __attribute__((weak)) bool agentd_set_graph_hook(agentd::graph_hook hook, uint64_t layout);

#endif
