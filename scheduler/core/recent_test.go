package core

import "testing"

func TestTheNewestBlocksAreRemembered(t *testing.T) {
	const size = 32
	tokens := func(first Token, n int) []Token {
		p := make([]Token, n)
		for i := range p {
			p[i] = first + Token(i)
		}
		return p
	}
	of := func(first Token, n int) []PrefixHash { return Blocks(tokens(first, n), size) }
	r := NewRecent(10)
	note := func(blocks []PrefixHash, number uint64) {
		for _, b := range blocks {
			r.Note(b, number)
		}
	}
	long := of(1, 8*size)
	note(long, 0)
	if got := r.Match(of(1, 5*size+3)); got != 5 {
		t.Errorf("%d blocks of a beginning are known, want 5", got)
	}
	if got := r.Match(Blocks(append(tokens(1, 2*size), tokens(1, 2*size)...), size)); got != 2 {
		t.Errorf("%d blocks of a prompt that goes on otherwise are known, want 2", got)
	}
	for i := range 30 {
		note(of(Token(1000+i), size), 0)
		note(long[:1], uint64(i)) // it is in use
	}
	if got := r.Match(long); got != 1 {
		t.Errorf("%d blocks are known, want only the first, which was used again", got)
	}
	if number, ok := r.Last(long[0]); number != 29 || !ok {
		t.Errorf("the first block has the number %d (%t), the last one was 29", number, ok)
	}
	if kept := len(r.young) + len(r.old); kept > 20 {
		t.Errorf("%d blocks are kept, at most 20 are to be", kept)
	}
	if r.Clear(); r.Match(long) != 0 {
		t.Error("a block is known after all were forgotten")
	}
	if of(1, size)[0] == of(2, size)[0] {
		t.Error("two blocks have the same name")
	}
}
