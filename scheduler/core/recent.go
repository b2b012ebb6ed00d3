package core

import "slices"

// Blocks names the whole blocks of so many tokens that a prompt begins with: each by the
// hash of all tokens up to its end. Two that collide are taken for the same one, which may
// only matter for a guess at what is cached.
func Blocks(prompt []Token, size int) []PrefixHash {
	blocks := make([]PrefixHash, 0, len(prompt)/size)
	h := EmptyHash
	for block := range slices.Chunk(prompt, size) {
		if len(block) == size {
			h = h.With(block)
			blocks = append(blocks, h)
		}
	}
	return blocks
}

// Recent remembers the blocks that were noted last, with a number for each: at least so
// many of them, at most twice as many. It is two generations of a map: when the younger is
// full, the older is forgotten.
type Recent struct {
	limit      int
	young, old map[PrefixHash]uint64
}

// NewRecent returns one for at least limit blocks.
func NewRecent(limit int) *Recent {
	return &Recent{limit: max(1, limit), young: map[PrefixHash]uint64{}, old: map[PrefixHash]uint64{}}
}

// Last returns the number that was noted last for b; ok: there is one.
func (r *Recent) Last(b PrefixHash) (number uint64, ok bool) {
	if number, ok = r.young[b]; !ok {
		number, ok = r.old[b]
	}
	return number, ok
}

// Note makes b the latest.
func (r *Recent) Note(b PrefixHash, number uint64) {
	if _, known := r.young[b]; !known && len(r.young) >= r.limit {
		r.old, r.young = r.young, map[PrefixHash]uint64{}
	}
	r.young[b] = number
}

// Match is how many of the first blocks are remembered.
func (r *Recent) Match(blocks []PrefixHash) int {
	for i, b := range blocks {
		if _, ok := r.Last(b); !ok {
			return i
		}
	}
	return len(blocks)
}

// Clear forgets all.
func (r *Recent) Clear() {
	clear(r.young)
	clear(r.old)
}
