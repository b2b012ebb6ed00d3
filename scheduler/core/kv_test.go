package core

import (
	"fmt"
	"slices"
)

// kv is the dumb twin of the KV cache: every sequence is a list of cells, a cell
// is a pointer, and shared means the same pointer. It checks what llama.cpp
// would abort on or, worse, silently compute nonsense for.
type kv struct {
	cells   int
	partial bool
	seqs    map[SeqID][]*cell
}

type cell struct{ token Token }

func newKV(cells int, partial bool) *kv {
	return &kv{cells: cells, partial: partial, seqs: map[SeqID][]*cell{}}
}

func (k *kv) used() int {
	unique := map[*cell]bool{}
	for _, s := range k.seqs {
		for _, c := range s {
			unique[c] = true
		}
	}
	return len(unique)
}

func (k *kv) apply(o Op) error {
	switch o.Kind {
	case OpCopy:
		src := k.seqs[o.Src]
		switch {
		case len(k.seqs[o.Seq]) > 0:
			return fmt.Errorf("%v: the destination is not empty", o)
		case o.Pos < 1 || o.Pos > len(src):
			return fmt.Errorf("%v: the source has %d tokens", o, len(src))
		case !k.partial && o.Pos != len(src):
			return fmt.Errorf("%v: only the whole source (%d tokens) can be copied", o, len(src))
		}
		k.seqs[o.Seq] = slices.Clone(src[:o.Pos])
	case OpRemove:
		switch s := k.seqs[o.Seq]; {
		case o.Pos == 0:
			delete(k.seqs, o.Seq)
		case !k.partial:
			return fmt.Errorf("%v: a part can't be removed", o)
		case o.Pos >= len(s):
			return fmt.Errorf("%v: the sequence has %d tokens", o, len(s))
		default:
			k.seqs[o.Seq] = s[:o.Pos:o.Pos]
		}
	default:
		return fmt.Errorf("%v: unknown operation", o)
	}
	return nil
}

// decode appends the rows and returns the context of each output row. It
// changes nothing when there are not enough cells.
func (k *kv) decode(rows []Row) (contexts map[int][]Token, ok bool, err error) {
	if k.used()+len(rows) > k.cells {
		return nil, false, nil
	}
	contexts = map[int][]Token{}
	for i, r := range rows {
		if r.Pos != len(k.seqs[r.Seq]) {
			return nil, false, fmt.Errorf("row %d: position %d, sequence %d has %d tokens", i, r.Pos, r.Seq, len(k.seqs[r.Seq]))
		}
		k.seqs[r.Seq] = append(k.seqs[r.Seq], &cell{r.Token})
		if r.Output {
			contexts[i] = k.tokens(r.Seq)
		}
	}
	return contexts, true, nil
}

func (k *kv) tokens(s SeqID) []Token {
	var list []Token
	for _, c := range k.seqs[s] {
		list = append(list, c.token)
	}
	return list
}
