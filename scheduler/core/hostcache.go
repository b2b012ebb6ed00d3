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
	hash  PrefixHash    // of path before start
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
	each        int // cells of a block, about
	least       int // fewer are not worth a block, or loading
	next        BlockID
	order       list.List // of *block, the next one to be dropped last
	byHash      map[PrefixHash][]*block
	starts      []int       // where blocks start, ascending, each once
	startsHere  map[int]int // how many do
}

func newHostCache(cfg *Config) *hostCache {
	if cfg.HostCells == 0 {
		return nil
	}
	return &hostCache{
		limit: cfg.HostCells, each: cfg.HostBlock, least: cfg.HostLeast, byHash: map[PrefixHash][]*block{}, startsHere: map[int]int{},
	}
}

// PrefixHash is the FNV-1a hash of the tokens that something begins with.
type PrefixHash uint64

// EmptyHash is that of none.
const EmptyHash PrefixHash = 14695981039346656037

// With is the hash with more tokens behind.
func (h PrefixHash) With(tokens []Token) PrefixHash {
	for _, t := range tokens {
		h = (h ^ PrefixHash(uint32(t))) * 1099511628211
	}
	return h
}

// extend returns what the blocks have of target behind its first length tokens, without
// a gap, if that is enough to be worth it.
func (h *hostCache) extend(target []Token, length int) (parts []part) {
	if h == nil {
		return nil
	}
	hash, hashed, before := EmptyHash, 0, length
	for _, start := range h.starts {
		if start > length || start >= len(target) {
			break
		}
		hash = hash.With(target[hashed:start])
		hashed = start
		best := part{from: length, to: length}
		for _, b := range h.byHash[hash] {
			if b.start != start || len(b.path) <= best.to {
				continue
			}
			// What is behind start tells most of them apart at once; what is before it is long.
			to := start + commonPrefix(b.path[start:], target[start:])
			if to > best.to && slices.Equal(b.path[:start], target[:start]) {
				best.block, best.to = b, to
			}
		}
		if best.block != nil {
			parts = append(parts, best)
			length = best.to
		}
	}
	if length-before < h.least {
		return nil
	}
	return parts
}

// touch makes blocks those that were used last, the first of them last of all:
// without it the others are of no use.
func (h *hostCache) touch(parts []part) {
	for _, p := range slices.Backward(parts) {
		if p.block.place != nil { // it may have been dropped for what was saved since
			h.order.MoveToFront(p.block.place)
		}
	}
}

func (h *hostCache) add(path []Token, start int) *block {
	h.next++
	b := &block{id: h.next, path: path, start: start, hash: EmptyHash.With(path[:start])}
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
	own := from
	if n := len(there); n > 0 {
		last := there[n-1]
		if from = last.to; len(path)-from < h.least {
			return
		}
		// A block that ends in the middle is made anew, longer, or there would be one for each
		// turn of a conversation.
		if last.block.start >= own && last.to == len(last.block.path) && last.to%h.each != 0 {
			from, there = last.block.start, there[:n-1]
			c.drop(last.block)
		}
	}
	for h.used+len(path)-from > h.limit {
		c.drop(h.order.Back().Value.(*block))
	}
	// At multiples of the size, so that most of them are the same when a longer
	// sequence is saved. The last one first: see touch.
	for to := len(path); to > from; {
		start := (to - h.least) / h.each * h.each
		if start-from < h.least {
			start = from
		}
		b := h.add(path[:to:to], start)
		c.op(Op{Kind: OpSave, Seq: s.id, Pos: start, End: to, Block: b.id})
		c.stats.SavedCells += uint64(b.cells())
		to = start
	}
	h.touch(there) // they come before
}

func (c *Core) drop(b *block) {
	c.host.drop(b)
	c.op(Op{Kind: OpDrop, Block: b.id})
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
