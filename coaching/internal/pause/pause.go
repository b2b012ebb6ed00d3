// Package pause waits.
package pause

import (
	"context"
	"time"
)

// Sleep waits for d, or for the end of ctx, whose cause is then the error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
