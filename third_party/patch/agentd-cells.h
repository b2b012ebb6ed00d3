// Who has which cell of llama.cpp's KV cache, for its class llama_kv_cells, in place of the
// std::set of used cells and of the std::set of (position, cell) that it keeps for each
// sequence. There, each position of each fork is a node of its own in a tree, and whoever
// wants the cells of one sequence goes through those of all.
#ifndef AGENTD_CELLS_H // not by file: the copy in llama.cpp's tree is the same
#define AGENTD_CELLS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace agentd {

using position = int32_t; // llama_pos
using cell     = uint32_t;

// cell_set is a set of cells, as bits.
class cell_set {
  public:
    struct element {
        cell value;
        cell operator*() const { return value; }
    };

    bool   empty() const { return size_ == 0; }
    size_t size() const { return size_; }

    // begin and rbegin are the first and the last element; not of an empty set.
    element begin() const {
        size_t w = 0;
        while (words_[w] == 0) {
            w++;
        }
        return { static_cast<cell>(64 * w + __builtin_ctzll(words_[w])) };
    }

    element rbegin() const { return { static_cast<cell>(64 * top_ + 63 - __builtin_clzll(words_[top_])) }; }

    void insert(cell c) {
        const size_t w = c / 64;
        if (w >= words_.size()) {
            words_.resize(w + 1);
        }
        size_ += (words_[w] & bit(c)) == 0;
        words_[w] |= bit(c);
        top_ = std::max(top_, w);
    }

    void erase(cell c) {
        const size_t w = c / 64;
        if (w >= words_.size() || (words_[w] & bit(c)) == 0) {
            return;
        }
        words_[w] &= ~bit(c);
        size_--;
        while (top_ > 0 && words_[top_] == 0) {
            top_--;
        }
    }

    void clear() {
        std::fill(words_.begin(), words_.end(), 0);
        size_ = top_ = 0;
    }

  private:
    static uint64_t bit(cell c) { return uint64_t{ 1 } << (c % 64); }

    std::vector<uint64_t> words_;
    size_t                size_ = 0;
    size_t                top_  = 0; // the last word that is not 0, or 0
};

// position_set is the cells of one sequence by their positions: a set of pairs, of which
// there is one for each position but for unusual caches. These one are a plain list.
class position_set {
  public:
    using element = std::pair<position, cell>;

    static constexpr cell none = std::numeric_limits<cell>::max();

    // iterator stands at an element, or at the end, which is greater than all.
    class iterator {
      public:
        iterator(const position_set & of, element at) : of_(&of), at_(at) {}
        const element & operator*() const { return at_; }
        const element * operator->() const { return &at_; }
        bool            operator==(const iterator & o) const { return at_ == o.at_; }
        bool            operator!=(const iterator & o) const { return at_ != o.at_; }
        iterator &      operator--() {
            at_ = of_->before(at_);
            return *this;
        }

      private:
        const position_set * of_;
        element              at_;
    };

    bool   empty() const { return size() == 0; }
    size_t size() const { return listed_ + more_.size(); }

    void clear() {
        list_.clear();
        more_.clear();
        first_ = listed_ = 0;
    }

    void insert(const element & e) {
        if (!listable(e.first)) {
            return keep(e);
        }
        const auto p = static_cast<size_t>(e.first);
        if (listed_ == 0) {
            list_.clear();
            first_ = p;
        }
        if (p >= list_.size()) {
            list_.resize(p + 1, none);
        }
        if (list_[p] == none) {
            list_[p] = e.second;
            first_   = std::min(first_, p);
            listed_++;
        } else if (list_[p] != e.second) {
            keep(e);
        }
    }

    // erase returns how many elements that were.
    size_t erase(const element & e) {
        const auto kept = std::lower_bound(more_.begin(), more_.end(), e);
        if (kept != more_.end() && *kept == e) {
            more_.erase(kept);
            return 1;
        }
        const auto p = static_cast<size_t>(e.first);
        if (!listable(e.first) || p >= list_.size() || list_[p] != e.second) {
            return 0;
        }
        list_[p] = none;
        if (const auto other = std::lower_bound(more_.begin(), more_.end(), element{ e.first, 0 }); other != more_.end() && other->first == e.first) {
            list_[p] = other->second;
            more_.erase(other);
            return 1;
        }
        if (--listed_ == 0) {
            list_.clear();
            return 1;
        }
        while (list_.back() == none) {
            list_.pop_back();
        }
        while (list_[first_] == none) {
            first_++;
        }
        return 1;
    }

    iterator begin() const {
        element e = end_;
        if (listed_ > 0) {
            e = { static_cast<position>(first_), list_[first_] };
        }
        return { *this, more_.empty() ? e : std::min(e, more_.front()) };
    }

    iterator end() const { return { *this, end_ }; }

    // rbegin stands at the last element; not of an empty set.
    iterator rbegin() const { return { *this, before(end_) }; }

    iterator upper_bound(const element & e) const {
        element found = end_;
        for (size_t p = e.first < 0 ? first_ : std::max(first_, static_cast<size_t>(e.first)); listed_ > 0 && p < list_.size(); p++) {
            if (const element here{ static_cast<position>(p), list_[p] }; list_[p] != none && here > e) {
                found = here;
                break;
            }
        }
        const auto other = std::upper_bound(more_.begin(), more_.end(), e);
        return { *this, other == more_.end() ? found : std::min(found, *other) };
    }

    // regular says that no position has two cells; then each can be used.
    bool regular() const { return more_.empty(); }

    // at returns the cell of a position, or none; only of a regular set.
    cell at(position p) const {
        return p >= 0 && static_cast<size_t>(p) < list_.size() ? list_[p] : none;
    }

    // each calls see with the cell of each position from p0 to, not including, p1, in their
    // order. see may erase the elements that it is given.
    template <typename F> void each(position p0, position p1, F && see) const {
        if (listed_ == 0) {
            return;
        }
        const size_t to = std::min(list_.size(), static_cast<size_t>(std::max(0, p1)));
        for (size_t p = std::max(first_, static_cast<size_t>(std::max(0, p0))); p < to && p < list_.size(); p++) {
            if (list_[p] != none) {
                see(list_[p]);
            }
        }
    }

  private:
    static constexpr element end_ = { std::numeric_limits<position>::max(), std::numeric_limits<cell>::max() };

    // A list is as long as its last position.
    static bool listable(position p) { return p >= 0 && p < (1 << 24); }

    std::vector<cell>    list_; // by position; its last one is not none
    size_t               first_ = 0, listed_ = 0;
    std::vector<element> more_; // sorted: further cells of a position, and positions that can't be listed

    void keep(const element & e) {
        if (const auto at = std::lower_bound(more_.begin(), more_.end(), e); at == more_.end() || *at != e) {
            more_.insert(at, e);
        }
    }

    // The greatest element that is less than e, which there must be.
    element before(const element & e) const {
        element    found{ std::numeric_limits<position>::min(), 0 };
        const auto other = std::lower_bound(more_.begin(), more_.end(), e);
        if (other != more_.begin()) {
            found = *(other - 1);
        }
        if (listed_ == 0 || e.first < 0) {
            return found;
        }
        for (size_t p = std::min(list_.size() - 1, static_cast<size_t>(e.first)) + 1; p-- > first_;) {
            if (const element here{ static_cast<position>(p), list_[p] }; list_[p] != none && here < e) {
                return std::max(found, here);
            }
        }
        return found;
    }
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
    of.each(p0, p1, [&](cell i) {
        if (c.seq_rm(i, seq)) {
            head = std::min(head, i);
        }
    });
    return true;
}

} // namespace agentd

#endif
