package remote

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/scheduler/generation"
)

// adapters are the LoRA adapters of all engines, as they listed them last.
type adapters struct {
	listing sync.Mutex // held during listAgain
	listed  time.Time  // the last listAgain; listing guards it

	mu    sync.Mutex
	names []string // names[i] is adapter i+1; a name keeps its id
	ids   map[string]generation.AdapterID
	at    map[*replica]served
}

// served has the adapters of one engine by name.
type served map[string]loraEntry

// loraEntry is an adapter of llama-server: its number, and its scale in requests that set none. It is
// zero for other engines, which select adapters by name.
type loraEntry struct {
	ID    int     `json:"id"`
	Scale float32 `json:"scale"`
}

// Adapter returns the id of the adapter of that name. If no engine has listed the name, it asks all engines
// again, at most once each second.
func (e *Engine) Adapter(name string) (generation.AdapterID, bool) {
	if id, ok := e.adapters.find(name); ok {
		return id, true
	}
	e.listAgain()
	return e.adapters.find(name)
}

// listAgain asks all available engines for their adapters, unless it did so less than Engine.relist ago.
func (e *Engine) listAgain() {
	e.adapters.listing.Lock()
	defer e.adapters.listing.Unlock()
	if time.Since(e.adapters.listed) < e.relist {
		return
	}
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
	e.adapters.listed = time.Now() // calls that waited for the lock use this list
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
		if _, ok := list[name]; ok {
			return a.ids[name], true
		}
	}
	return 0, false
}

// name returns the name of an adapter, "" for id 0.
func (a *adapters) name(id generation.AdapterID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id < 1 || int(id) > len(a.names) {
		return ""
	}
	return a.names[id-1]
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
	if a.at == nil {
		a.at, a.ids = map[*replica]served{}, map[string]generation.AdapterID{}
	}
	a.at[r] = list
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if a.ids[name] == 0 {
			a.names = append(a.names, name)
			a.ids[name] = generation.AdapterID(len(a.names))
		}
	}
}

// listAdaptersOf asks one engine for its adapters. If that fails, its last list stays.
func (e *Engine) listAdaptersOf(ctx context.Context, r *replica, id identity) error {
	list := served{}
	if id.api == APILlamaServer {
		var entries []struct {
			loraEntry
			Path string `json:"path"`
		}
		err := e.readJSON(ctx, r, "/lora-adapters", nil, &entries)
		if status := (*StatusError)(nil); err != nil && !errors.As(err, &status) { // an older one has no such path
			return err
		}
		for _, entry := range entries {
			name := strings.TrimSuffix(path.Base(entry.Path), ".gguf")
			if _, twice := list[name]; twice {
				e.log.Warn().Str("engine", r.url).Str("path", entry.Path).Msg("two adapters of the engine have files of the same name; only the first can be asked for")
				continue
			}
			list[name] = entry.loraEntry
		}
		e.adapters.set(r, list)
		return nil
	}
	models, err := e.models(ctx, r)
	if err != nil {
		return err
	}
	for _, m := range models {
		if m.Parent != "" && m.ID != id.served {
			list[m.ID] = loraEntry{}
		}
	}
	e.adapters.set(r, list)
	return nil
}

// listedModel is an entry of /v1/models. The parent of an adapter is its model.
type listedModel struct {
	ID      string `json:"id"`
	Parent  string `json:"parent"`
	Context int    `json:"max_model_len"`
}

func (e *Engine) models(ctx context.Context, r *replica) ([]listedModel, error) {
	var list struct {
		Data []listedModel `json:"data"`
	}
	err := e.readJSON(ctx, r, "/v1/models", nil, &list)
	return list.Data, err
}

// loras returns the field lora of a request to llama-server: the scales of all adapters, so that the server
// does not reuse a prompt that it cached with others. For the name "" they are the server's defaults.
func loras(of served, name string) json.RawMessage {
	if len(of) == 0 {
		return nil
	}
	entries := slices.SortedFunc(maps.Values(of), func(a, b loraEntry) int { return a.ID - b.ID })
	for i := range entries {
		if name != "" {
			entries[i].Scale = 0
			if entries[i].ID == of[name].ID {
				entries[i].Scale = 1
			}
		}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		panic(err) // numbers
	}
	return text
}
