package coaching_test

import (
	"testing"

	"agentd/coaching"
	"agentd/coaching/internal/storetest"
)

func TestMemoryStoreMatchesModel(t *testing.T) {
	storetest.Run(t, func() storetest.Replicas {
		store := new(coaching.MemoryStore)
		return storetest.Replicas{Stores: []coaching.Store{store, store, store}}
	})
}
