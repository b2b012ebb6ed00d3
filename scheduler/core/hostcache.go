package core

import (
	"container/list"
	"slices"
)

// BlockID names a block of cells in host memory.
type BlockID uint64

// hostBlock holds the cells of path[start:]. Their contents depend on all of path and on the adapter.
type hostBlock struct {
	owner
	id    BlockID
	path  []Token
	start int
	hash  PrefixHash    // of path[:start]
	place *list.Element // in hostCache.order; nil when dropped
}

func (b *hostBlock) cells() int { return len(b.path) - b.start }

// hostPart is the part of a block that a sequence can load: positions [from, to).
type hostPart struct {
	block    *hostBlock
	from, to int
}

// hostCache holds evicted cells in host memory. A loaded block stays, so that to evict its cells again needs no copy.
type hostCache struct {
	limit, used int // cells
	blockCells  int // approximate size of a block
	minCells    int // least cells of a block, and of a load
	next        BlockID
	order       list.List // of *hostBlock, most recently used first
	byHash      map[PrefixHash][]*hostBlock
	starts      []int // all values of hostBlock.start, ascending
}

func newHostCache(cells int) *hostCache {
	if cells == 0 {
		return nil
	}
	return &hostCache{limit: cells, blockCells: hostBlockCells, minCells: MinHostBlock, byHash: map[PrefixHash][]*hostBlock{}}
}

// PrefixHash is the FNV-1a hash of a token prefix.
type PrefixHash uint64

// EmptyHash is the hash of the empty prefix.
const EmptyHash PrefixHash = 14695981039346656037

// With returns the hash of the prefix followed by tokens.
func (h PrefixHash) With(tokens []Token) PrefixHash {
	for _, t := range tokens {
		h = (h ^ PrefixHash(uint32(t))) * 1099511628211
	}
	return h
}

// saveToHost copies the cells of s from position from on to host memory, except those that are there. The caller
// evicts them next.
func (c *Core) saveToHost(s *sequence, from int) {
	h := c.host
	if h == nil || s.invalid || s.length-from < h.minCells {
		return
	}
	path := c.tree.tokens(s)
	path = path[:min(len(path), from+h.limit)]
	present := h.extend(s.owner, path, from)
	h.touch(present)
	own := from
	if n := len(present); n > 0 {
		last := present[n-1]
		if from = last.to; len(path)-from < h.minCells {
			return
		}
		// A partial block is replaced by a longer one. Otherwise each turn of a conversation
		// would add a block.
		if last.block.start >= own && last.to == len(last.block.path) && last.to%h.blockCells != 0 {
			from, present = last.block.start, present[:n-1]
			c.dropBlock(last.block)
		}
	}
	for h.used+len(path)-from > h.limit {
		c.dropBlock(h.order.Back().Value.(*hostBlock))
	}
	// Blocks start at multiples of their size, so that most are the same when a longer
	// sequence is saved. The last one is added first: see touch.
	for to := len(path); to > from; {
		start := (to - h.minCells) / h.blockCells * h.blockCells
		if start-from < h.minCells {
			start = from
		}
		b := h.add(s.owner, path[:to:to], start)
		c.addOp(Op{Kind: OpSave, Seq: s.id, Pos: start, End: to, Block: b.id})
		c.stats.SavedCells += uint64(b.cells())
		to = start
	}
	h.touch(present) // they precede the new blocks
}

// loadFromHost appends parts to s, which ends where they begin. A load briefly needs free cells
// for a whole block. Without them the remaining parts are not loaded, but computed.
func (c *Core) loadFromHost(s *sequence, parts []hostPart) {
	c.host.touch(parts)
	for _, p := range parts {
		if p.block.cells() > c.cfg.Cells-c.tree.active || !c.makeRoom(p.block.cells()) || p.block.place == nil {
			return // makeRoom may have dropped the block
		}
		s.inContext = true
		c.addOp(Op{Kind: OpLoad, Seq: s.id, Pos: p.from, End: p.to, Block: p.block.id})
		c.tree.extend(s, p.block.path[p.from:p.to], initialTokens)
		c.stats.LoadedCells += uint64(p.to - p.from)
	}
}

func (c *Core) dropBlock(b *hostBlock) {
	h := c.host
	h.order.Remove(b.place)
	b.place = nil
	same := slices.DeleteFunc(h.byHash[b.hash], func(o *hostBlock) bool { return o == b })
	if h.byHash[b.hash] = same; len(same) == 0 {
		delete(h.byHash, b.hash)
	}
	i, _ := slices.BinarySearch(h.starts, b.start)
	h.starts = slices.Delete(h.starts, i, i+1)
	h.used -= b.cells()
	c.addOp(Op{Kind: OpDrop, Block: b.id})
}

// extend returns the parts of the owner's blocks that continue target after its first length tokens, without a
// gap. It returns nil if they have fewer than minCells.
func (h *hostCache) extend(of owner, target []Token, length int) (parts []hostPart) {
	hash, hashed, before := EmptyHash, 0, length
	for i, start := range h.starts {
		if i > 0 && start == h.starts[i-1] {
			continue
		}
		if start > length || start >= len(target) {
			break
		}
		hash = hash.With(target[hashed:start])
		hashed = start
		best := hostPart{from: length, to: length}
		for _, b := range h.byHash[hash] {
			if b.start != start || b.owner != of || len(b.path) <= best.to {
				continue
			}
			// The tokens after start are compared first: they are few and differ most.
			to := start + commonPrefixLen(b.path[start:], target[start:])
			if to > best.to && slices.Equal(b.path[:start], target[:start]) {
				best.block, best.to = b, to
			}
		}
		if best.block != nil {
			parts = append(parts, best)
			length = best.to
		}
	}
	if length-before < h.minCells {
		return nil
	}
	return parts
}

// touch marks blocks as used, the first one as the most recent, since the later ones can't be used without it.
func (h *hostCache) touch(parts []hostPart) {
	for _, p := range slices.Backward(parts) {
		if p.block.place != nil {
			h.order.MoveToFront(p.block.place)
		}
	}
}

func (h *hostCache) add(of owner, path []Token, start int) *hostBlock {
	h.next++
	b := &hostBlock{owner: of, id: h.next, path: path, start: start, hash: EmptyHash.With(path[:start])}
	b.place = h.order.PushFront(b)
	h.byHash[b.hash] = append(h.byHash[b.hash], b)
	i, _ := slices.BinarySearch(h.starts, start)
	h.starts = slices.Insert(h.starts, i, start)
	h.used += b.cells()
	return b
}
