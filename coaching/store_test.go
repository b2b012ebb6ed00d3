package coaching_test

import (
	"testing"
	"time"

	"agentd/coaching"
	"agentd/coaching/internal/storetest"
)

func TestMemoryStoreMatchesModel(t *testing.T) {
	storetest.Run(t, func() storetest.Replicas {
		store := coaching.NewMemoryStore(time.Now)
		return storetest.Replicas{Stores: []coaching.Store{store, store, store}}
	})
}
