package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestConcurrentClaimsHaveOneWinner(t *testing.T) {
	f := open(t)
	const tasks, people = 5, 40
	for i := range tasks {
		f.post(foreign(fmt.Sprint("r", i)))
	}
	var won [tasks]atomic.Int32
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i := range tasks {
		for p := range people {
			wait.Go(func() {
				<-start
				r, err := f.try(context.Background(), http.MethodPost, fmt.Sprintf("/api/tasks/%d/claim", i+1), object{"person": fmt.Sprint("P", p)})
				switch {
				case err != nil:
					t.Error(err)
				case r.status == http.StatusOK:
					won[i].Add(1)
				case r.status != http.StatusConflict || !strings.HasSuffix(r.detail(), " is working on it"):
					t.Errorf("a loser got %d %s", r.status, r.body)
				}
			})
		}
	}
	close(start)
	wait.Wait()
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("task %d was claimed by %d people", i+1, n)
		}
	}
}

func TestConcurrentAnswersHaveOneWinner(t *testing.T) {
	f := open(t)
	agent := f.post(foreign("r1"))
	claim := f.claimed("1", "Ann")
	const tries = 30
	var won atomic.Int32
	var winner atomic.Value
	var wait sync.WaitGroup
	for i := range tries {
		reason := fmt.Sprint("reason ", i)
		wait.Go(func() {
			r, err := f.try(context.Background(), http.MethodPost, "/api/tasks/1/answer", object{"claim": claim, "status": "skipped", "reason": reason})
			switch {
			case err != nil:
				t.Error(err)
			case r.status == http.StatusOK:
				won.Add(1)
				winner.Store(reason)
			case r.status != http.StatusConflict:
				t.Errorf("status %d %s", r.status, r.body)
			}
		})
	}
	wait.Wait()
	if n := won.Load(); n != 1 {
		t.Fatalf("%d answers were taken", n)
	}
	if got := agent.answer(); got.Error != winner.Load() {
		t.Errorf("the agent got %q, the person who won said %q", got.Error, winner.Load())
	}
}

func TestConcurrentAgentsPeopleAndPruning(t *testing.T) {
	f := open(t)
	const tasks = 25
	var wait sync.WaitGroup
	for i := range tasks {
		wait.Go(func() { // the agent
			r, err := f.try(context.Background(), http.MethodPost, "/v1/coaching/requests", foreign(fmt.Sprint("r", i)))
			if err != nil || r.status != http.StatusOK {
				t.Errorf("agent %d got %d %s %v", i, r.status, r.body, err)
			}
		})
	}
	var answered atomic.Int32
	for p := range 4 {
		wait.Go(func() { // a person, who takes what is free
			for answered.Load() < tasks {
				for _, task := range f.tasks("open") {
					person := fmt.Sprint("P", p)
					r := f.call(http.MethodPost, "/api/tasks/"+task.ID+"/claim", object{"person": person})
					if r.status != http.StatusOK {
						continue
					}
					var taken changed
					if err := json.Unmarshal(r.body, &taken); err != nil {
						t.Error(err)
					}
					claim := taken.Claim
					f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/"+task.ID+"/draft", object{"claim": claim, "draft": object{"by": person}}, nil)
					f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+task.ID+"/answer", object{"claim": claim, "status": "aborted", "reason": person}, nil)
					answered.Add(1)
				}
				f.prune()
			}
		})
	}
	wait.Wait()
	if open, done := len(f.tasks("open")), len(f.tasks("done")); open != 0 || done != tasks {
		t.Errorf("%d open and %d done tasks", open, done)
	}
	if n := f.connections(); n != 0 {
		t.Errorf("%d agents are counted as waiting", n)
	}
}
