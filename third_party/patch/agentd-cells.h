// Who has which cell of llama.cpp's KV cache, for its class llama_kv_cells, in place of the
// std::set of used cells and of the std::set of (position, cell) that it keeps for each
// sequence. There, each position of each fork is a node of its own in a tree, and whoever
// wants the cells of one sequence goes through those of all.
#ifndef AGENTD_CELLS_H // not by file: the copy in llama.cpp's tree is the same
#define AGENTD_CELLS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace agentd {

using position = int32_t; // llama_pos
using cell     = uint32_t;

// cell_set is a set of cells, as bits.
class cell_set {
  public:
    bool   empty() const { return size_ == 0; }
    size_t size() const { return size_; }

    // begin and rbegin are the first and the last element; not of an empty set.
    std::optional<cell> begin() const {
        size_t w = 0;
        while (words_[w] == 0) {
            w++;
        }
        return static_cast<cell>(64 * w + __builtin_ctzll(words_[w]));
    }

    std::optional<cell> rbegin() const {
        size_t w = words_.size() - 1;
        while (words_[w] == 0) {
            w--;
        }
        return static_cast<cell>(64 * w + 63 - __builtin_clzll(words_[w]));
    }

    void insert(cell c) {
        words_.resize(std::max(words_.size(), size_t{ c / 64 + 1 }));
        size_ += (words_[c / 64] & bit(c)) == 0;
        words_[c / 64] |= bit(c);
    }

    void erase(cell c) {
        if (c / 64 < words_.size() && (words_[c / 64] & bit(c)) != 0) {
            words_[c / 64] &= ~bit(c);
            size_--;
        }
    }

    void clear() {
        words_.clear();
        size_ = 0;
    }

  private:
    static uint64_t bit(cell c) { return uint64_t{ 1 } << (c % 64); }

    std::vector<uint64_t> words_;
    size_t                size_ = 0;
};

// position_set is the cells of one sequence, sorted by their positions. There is one cell for each position but for
// unusual caches. Elements come and go at both ends in constant time, and elsewhere by moving the ones after them.
class position_set {
  public:
    using element  = std::pair<position, cell>;
    using iterator = std::vector<element>::const_iterator;

    bool     empty() const { return size() == 0; }
    size_t   size() const { return list_.size() - free_; }
    iterator begin() const { return list_.begin() + free_; }
    iterator end() const { return list_.end(); }
    auto     rbegin() const { return list_.rbegin(); }
    iterator from(position p) const { return std::lower_bound(begin(), end(), element{ p, 0 }); }
    iterator upper_bound(const element & e) const { return std::upper_bound(begin(), end(), e); }

    // regular says that no position has two cells: masks need that.
    bool regular() const { return further_ == 0; }

    void clear() {
        list_.clear();
        free_ = further_ = 0;
    }

    void insert(const element & e) {
        if (empty() || list_.back().first < e.first) { // nearly always
            list_.push_back(e);
        } else if (const auto at = std::lower_bound(begin(), end(), e); at == end() || *at != e) {
            further_ += has(e.first);
            if (at == begin() && free_ > 0) {
                list_[--free_] = e;
            } else {
                list_.insert(at, e);
            }
        }
    }

    // erase returns how many elements that were.
    size_t erase(const element & e) {
        const auto at = !empty() && list_.back() == e ? end() - 1 : std::lower_bound(begin(), end(), e);
        if (at == end() || *at != e) {
            return 0;
        }
        if (at == begin() && size() > 1) {
            free_++;
            if (free_ > size()) {
                list_.erase(list_.begin(), begin());
                free_ = 0;
            }
        } else {
            list_.erase(at);
        }
        further_ -= further_ > 0 && has(e.first);
        return 1;
    }

    // each calls see with the cell of each position from p0 to, not including, p1, in their order.
    template <typename F> void each(position p0, position p1, F && see) const {
        for (auto at = from(p0); at != end() && at->first < p1; ++at) {
            see(at->second);
        }
    }

  private:
    bool has(position p) const {
        const auto at = from(p);
        return at != end() && at->first == p;
    }

    std::vector<element> list_;
    size_t               free_    = 0; // places before the first element
    size_t               further_ = 0; // elements after the first one of their position
};

// copy gives dst the cells of src from p0 to p1, and remove takes them from a sequence; head
// is set to the first cell that becomes empty, if it is before head. Both say whether they
// have: an unusual sequence is left to llama.cpp's own loop.
template <typename cells> bool copy(cells & c, int src, int dst, position p0, position p1) {
    const position_set & from = c.positions(src);
    if (!from.regular()) {
        return false;
    }
    from.each(p0, p1, [&](cell i) { c.seq_add(i, dst); });
    return true;
}

template <typename cells> bool remove(cells & c, int seq, position p0, position p1, cell & head) {
    const position_set & of = c.positions(seq);
    if (!of.regular()) {
        return false;
    }
    // From an end of the sequence on, where nothing has to move.
    const auto first    = of.from(p0) - of.begin();
    const bool in_front = first == 0;
    for (auto n = of.from(p1) - of.begin() - first; n-- > 0;) {
        const cell i = of.begin()[in_front ? 0 : first + n].second;
        if (c.seq_rm(i, seq)) {
            head = std::min(head, i);
        }
    }
    return true;
}

} // namespace agentd

#endif
