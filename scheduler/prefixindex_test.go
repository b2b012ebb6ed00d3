package scheduler

import (
	"slices"
	"testing"

	"agentd/llama"
	"agentd/scheduler/core"
)

func TestPrefixIndexKeepsNewestBlocks(t *testing.T) {
	tokens := func(first llama.Token, n int) []llama.Token {
		p := make([]llama.Token, n)
		for i := range p {
			p[i] = first + llama.Token(i)
		}
		return p
	}
	of := func(first llama.Token, n int) []core.PrefixHash { return prefixBlocks(0, "", tokens(first, n)) }
	p := newPrefixIndex(10)
	long := of(1, 8*prefixBlock)
	p.add(long)
	if got := p.match(of(1, 5*prefixBlock+3)); got != 5 {
		t.Errorf("%d blocks of a shorter prompt match, want 5", got)
	}
	if got := p.match(prefixBlocks(0, "", slices.Concat(tokens(1, 2*prefixBlock), tokens(1, 2*prefixBlock)))); got != 2 {
		t.Errorf("%d blocks of a prompt with another end match, want 2", got)
	}
	for i := range 30 {
		p.add(of(llama.Token(1000+i), prefixBlock))
		p.add(long[:1])
	}
	if got := p.match(long); got != 1 {
		t.Errorf("%d blocks match, want only the first, which was added again", got)
	}
	if kept := len(p.young) + len(p.old); kept > 20 {
		t.Errorf("the index holds %d blocks, want at most 20", kept)
	}
	if p.clear(); p.match(long) != 0 {
		t.Error("a block matches after clear")
	}
	if of(1, prefixBlock)[0] == of(2, prefixBlock)[0] {
		t.Error("two blocks have the same hash")
	}
}
