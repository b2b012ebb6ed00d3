package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/coaching/internal/storetest"
	"agentd/coaching/postgres/pgtest"
	"agentd/coaching/store"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processVariable); url != "" {
		serveStore(url)
		return
	}
	goleak.VerifyTestMain(m)
}

// newKey is a line of a key file.
func newKey() string {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

func readKeys(t *testing.T, text string) *Keys {
	t.Helper()
	k, err := ReadKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// open opens a store that is closed at the end of the test.
func open(t *testing.T, url string, keys *Keys, lease time.Duration) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url, Keys: keys, Lease: lease, Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestStoreMatchesModel(t *testing.T) { compareWithModel(t, pgtest.Start(t, false).URL) }

func TestStoreMatchesModelBehindPooler(t *testing.T) {
	compareWithModel(t, pgtest.Start(t, false).Pooler(t, "transaction", 2))
}

// compareWithModel makes random operations by three stores on a database.
func compareWithModel(t *testing.T, url string) {
	t.Helper()
	keys := readKeys(t, newKey())
	stores := make([]store.Store, 3)
	for i := range stores {
		s := open(t, url, keys, time.Hour)
		s.grace = 0 // leases can end before the database is as old as they last
		stores[i] = s
	}
	db := stores[0].(*Store)
	exec := func(sql string, args ...any) {
		if _, err := db.exec(context.Background(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Run(t, func() storetest.Replicas {
		exec(`TRUNCATE agentd_sessions CASCADE`)
		return storetest.Replicas{Stores: stores, Expire: func(leases []uuid.UUID) {
			exec(`UPDATE agentd_leases SET expires = now() - interval '1 second' WHERE id = ANY($1)`, leases)
		}}
	})
}
