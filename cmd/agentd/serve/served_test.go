package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"agentd/inference/live"
	"agentd/server"
)

func TestRefusedWeightsHaveCodes(t *testing.T) {
	for reason, want := range map[live.Reason]server.Code{
		live.NotAllowed: server.CodeForbidden, live.UnknownAdapter: server.CodeNotFound, live.Busy: server.CodeConflict,
		live.Unusable: server.CodeInvalid, live.NoMemory: server.CodeNoMemory,
	} {
		err := coded(fmt.Errorf("wrapped: %w", &live.Error{Reason: reason, Detail: "why"}))
		if e := (*server.Error)(nil); !errors.As(err, &e) || e.Code != want || e.Detail != "why" {
			t.Errorf("reason %d: %#v, want %+v", reason, err, want)
		}
	}
	for _, err := range []error{nil, context.Canceled} {
		if got := coded(err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}
