package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/llama/checkpoint"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// adapters has the LoRA adapters of a model by name. An adapter is not freed while a request uses
// it. The methods are safe for concurrent use.
type adapters struct {
	engine *scheduler.Engine
	model  string // its name for clients, which no adapter may have
	base   checkpoint.Base
	log    zerolog.Logger

	mu      sync.Mutex
	byName  map[string]*loadedAdapter
	removal sync.WaitGroup // adapters that are being freed
}

type loadedAdapter struct {
	agent.Adapter
	path  string
	users int  // number of requests; guarded by adapters.mu
	gone  bool // replaced or removed: the last user frees it
}

// adapterInfo describes a loaded adapter.
type adapterInfo struct {
	protocol.WeightsFile
	Bytes uint64 // of memory, for all copies of the model together
}

// set loads the file at path as the adapter of that name. It replaces an adapter of the name, which running
// requests continue to use. After an error nothing has changed.
func (a *adapters) set(ctx context.Context, name, path string) error {
	if name == a.model {
		return fmt.Errorf("the adapter %s has the name of the model; choose another one", name)
	}
	_, unchanged, err := load.Watch(load.Files(path)...)
	if err != nil {
		return fmt.Errorf("the adapter %s: %w", name, err)
	}
	file := path
	if checkpoint.IsAdapterDirectory(path) {
		f, err := checkpoint.OpenAdapter(ctx, path, a.base)
		if err != nil {
			return fmt.Errorf("the adapter %s could not be read: %w", name, err)
		}
		defer f.Close() // llama.cpp copies it
		file = f.Name()
	}
	version, err := load.FileVersion(ctx, file) // afterwards the file is in the page cache
	if err != nil {
		return fmt.Errorf("the adapter %s: %w", name, err)
	}
	id, err := a.engine.AddAdapter(file)
	switch {
	case errors.Is(err, scheduler.ErrNotFinite):
		return fmt.Errorf("the adapter %s can't serve: %w; its file is damaged, or its training diverged", name, err)
	case errors.Is(err, scheduler.ErrContext):
		return fmt.Errorf("the adapter %s could not be tried: %w; free memory on its device, remove an adapter, or start the server with fewer contexts", name, err)
	case err != nil:
		return fmt.Errorf("the adapter %s could not be loaded from %s: %w; give a LoRA adapter that was made for this model, in GGUF or as PEFT's directory", name, path, err)
	}
	if err := unchanged(); err != nil {
		return errors.Join(fmt.Errorf("the adapter %s: %w", name, err), a.engine.RemoveAdapter(id))
	}
	a.mu.Lock()
	old := a.byName[name]
	a.byName[name] = &loadedAdapter{Adapter: agent.Adapter{Name: name, ID: id, Version: version}, path: path}
	a.retire(old)
	a.mu.Unlock()
	a.log.Info().Str("adapter", name).Str("path", path).Str("version", version).Msg("adapter loaded")
	return nil
}

// remove removes an adapter; it returns false if there is none of that name.
func (a *adapters) remove(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.byName[name]
	delete(a.byName, name)
	a.retire(old)
	return ok
}

// retire frees an adapter when no request uses it any more. a.mu is held.
func (a *adapters) retire(old *loadedAdapter) {
	if old != nil {
		if old.gone = true; old.users == 0 {
			a.free(old)
		}
	}
}

// free frees an adapter in the background, since contexts first end their step. a.mu is held.
func (a *adapters) free(old *loadedAdapter) {
	a.removal.Go(func() {
		if err := a.engine.RemoveAdapter(old.ID); err != nil {
			a.log.Error().Err(err).Str("adapter", old.Name).Msg("adapter not freed")
			return
		}
		a.log.Info().Str("adapter", old.Name).Str("version", old.Version).Msg("adapter freed")
	})
}

// list describes the adapters, sorted by name.
func (a *adapters) list() []adapterInfo {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]adapterInfo, 0, len(a.byName))
	for _, name := range slices.Sorted(maps.Keys(a.byName)) {
		l := a.byName[name]
		list = append(list, adapterInfo{protocol.WeightsFile{Name: name, Path: l.path, Version: l.Version}, a.engine.AdapterBytes(l.ID)})
	}
	return list
}

// close waits for adapters that are being freed. The engine frees the others.
func (a *adapters) close() {
	if a != nil {
		a.removal.Wait()
	}
}

// adapterUse has the adapters that one request uses. Until end, a name means the same adapter.
type adapterUse struct {
	on   *modelVersion
	used map[string]*loadedAdapter // nil with engines at URLs
}

var _ agent.Adapters = (*adapterUse)(nil)

func (u *adapterUse) Adapter(name string) (agent.Adapter, bool) {
	if r := u.on.Remote; r != nil { // such engines do not show versions
		id, ok := r.Adapter(name)
		return agent.Adapter{Name: name, ID: id}, ok
	}
	if l := u.used[name]; l != nil {
		return l.Adapter, true
	}
	all := u.on.adapters
	all.mu.Lock()
	defer all.mu.Unlock()
	l := all.byName[name]
	if l == nil {
		return agent.Adapter{}, false
	}
	l.users++
	if u.used == nil {
		u.used = map[string]*loadedAdapter{}
	}
	u.used[name] = l
	return l.Adapter, true
}

// of returns the name and the version of a used adapter, "" for id 0.
func (u *adapterUse) of(id generation.AdapterID) (name, version string) {
	if u != nil {
		for name, l := range u.used {
			if l.ID == id {
				return name, l.Version
			}
		}
	}
	return "", ""
}

func (u *adapterUse) Names() []string {
	if r := u.on.Remote; r != nil {
		return r.Adapters()
	}
	u.on.adapters.mu.Lock()
	defer u.on.adapters.mu.Unlock()
	return slices.Sorted(maps.Keys(u.on.adapters.byName))
}

// end releases the adapters.
func (u *adapterUse) end() {
	if len(u.used) == 0 {
		return
	}
	all := u.on.adapters
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, l := range u.used {
		if l.users--; l.users == 0 && l.gone {
			all.free(l)
		}
	}
}
