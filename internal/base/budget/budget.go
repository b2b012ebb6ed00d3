// Package budget bounds the memory of all requests in progress, depending on the memory that the process may use.
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrFull refuses bytes that other requests hold. A later try may succeed.
var ErrFull = errors.New("the requests in progress hold all memory that the server has for them")

// TooLargeError refuses a request that needs more than the limit of all requests.
type TooLargeError struct {
	Need, Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request needs %d MB of memory for its body, its work and its answer, and the server has %d MB for all requests; send fewer inputs or candidates, or less memory in each",
		(e.Need+999_999)/1e6, e.Limit/1e6)
}

// Budget bounds the bytes that all requests hold at the same time. It is safe for concurrent use.
type Budget struct {
	limit, used atomic.Int64
	peak        atomic.Int64 // maximum of used since the last settle
	burst       int64        // maximum of used since garbage was freed last; only settle uses it
}

// New makes a budget of limit bytes.
func New(limit int64) *Budget {
	b := new(Budget)
	b.limit.Store(limit)
	return b
}

// Limit returns the bytes of the budget.
func (b *Budget) Limit() int64 { return b.limit.Load() }

// Used returns the bytes that all shares hold.
func (b *Budget) Used() int64 { return b.used.Load() }

// SetLimit changes the bytes of the budget. Shares keep their bytes.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// Share makes the share of one request, of 0 bytes.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// Share is the bytes that one request holds. One goroutine at a time may use it, other than by the function Add.
// Release must be called.
type Share struct {
	budget *Budget
	held   int64
	adding sync.Mutex
}

// Held returns the bytes of the share.
func (s *Share) Held() int64 { return s.held }

// Add adds bytes to the share. The error is ErrFull or a *TooLargeError; the share is then unchanged.
func (s *Share) Add(bytes int64) error { return s.Hold(s.held + bytes) }

// Hold sets the bytes of the share. If it grows, it may fail as Add does. Shares above smallShare can't use
// 1/smallPart of the budget, so that large requests do not block small ones.
func (s *Share) Hold(bytes int64) error {
	b, more := s.budget, bytes-s.held
	limit := b.limit.Load()
	if bytes > smallShare {
		limit -= limit / smallPart
	}
	for more > 0 {
		used := b.used.Load()
		switch {
		case bytes > limit:
			return &TooLargeError{Need: bytes, Limit: limit}
		case used+more > limit:
			return ErrFull
		case b.used.CompareAndSwap(used, used+more):
			s.held = bytes
			for peak := b.peak.Load(); peak < used+more && !b.peak.CompareAndSwap(peak, used+more); {
				peak = b.peak.Load()
			}
			return nil
		}
	}
	b.used.Add(more)
	s.held = bytes
	return nil
}

// Release gives all bytes back. Further calls do nothing.
func (s *Share) Release() { _ = s.Hold(0) } // shrinking does not fail

// settle calls free when a burst of requests is over: since the last call, requests held at most 1/burstPart of the
// burst's maximum. Without that, Go would keep the garbage for two minutes.
func (b *Budget) settle(free func()) {
	recent := max(b.peak.Swap(b.used.Load()), b.used.Load())
	if b.burst = max(b.burst, recent); b.burst >= burstFrom && recent <= b.burst/burstPart {
		b.burst = recent
		free()
	}
}

type key struct{}

// With returns a context with the share, for Add.
func With(ctx context.Context, s *Share) context.Context { return context.WithValue(ctx, key{}, s) }

// Add calls Share.Add of the share in ctx. Without a share it does nothing. Any number of goroutines may call it.
func Add(ctx context.Context, bytes int64) error {
	if s, ok := ctx.Value(key{}).(*Share); ok {
		s.adding.Lock()
		defer s.adding.Unlock()
		return s.Add(bytes)
	}
	return nil
}
