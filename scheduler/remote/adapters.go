package remote

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"agentd/scheduler/generation"
)

// adapters are the LoRA adapters that the engines serve, as they listed them last.
type adapters struct {
	listing sync.Mutex // held while engines are asked
	listed  time.Time  // when listAgain did so

	mu    sync.Mutex
	names []string // by adapter id; a name keeps its id, and "" has 0
	ids   map[string]generation.AdapterID
	at    map[*replica]served
}

// served are the names of the adapters of one engine.
type served map[string]bool

// Adapter returns the id of the adapter that engines list under a name. An unknown name makes it ask
// them again, at most once in a second.
func (e *Engine) Adapter(name string) (generation.AdapterID, bool) {
	if id, ok := e.adapters.find(name); ok {
		return id, true
	}
	e.listAgain()
	return e.adapters.find(name)
}

// listAgain asks all engines for their adapters, unless it did so a moment ago.
func (e *Engine) listAgain() {
	e.adapters.listing.Lock()
	defer e.adapters.listing.Unlock()
	if time.Since(e.adapters.listed) >= e.relist {
		e.listAdapters()
		e.adapters.listed = time.Now() // those that waited here need no list of their own
	}
}

// Adapters returns the names of all adapters, sorted.
func (e *Engine) Adapters() []string {
	e.adapters.mu.Lock()
	defer e.adapters.mu.Unlock()
	names := map[string]bool{}
	for _, list := range e.adapters.at {
		for name := range list {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// find returns the id of an adapter that an engine listed.
func (a *adapters) find(name string) (generation.AdapterID, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.at {
		if list[name] {
			return a.ids[name], true
		}
	}
	return 0, false
}

// name is the name of an adapter that an engine listed, "" without one.
func (a *adapters) name(id generation.AdapterID) string {
	if id == 0 {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[id]
}

// of returns the adapters of one engine.
func (a *adapters) of(r *replica) served {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[r] // never changed
}

// set replaces the adapters of one engine.
func (a *adapters) set(r *replica, list served) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[r] = list
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if a.ids[name] == 0 {
			a.ids[name] = generation.AdapterID(len(a.names))
			a.names = append(a.names, name)
		}
	}
}

// listAdapters asks all engines that can be reached.
func (e *Engine) listAdapters() {
	var asked sync.WaitGroup
	for _, r := range e.replicas {
		if r.available() {
			asked.Go(func() {
				if err := e.listAdaptersOf(e.base, r, r.identity()); err != nil {
					e.log.Warn().Str("engine", r.url).Err(err).Msg("engine does not list its adapters")
				}
			})
		}
	}
	asked.Wait()
}

// listAdaptersOf asks one engine. Where that fails, its last list stays.
func (e *Engine) listAdaptersOf(ctx context.Context, r *replica, id identity) error {
	models, err := e.models(ctx, r)
	if err != nil {
		return err
	}
	list := served{}
	for _, m := range models {
		if m.Parent != "" && m.ID != id.served {
			list[m.ID] = true
		}
	}
	e.adapters.set(r, list)
	return nil
}

// listedModel is an entry of /v1/models. An adapter names its model as its parent.
type listedModel struct {
	ID      string `json:"id"`
	Parent  string `json:"parent"`
	Context int    `json:"max_model_len"`
}

func (e *Engine) models(ctx context.Context, r *replica) ([]listedModel, error) {
	var list struct {
		Data []listedModel `json:"data"`
	}
	err := e.getJSON(ctx, r, "/v1/models", &list)
	return list.Data, err
}
