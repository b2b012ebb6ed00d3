package core

import (
	"fmt"
	"slices"
)

// kv is the oracle for the KV cache: every sequence is a list of cells, a cell
// is a pointer, and shared means the same pointer. It checks what llama.cpp
// would abort on or, worse, silently compute nonsense for.
type kv struct {
	cells   int
	partial bool
	seqs    map[SeqID][]*cell
	blocks  map[BlockID]saved
	// window is the size of the model's sliding window; 0: none. Each sequence has lost its
	// cells before kept, as early as the window allows.
	window int
	kept   map[SeqID]int
}

// saved is a block: the tokens up to its end, where it starts, and what computed it.
type saved struct {
	tokens  []Token
	start   int
	adapter AdapterID
}

// cell is a token and the adapter that computed it.
type cell struct {
	token   Token
	adapter AdapterID
}

func newKV(cells int, partial bool) *kv {
	return &kv{cells: cells, partial: partial, seqs: map[SeqID][]*cell{}, kept: map[SeqID]int{}, blocks: map[BlockID]saved{}}
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
		case o.Pos < 0 || o.Pos >= o.End || o.End > len(src):
			return fmt.Errorf("%v: the source has %d tokens", o, len(src))
		case !slices.Equal(k.seqs[o.Seq], src[:o.Pos]):
			return fmt.Errorf("%v: the destination has other cells than the source before %d", o, o.Pos)
		case !k.partial && (o.Pos != 0 || o.End != len(src)):
			return fmt.Errorf("%v: only the whole source (%d tokens) can be copied", o, len(src))
		case k.window > 0 && o.Pos != 0:
			return fmt.Errorf("%v: the source may have given away what the destination has", o)
		}
		k.seqs[o.Seq], k.kept[o.Seq] = slices.Clone(src[:o.End]), k.kept[o.Src]
	case OpRemove:
		switch s := k.seqs[o.Seq]; {
		case o.Pos == 0:
			delete(k.seqs, o.Seq)
			delete(k.kept, o.Seq)
		case !k.partial:
			return fmt.Errorf("%v: a part can't be removed", o)
		case o.Pos >= len(s):
			return fmt.Errorf("%v: the sequence has %d tokens", o, len(s))
		default:
			k.seqs[o.Seq] = s[:o.Pos:o.Pos]
		}
	case OpSave:
		if _, there := k.blocks[o.Block]; there || o.Pos >= o.End || o.End > len(k.seqs[o.Seq]) {
			return fmt.Errorf("%v: the sequence has %d tokens, the block exists: %t", o, len(k.seqs[o.Seq]), there)
		}
		k.blocks[o.Block] = saved{k.tokens(o.Seq)[:o.End], o.Pos, k.seqs[o.Seq][0].adapter}
	case OpLoad:
		return k.load(o)
	case OpDrop:
		if _, there := k.blocks[o.Block]; !there {
			return fmt.Errorf("%v: there is no such block", o)
		}
		delete(k.blocks, o.Block)
	default:
		return fmt.Errorf("%v: unknown operation", o)
	}
	return nil
}

func (k *kv) load(o Op) error {
	b, there := k.blocks[o.Block]
	switch before := k.tokens(o.Seq); {
	case !there || o.Pos < b.start || o.Pos >= o.End || o.End > len(b.tokens):
		return fmt.Errorf("%v: the block has %d tokens from %d on, it exists: %t", o, len(b.tokens), b.start, there)
	case !slices.Equal(before, b.tokens[:o.Pos]):
		return fmt.Errorf("%v: it was saved after %v, the sequence has %v", o, b.tokens[:o.Pos], before)
	case k.used()+len(b.tokens)-b.start > k.cells:
		return fmt.Errorf("%v: %d cells used, no room for the block's %d", o, k.used(), len(b.tokens)-b.start)
	}
	for _, t := range b.tokens[o.Pos:o.End] {
		k.seqs[o.Seq] = append(k.seqs[o.Seq], &cell{t, b.adapter})
	}
	return k.sameAdapter(o.Seq, b.adapter)
}

// sameAdapter checks that an adapter computed all cells of a sequence.
func (k *kv) sameAdapter(s SeqID, want AdapterID) error {
	for i, c := range k.seqs[s] {
		if c.adapter != want {
			return fmt.Errorf("sequence %d has a cell of adapter %d at %d, and goes on with adapter %d", s, c.adapter, i, want)
		}
	}
	return nil
}

// decode appends the rows, which an adapter computes, and returns the context of each output row. It
// changes nothing when there are not enough cells.
func (k *kv) decode(adapter AdapterID, rows []Row) (contexts map[int][]Token, ok bool, err error) {
	if k.used()+len(rows) > k.cells {
		return nil, false, nil
	}
	contexts = map[int][]Token{}
	for i, r := range rows {
		if first, last := k.span(r.Seq); k.window > 0 && (last != r.Pos-1 || first > max(0, r.Pos-k.window)) {
			return nil, false, fmt.Errorf("row %d: position %d looks back %d tokens, sequence %d has those from %d to %d", i, r.Pos, k.window, r.Seq, first, last)
		}
		if r.Pos != len(k.seqs[r.Seq]) {
			return nil, false, fmt.Errorf("row %d: position %d, sequence %d has %d tokens", i, r.Pos, r.Seq, len(k.seqs[r.Seq]))
		}
		k.seqs[r.Seq] = append(k.seqs[r.Seq], &cell{r.Token, adapter})
		if err := k.sameAdapter(r.Seq, adapter); err != nil {
			return nil, false, fmt.Errorf("row %d: %w", i, err)
		}
		if r.Output {
			contexts[i] = k.tokens(r.Seq)
		}
	}
	if k.window > 0 {
		for s, cells := range k.seqs {
			k.kept[s] = max(k.kept[s], len(cells)-k.window)
		}
	}
	return contexts, true, nil
}

// span is the first and the last position of a sequence's cells, -1 and -1 without any, as
// llama.cpp returns it for the layers with the window.
func (k *kv) span(s SeqID) (first, last int) {
	if n := len(k.seqs[s]); n > k.kept[s] {
		return k.kept[s], n - 1
	}
	return -1, -1
}

// usable is the engine's rule for models with a window.
func (k *kv) usable(s SeqID, n int) bool {
	first, last := k.span(s)
	return last >= n-1 && first <= max(0, n-k.window)
}

func (k *kv) tokens(s SeqID) []Token {
	var list []Token
	for _, c := range k.seqs[s] {
		list = append(list, c.token)
	}
	return list
}
