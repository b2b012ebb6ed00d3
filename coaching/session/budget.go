package session

import "sync/atomic"

// Budget bounds the memory of requests or answers. Their number alone does not, since one may
// be as long as a body may be. One request always fits.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of this many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Take takes n bytes unless too few are left.
func (b *Budget) Take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used > n {
		b.used.Add(-n)
		return false
	}
	return true
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) { b.used.Add(-n) }

// Used is how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }
