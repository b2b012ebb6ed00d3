package console

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func TestStoreOfOtherVersionIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(txn) error{
		"layout":    func(x txn) error { return x.tx.Bucket(bucketMeta).Put(keySchema, []byte("2")) },
		"no layout": func(x txn) error { return x.tx.Bucket(bucketMeta).Delete(keySchema) },
		"a task": func(x txn) error {
			return x.tx.Bucket(bucketOpen).Put(seqKey(1), []byte(`{"version":`+strconv.Itoa(recordVersion+1)+`,"seq":1}`))
		},
		"a damaged task": func(x txn) error { return x.tx.Bucket(bucketOpen).Put(seqKey(1), []byte(`{`)) },
	} {
		path := filepath.Join(t.TempDir(), "console.db")
		s, err := openStore(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.update(spoil); err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		c, err := Open(Options{Path: path, Page: fakePage})
		if err == nil {
			t.Errorf("%s: opened", name)
			c.Close()
		}
		if db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout}); err != nil {
			t.Errorf("%s: the file is still held: %v", name, err)
		} else if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenStoreIsLocked(t *testing.T) {
	f := open(t)
	_, err := Open(Options{Path: f.path, Page: fakePage})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("the second console: %v", err)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", info.Mode(), err)
	}
}

func TestOtherFileIsRefusedAsStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a store ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path, Page: fakePage}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("opened, or: %v", err)
	}
}

func TestDoneListHasTheNewestTasks(t *testing.T) {
	f := open(t)
	err := f.console.store.update(func(x txn) error {
		for i := range maxListed + 5 {
			ended := &task{RequestID: fmt.Sprint(i), Answer: &answer{Status: "skipped"}, EndedAt: f.clock.now()}
			if err := x.create(ended, []byte("{}")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	done := f.tasks("done")
	if len(done) != maxListed || done[0].ID != strconv.Itoa(maxListed+5) {
		t.Errorf("%d tasks, the first is %s", len(done), done[0].ID)
	}
}

func TestViewCacheStaysWithinItsBounds(t *testing.T) {
	f := open(t)
	const tasks = maxViews + 8
	err := f.console.store.update(func(x txn) error {
		for i := range tasks {
			if err := x.create(&task{RequestID: fmt.Sprint(i)}, []byte(foreign(fmt.Sprint(i)))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := f.console
	for seq := range uint64(tasks) {
		if _, err := c.view(seq + 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.view(1); err != nil { // the one in use stays
			t.Fatal(err)
		}
	}
	kept := func() (seqs []uint64) {
		for seq := uint64(1); seq <= tasks; seq++ {
			if _, ok := c.views.Get(taskID(seq)); ok {
				seqs = append(seqs, seq)
			}
		}
		return seqs
	}
	if got := kept(); len(got) != maxViews || got[0] != 1 || got[1] != tasks-maxViews+2 {
		t.Errorf("%d are kept: %v", len(got), got)
	}
	c.views.Grow(taskID(tasks), maxViewBytes) // as if it were large; it was used last
	if _, err := c.view(2); err != nil || !slices.Equal(kept(), []uint64{2}) {
		t.Errorf("beside a large one %v are kept (%v)", kept(), err)
	}
	if _, err := c.view(tasks + 1); err == nil {
		t.Error("a task that does not exist was found")
	}
}
