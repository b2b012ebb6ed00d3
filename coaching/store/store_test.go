package store_test

import (
	"testing"
	"time"

	"agentd/coaching/internal/storetest"
	"agentd/coaching/store"
)

func TestMemoryStoreMatchesModel(t *testing.T) {
	storetest.Run(t, func() storetest.Replicas {
		one := store.NewMemory(time.Now)
		return storetest.Replicas{Stores: []store.Store{one, one, one}}
	})
}
