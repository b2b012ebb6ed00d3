package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/waittest"
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

func TestAdapterReachesEnginesOfEveryAPI(t *testing.T) {
	for api, field := range map[string][2]string{ // of a call without and with the adapter
		APIVLLM:        {`"model":"m"`, `"model":"quick"`},
		APISGLang:      {`"input_ids"`, `"lora_path":"quick"`},
		APILlamaServer: {`"lora":[{"id":0,"scale":0.5},{"id":1,"scale":0.5}]`, `"lora":[{"id":0,"scale":0},{"id":1,"scale":1}]`},
	} {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
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
				if texts(got) != want {
					t.Errorf("got %s, want %s", texts(got), want)
				}
				call, err := json.Marshal(f.calls[len(f.calls)-1])
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(call), field[i]) || strings.Contains(string(call), `"lora_path"`) != (api == APISGLang && i == 1) {
					t.Errorf("the call is %s, want %s in it", call, field[i])
				}
				if reuses := f.calls[len(f.calls)-1]["cache_prompt"]; api == APILlamaServer && reuses != false {
					t.Error("a server that mixes up prefixes of adapters was told to reuse them")
				}
			}
		})
	}
}

func TestLlamaServerWithoutAdaptersReusesPrompts(t *testing.T) {
	f := newFake(t, APILlamaServer)
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/lora-adapters" { // an older server
			http.NotFound(w, r)
		}
		return r.URL.Path == "/lora-adapters"
	})
	e := started(t, f)
	if _, err := e.Generate(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	if call := f.calls[0]; call["cache_prompt"] != true || call["lora"] != nil {
		t.Errorf("the call is %v", call)
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

// TestAdapterIsAskedWhereItIs, by the number that it has there.
func TestAdapterIsAskedWhereItIs(t *testing.T) {
	a, b := newFake(t, APILlamaServer), newFake(t, APILlamaServer)
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
	f := newFake(t, APILlamaServer)
	f.serves("careful", "quick")
	e := started(t, f)
	id, _ := e.Adapter("quick")
	f.serves("quick", "careful") // it was started again with another order
	r := e.replicas[0]
	e.lost(r, gone, errors.New("test"))
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

func TestFilesOfOneNameAreNotMixedUp(t *testing.T) {
	f := newFake(t, APILlamaServer)
	f.serves("a", "b/../a")
	e := started(t, f)
	id, _ := e.Adapter("a")
	got, err := e.Generate(t.Context(), with(id))
	if names := e.Adapters(); err != nil || !slices.Equal(names, []string{"a"}) || !strings.HasPrefix(texts(got), "ok by a<") {
		t.Errorf("%q, %s, %v", names, texts(got), err)
	}
}
