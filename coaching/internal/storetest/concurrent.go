package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"agentd/coaching/store"
)

// Creations at the same time: runs, how often each one is created, and how many sessions may
// exist.
const (
	concurrentRuns, creators, concurrentLimit = 24, 3, 16
)

// createAtOnce creates sessions at the same time by all servers. As many exist afterwards as
// may, and all who create the same run get the same session.
func createAtOnce(t *testing.T, stores []store.Store) {
	t.Helper()
	var created [concurrentRuns][creators]uuid.UUID // Nil: refused, since there are enough
	start := make(chan struct{})
	var work sync.WaitGroup
	for run := range concurrentRuns {
		for i := range creators {
			work.Go(func() {
				rec := record(uuid.New(), fmt.Sprint("at once ", run), i)
				<-start
				existing, err := stores[(run+i)%len(stores)].Create(t.Context(), rec, concurrentLimit)
				var full *store.FullError
				switch {
				case errors.As(err, &full):
				case err != nil:
					t.Errorf("Create of %q: %v", rec.RunID, err)
				case existing != nil:
					created[run][i] = existing.ID
				default:
					created[run][i] = rec.ID
				}
			})
		}
	}
	close(start)
	work.Wait()
	exist := 0
	for run, ids := range created {
		name := fmt.Sprint("at once ", run)
		kept, err := stores[0].Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var want uuid.UUID
		if kept != nil {
			exist++
			want = kept.ID
		}
		for _, id := range ids {
			// Once enough sessions exist, no run without one gets one.
			if id != want {
				t.Errorf("Create of %q: session %s, the store has %s", name, id, want)
			}
		}
	}
	n, err := stores[0].Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if exist != concurrentLimit || n != concurrentLimit {
		t.Errorf("%d of %d runs have a session, the store counts %d; want %d", exist, concurrentRuns, n, concurrentLimit)
	}
}
