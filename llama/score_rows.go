package llama

// #cgo noescape agd_score_rows
// #include "native/api.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Ranked is the probability of a token by a row of logits.
type Ranked struct {
	Logprob float32 // as Score.Model
	Rank    int     // 1 for the most probable token
	// Top has the most probable tokens, best first.
	Top []Child
}

// ScoreRows returns the probability of tokens[i] by rows[i] for each i, and the top most probable tokens of each row.
// It uses that many threads, at least 1. Rows must have the same size, above all tokens.
func ScoreRows(threads int, rows [][]float32, tokens []Token, top int) []Ranked {
	n := len(rows)
	if n == 0 {
		return nil
	}
	ranks, best := make([]C.struct_agd_rank, n), make([]Child, n*top+1)
	first := make([]*C.float, n)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	for i := range rows {
		_ = rows[i][tokens[i]] // C does not check
		pinned.Pin(&rows[i][0])
		first[i] = (*C.float)(unsafe.Pointer(&rows[i][0]))
	}
	C.agd_score_rows(C.int(max(1, threads)), &first[0], (*C.llama_token)(unsafe.Pointer(&tokens[0])), C.int32_t(n), C.int32_t(len(rows[0])),
		C.int32_t(top), &ranks[0], (*C.struct_agd_child)(unsafe.Pointer(&best[0])))
	list := make([]Ranked, n)
	for i, r := range ranks {
		list[i] = Ranked{Logprob: float32(r.logprob), Rank: int(r.rank), Top: best[i*top : (i+1)*top : (i+1)*top]}
		for len(list[i].Top) > 0 && list[i].Top[len(list[i].Top)-1].Token < 0 { // a small vocabulary
			list[i].Top = list[i].Top[:len(list[i].Top)-1]
		}
	}
	return list
}
