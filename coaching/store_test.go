package coaching

import (
	"errors"
	"testing"

	"agentd/protocol"

	"github.com/google/uuid"
)

func TestStoreRules(t *testing.T) {
	ctx := t.Context()
	cfg := protocol.NewCoachingSessionConfig()
	var m MemoryStore
	rec := func() Record { return Record{ID: uuid.New(), Config: cfg} }
	first := rec()

	if got, err := m.Get(ctx, "a"); got != nil || err != nil {
		t.Errorf("Get of an unknown run: %v, %v", got, err)
	}
	if got, err := m.MarkClosing(ctx, "a", uuid.Nil); got != nil || err != nil {
		t.Errorf("MarkClosing of an unknown run: %v, %v", got, err)
	}
	if got, err := m.Create(ctx, "a", first, 2); got != nil || err != nil {
		t.Fatalf("Create: %v, %v", got, err)
	}
	if got, err := m.Create(ctx, "a", rec(), 2); err != nil || got == nil || got.ID != first.ID || got.State != Configured {
		t.Errorf("Create again: %v, %v; want the first", got, err)
	}
	if _, err := m.Create(ctx, "b", rec(), 2); err != nil {
		t.Fatalf("Create of a second run: %v", err)
	}
	var full *FullError
	if got, err := m.Create(ctx, "c", rec(), 2); got != nil || !errors.As(err, &full) || full.RetryAfter <= 0 {
		t.Errorf("Create beyond the limit: %v, %v; want a *FullError", got, err)
	}
	if got, err := m.Create(ctx, "a", rec(), 2); err != nil || got == nil {
		t.Errorf("Create of an existing run at the limit: %v, %v; want the first", got, err)
	}
	if got, _ := m.MarkClosing(ctx, "a", uuid.New()); got != nil {
		t.Error("MarkClosing with another session's id must not close")
	}
	if got, _ := m.MarkClosing(ctx, "a", first.ID); got == nil || got.State != Closing {
		t.Errorf("MarkClosing: %v", got)
	}
	if got, _ := m.MarkClosing(ctx, "a", uuid.Nil); got != nil {
		t.Error("MarkClosing twice must give nothing the second time")
	}
	if got, _ := m.Get(ctx, "a"); got == nil || got.State != Closing {
		t.Errorf("Get while closing: %v", got)
	}
	if err := m.Delete(ctx, "a", uuid.New()); err != nil {
		t.Error(err)
	}
	if n, _ := m.Count(ctx); n != 2 {
		t.Errorf("Delete with another session's id left %d sessions, want 2", n)
	}
	if err := m.Delete(ctx, "a", first.ID); err != nil {
		t.Error(err)
	}
	if n, _ := m.Count(ctx); n != 1 {
		t.Errorf("after Delete %d sessions, want 1", n)
	}
	if got, err := m.Create(ctx, "a", rec(), 2); got != nil || err != nil {
		t.Errorf("Create after Delete: %v, %v", got, err)
	}
}
