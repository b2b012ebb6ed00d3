package remote

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/waittest"
	"agentd/scheduler/generation"
)

// with is a request for an adapter.
func with(id generation.AdapterID) *generation.Request {
	r := request(2)
	r.Adapter = id
	return r
}

func (f *fakeEngine) serves(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.adapters = names
}

func TestAdapterReachesTheEngine(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.serves("careful", "quick")
	e := started(t, f)
	if got := e.Adapters(); !slices.Equal(got, []string{"careful", "quick"}) {
		t.Fatalf("the adapters are %q", got)
	}
	id, ok := e.Adapter("quick")
	if !ok {
		t.Fatal("no adapter quick")
	}
	for i, want := range []string{"ok<end>/stop ok<end>/stop", "ok by quick<end>/stop ok by quick<end>/stop"} {
		got, err := e.Generate(t.Context(), with(id*generation.AdapterID(i)))
		if err != nil {
			t.Fatal(err)
		}
		if model := f.calls[len(f.calls)-1]["model"]; texts(got) != want || model != []string{"m", "quick"}[i] {
			t.Errorf("got %s of %v, want %s", texts(got), model, want)
		}
	}
}

func TestUnknownAdapterIsLookedForOnce(t *testing.T) {
	f := newFake(t, APIVLLM)
	e := started(t, f)
	e.relist = time.Hour
	f.serves("late")
	id, ok := e.Adapter("late")
	if !ok {
		t.Fatal("an adapter that was loaded later is not found")
	}
	lists := f.lists
	if _, ok := e.Adapter("other"); ok || f.lists != lists {
		t.Errorf("%d lists for another unknown name", f.lists-lists)
	}
	f.serves() // it is removed
	e.relist = 0
	if _, err := e.Generate(t.Context(), with(id)); err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("an adapter that was removed: %v", err)
	}
	if _, ok := e.Adapter("late"); ok {
		t.Error("the removed adapter is still known")
	}
	if _, err := e.Generate(t.Context(), with(id)); err == nil || !strings.Contains(err.Error(), `no engine serves the adapter "late" any more`) {
		t.Errorf("after the list: %v", err)
	}
}

func TestAnswerOfTheModelIsNoAnswerOfTheAdapter(t *testing.T) {
	for name, wanted := range map[string]string{"an adapter of requests": "", "the adapter that the engine serves here": "late"} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			f.anyName = true
			f.serves("late")
			e, _ := opened(t, f)
			e.cfg.Model = wanted
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := request(1)
			if wanted == "" {
				id, ok := e.Adapter("late")
				if !ok {
					t.Fatal("no adapter late")
				}
				r = with(id)
			}
			if got, err := e.Generate(t.Context(), r); err != nil || !strings.Contains(texts(got), "by late") {
				t.Errorf("%v, %v", got, err)
			}
			f.serves() // it is removed
			e.relist = 0
			if got, err := e.Generate(t.Context(), r); err == nil || !strings.Contains(err.Error(), `the adapter "late" is not served here any more`) {
				t.Errorf("after it was removed: %v, %v", got, err)
			}
			if _, ok := e.Adapter("late"); ok {
				t.Error("the removed adapter is still known")
			}
		})
	}
}

func TestAdapterIsAskedWhereItIs(t *testing.T) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	a.serves("careful", "quick")
	b.serves("quick")
	e := started(t, a, b)
	ask := func(name string, n int) {
		t.Helper()
		id, ok := e.Adapter(name)
		if !ok {
			t.Fatalf("no adapter %s", name)
		}
		for i := range n {
			r := with(id)
			r.Session = fmt.Sprint("run ", i)
			got, err := e.Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("ok by %s<end>/stop ok by %s<end>/stop", name, name); texts(got) != want {
				t.Fatalf("got %s, want %s", texts(got), want)
			}
		}
	}
	ask("careful", 8)
	if b.count() != 0 {
		t.Errorf("%d calls went to an engine without the adapter", b.count())
	}
	ask("quick", 16)
	if b.count() == 0 || a.count() == 8 {
		t.Errorf("the engines got %d and %d calls", a.count(), b.count())
	}
}

func TestAffinityDependsOnAdapter(t *testing.T) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	names := make([]string, 50) // that all choose the same engine is as good as impossible
	for i := range names {
		names[i] = fmt.Sprint("adapter ", i)
	}
	a.serves(names...)
	b.serves(names...)
	e := started(t, a, b)
	for _, session := range []string{"a run", ""} {
		first := map[string]bool{}
		for id := range generation.AdapterID(len(names) + 1) {
			r := with(id)
			r.Session = session
			for range 3 {
				if got, again := e.order(r)[0], e.order(r)[0]; got != again {
					t.Errorf("the order of adapter %d changes", id)
				}
			}
			first[e.order(r)[0].url] = true
		}
		if len(first) != 2 {
			t.Errorf("session %q: all adapters have the same engine", session)
		}
	}
}

func TestEngineThatReturnsListsItsAdaptersAgain(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.serves("careful", "quick")
	e := started(t, f)
	id, _ := e.Adapter("quick")
	f.serves("quick", "careful") // it was started again with another order
	r := e.replicas[0]
	e.lost(r, out{err: errors.New("test")})
	waittest.Eventually(t, "the engine joins again", r.available)
	got, err := e.Generate(t.Context(), with(id))
	if err != nil || !strings.HasPrefix(texts(got), "ok by quick") {
		t.Errorf("got %s, %v", texts(got), err)
	}
}

func TestAdapterOfAnEngineThatIsOutIsUnreachable(t *testing.T) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	a.serves("quick")
	e := started(t, a, b)
	id, _ := e.Adapter("quick")
	a.intercepts(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	for range 2 { // it is lost, then left out
		_, err := e.Generate(t.Context(), with(id))
		if busy := (*generation.BusyError)(nil); !errors.As(err, &busy) || !strings.Contains(err.Error(), a.URL) || b.count() > 0 {
			t.Errorf("got %v", err)
		}
	}
}
