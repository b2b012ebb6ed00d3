package scheduler

import (
	"slices"

	"agentd/llama"
	"agentd/scheduler/core"
)

// prefixIndex estimates which prompt blocks are in the prefix cache of a context. It has the blocks added last: at
// least limit and at most twice as many. When young is full, it becomes old, and the former old is dropped.
type prefixIndex struct {
	limit      int
	young, old map[core.PrefixHash]bool
}

func newPrefixIndex(limit int) *prefixIndex {
	p := &prefixIndex{limit: max(1, limit)}
	p.clear()
	return p
}

// match returns how many of the first blocks are in the index.
func (p *prefixIndex) match(blocks []core.PrefixHash) int {
	for i, b := range blocks {
		if !p.young[b] && !p.old[b] {
			return i
		}
	}
	return len(blocks)
}

// add makes the blocks the latest ones.
func (p *prefixIndex) add(blocks []core.PrefixHash) {
	for _, b := range blocks {
		if !p.young[b] && len(p.young) >= p.limit {
			p.old, p.young = p.young, map[core.PrefixHash]bool{}
		}
		p.young[b] = true
	}
}

func (p *prefixIndex) clear() {
	p.young, p.old = map[core.PrefixHash]bool{}, map[core.PrefixHash]bool{}
}

// prefixBlocks returns one hash for each whole block of prefixBlock tokens: that of all
// tokens up to its end, of the adapter and of the salt. A collision only makes the estimate of a placement wrong.
func prefixBlocks(adapter core.AdapterID, salt string, prompt []llama.Token) []core.PrefixHash {
	blocks := make([]core.PrefixHash, 0, len(prompt)/prefixBlock)
	h := core.EmptyHash
	if adapter != 0 {
		h = h.With([]llama.Token{llama.Token(adapter)})
	}
	for _, b := range []byte(salt) {
		h = h.With([]llama.Token{llama.Token(b)})
	}
	for block := range slices.Chunk(prompt, prefixBlock) {
		if len(block) == prefixBlock {
			h = h.With(block)
			blocks = append(blocks, h)
		}
	}
	return blocks
}
