package console

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStoreMatchesModel(t *testing.T) {
	directory, n := t.TempDir(), 0
	testStore(t, func() *store {
		n++
		s, err := openStore(filepath.Join(directory, strconv.Itoa(n)), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.close() }) // as the process would at its end
		return s
	})
}

// stored is a task of the model.
type stored struct {
	task    task
	request string
	draft   string
}

// testStore makes random transactions on an empty store and compares them with a model.
func testStore(t *testing.T, open func() *store) {
	total, err := strconv.Atoi(cmp.Or(os.Getenv("AGENTD_STORE_OPERATIONS"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"a", "nul\x00", "r/ä", string(make([]byte, maxRequestID))}
	var began bool
	rapid.Check(t, func(t *rapid.T) {
		if began { // one sequence is enough
			return
		}
		began = true
		s, model := open(), map[string]*stored{}
		n := 0
		for range total {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			op := rapid.IntRange(0, 5).Draw(t, "operation")
			undone := rapid.IntRange(0, 4).Draw(t, "rollback") == 0
			known := model[id]
			n++
			var after *stored // of the task once the transaction is committed
			if known != nil {
				copied := *known
				after = &copied
			}
			why := errors.New("rolled back")
			err := s.update(func(x txn) error {
				got, err := x.byRequest(id)
				if err != nil {
					return err
				}
				if (got == nil) != (known == nil) {
					return fmt.Errorf("byRequest has %v, the model %v", got, known)
				}
				switch {
				case known == nil && op < 3:
					after = &stored{task: task{RequestID: id, Stage: fmt.Sprint("stage ", n)}, request: fmt.Sprint("request ", n)}
					err = x.create(&after.task, []byte(after.request))
				case known == nil:
				case op < 2:
					after.task.Claim = &claim{Person: fmt.Sprint("P", n), Expires: time.Now()}
					err = x.put(&after.task)
				case op == 2 && !known.task.ended():
					after.task.EndedAt, after.task.Answer = time.Now(), &answer{Status: "skipped"}
					err = x.put(&after.task)
				case op == 3:
					after.draft = fmt.Sprint("draft ", n)
					err = x.putDraft(known.task.Seq, []byte(after.draft))
				case op == 4:
					after.draft = ""
					err = x.putDraft(known.task.Seq, nil)
				case op == 5:
					after = nil
					err = x.remove(&known.task)
				}
				if err == nil && undone {
					err = why
				}
				return err
			})
			switch {
			case undone && errors.Is(err, why):
			case err != nil:
				t.Fatal(err)
			case after == nil:
				delete(model, id)
			default:
				model[id] = after
			}
			compareStore(t, s, model)
		}
	})
}

// compareStore compares all tasks with the model's tasks.
func compareStore(t *rapid.T, s *store, model map[string]*stored) {
	err := s.view(func(x txn) error {
		n, last := 0, uint64(0)
		for _, ended := range []bool{false, true} {
			last = 0
			err := x.each(ended, func(got *task) error {
				n++
				want := model[got.RequestID]
				if want == nil || want.task.ended() != ended || got.Seq <= last || !same(got.Stage, want.task.Stage) || !got.EndedAt.Equal(want.task.EndedAt) ||
					(got.Claim == nil) != (want.task.Claim == nil) || got.Claim != nil && got.Claim.Person != want.task.Claim.Person {
					return fmt.Errorf("the store has %+v, the model %+v", got, want)
				}
				last = got.Seq
				return nil
			})
			if err != nil {
				return err
			}
		}
		if n != len(model) {
			return fmt.Errorf("the store has %d tasks, the model %d", n, len(model))
		}
		for _, want := range model {
			request, draft := x.part(bucketRequests, want.task.Seq), x.part(bucketDrafts, want.task.Seq)
			if string(request) != want.request || !slices.Equal(draft, []byte(want.draft)) {
				return fmt.Errorf("the store has %q and %q, the model %+v", request, draft, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
