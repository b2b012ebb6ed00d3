package core

import (
	"container/list"
	"slices"
)

// BlockID names a run of cells that was saved to host memory.
type BlockID uint64

// block is such a run: the cells of the tokens of path from start on. What they hold
// follows from all of path.
type block struct {
	id    BlockID
	path  []Token
	start int
	hash  uint64        // of path before start
	place *list.Element // nil: it was dropped
}

func (b *block) cells() int { return len(b.path) - b.start }

// part is what of a block a sequence can take: positions [from, to).
type part struct {
	block    *block
	from, to int
}

// hostCache holds the blocks that were saved. They stay when they are loaded, so that
// evicting the same again costs nothing.
type hostCache struct {
	limit, used int // cells
	each        int // most cells of a block
	least       int // fewer cells are not worth to save or load
	next        BlockID
	order       list.List // of *block, the next one to be dropped last
	byHash      map[uint64][]*block
	starts      []int       // where blocks start, ascending, each once
	startsHere  map[int]int // how many do
}

func newHostCache(cfg *Config) *hostCache {
	if cfg.HostCells == 0 {
		return nil
	}
	return &hostCache{
		limit: cfg.HostCells, each: cfg.HostBlock, least: cfg.HostLeast, byHash: map[uint64][]*block{}, startsHere: map[int]int{},
	}
}

// prefixHash is FNV-1a over tokens.
type prefixHash uint64

const emptyHash prefixHash = 14695981039346656037

func (h prefixHash) with(tokens []Token) prefixHash {
	for _, t := range tokens {
		h = (h ^ prefixHash(uint32(t))) * 1099511628211
	}
	return h
}

// extend returns what the blocks have of target behind its first length tokens, without
// a gap.
func (h *hostCache) extend(target []Token, length int) (parts []part) {
	if h == nil {
		return nil
	}
	hash, hashed := emptyHash, 0
	for _, start := range h.starts {
		if start > length || start >= len(target) {
			break
		}
		hash = hash.with(target[hashed:start])
		hashed = start
		best := part{from: length, to: length + h.least - 1}
		for _, b := range h.byHash[uint64(hash)] {
			if b.start != start || !slices.Equal(b.path[:start], target[:start]) {
				continue
			}
			if to := start + commonPrefix(b.path[start:], target[start:]); to > best.to {
				best.block, best.to = b, to
			}
		}
		if best.block != nil {
			parts = append(parts, best)
			length = best.to
		}
	}
	return parts
}

// touch makes blocks those that were used last, the first of them last of all:
// without it the others are of no use.
func (h *hostCache) touch(parts []part) {
	for _, p := range slices.Backward(parts) {
		if p.block.place != nil {
			h.order.MoveToFront(p.block.place)
		}
	}
}

func (h *hostCache) add(path []Token, start int) *block {
	h.next++
	b := &block{id: h.next, path: path, start: start, hash: uint64(emptyHash.with(path[:start]))}
	b.place = h.order.PushFront(b)
	h.byHash[b.hash] = append(h.byHash[b.hash], b)
	if h.startsHere[start]++; h.startsHere[start] == 1 {
		i, _ := slices.BinarySearch(h.starts, start)
		h.starts = slices.Insert(h.starts, i, start)
	}
	h.used += b.cells()
	return b
}

func (h *hostCache) drop(b *block) {
	h.order.Remove(b.place)
	b.place = nil
	same := h.byHash[b.hash]
	if same = slices.DeleteFunc(same, func(o *block) bool { return o == b }); len(same) == 0 {
		delete(h.byHash, b.hash)
	} else {
		h.byHash[b.hash] = same
	}
	if h.startsHere[b.start]--; h.startsHere[b.start] == 0 {
		delete(h.startsHere, b.start)
		i, _ := slices.BinarySearch(h.starts, b.start)
		h.starts = slices.Delete(h.starts, i, i+1)
	}
	h.used -= b.cells()
}

// save keeps the cells from position from on of s, which is about to lose them, in
// host memory, as far as they are not there.
func (c *Core) save(s *sequence, from int) {
	h := c.host
	if h == nil || s.broken || s.length-from < h.least {
		return
	}
	path := c.tree.tokens(s)
	path = path[:min(len(path), from+h.limit)]
	there := h.extend(path, from)
	h.touch(there)
	if len(there) > 0 {
		from = there[len(there)-1].to
	}
	if len(path)-from < h.least {
		return
	}
	for h.used+len(path)-from > h.limit {
		old := h.order.Back().Value.(*block)
		h.drop(old)
		c.op(Op{Kind: OpDrop, Block: old.id})
	}
	// At multiples of the size, so that most of them are the same when a longer
	// sequence is saved. The last one first: see touch.
	for to := len(path); to > from; {
		start := max(from, (to-1)/h.each*h.each)
		if start-from < h.least {
			start = from
		}
		b := h.add(path[:to:to], start)
		c.op(Op{Kind: OpSave, Seq: s.id, Pos: start, End: to, Block: b.id})
		c.stats.SavedCells += uint64(b.cells())
		to = start
	}
}

// load gives s, whose length is where the parts begin, what they have. When there is
// no room for all of a block, which loading it takes for a moment, the rest is computed.
func (c *Core) load(s *sequence, parts []part) {
	c.host.touch(parts)
	for _, p := range parts {
		if p.block.cells() > c.cfg.Cells-c.tree.active || !c.makeRoom(p.block.cells()) || p.block.place == nil {
			return // it may have been dropped for what was saved since
		}
		s.touched = true
		c.op(Op{Kind: OpLoad, Seq: s.id, Pos: p.from, End: p.to, Block: p.block.id})
		c.tree.extend(s, p.block.path[p.from:p.to], firstTokens)
		c.stats.LoadedCells += uint64(p.to - p.from)
	}
}
