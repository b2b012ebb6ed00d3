package retry

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSleepEndsAfterItsTimeOrWithItsContext(t *testing.T) {
	if err := Sleep(t.Context(), time.Microsecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("left")
	cancel(why)
	if err := Sleep(ctx, time.Hour); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
