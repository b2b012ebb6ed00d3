package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"agentd/internal/base/budget"
	"agentd/llama"
	"agentd/llama/checkpoint"
	"agentd/scheduler/generation"
)

// FreeMemory is the free memory in bytes by place: "CPU" for the host, or the name of a device. Missing places
// and 0 mean unknown.
type FreeMemory map[string]uint64

// hostPlace is the host's llama.Placement.Device.
const hostPlace = "CPU"

// MemoryNow measures the free memory of the host and of all devices.
func MemoryNow() FreeMemory {
	free := FreeMemory{hostPlace: budget.Free(budget.System)}
	for _, d := range gpus() {
		free[d.Name] = d.MemoryFree
	}
	return free
}

// at returns the free memory at a llama.Placement.Device. SplitTensor has one place for all devices.
func (f FreeMemory) at(place string) uint64 {
	if free, ok := f[place]; ok {
		return free
	}
	var all uint64
	for name, free := range f {
		if name != hostPlace {
			all += free
		}
	}
	return all
}

// HeadroomError refuses weights that do not fit the memory beside the present ones.
type HeadroomError struct {
	Place      string // see FreeMemory
	Need, Free uint64 // bytes
	Fix        string // what to do, for the message
}

func (e *HeadroomError) Error() string {
	return fmt.Sprintf("they need about %d MB of memory on %s beside the present ones, and %d MB are free there; %s",
		(e.Need+999_999)/1e6, e.Place, e.Free/1e6, e.Fix)
}

// check returns a *HeadroomError if a place has less free memory than need.
func (f FreeMemory) check(need []llama.Placement, fix string) error {
	for _, p := range need {
		bytes := p.Weights + p.Memory + p.Compute
		bytes += bytes / headroomReserve
		if free := f.at(p.Device); free > 0 && bytes > free {
			return &HeadroomError{p.Device, bytes, free, fix}
		}
	}
	return nil
}

// scaled returns the memory that other weights need on each device: weights, cells and compute are factors of
// the present model's memory.
func (m *Model) scaled(weights, cells, compute float64) []llama.Placement {
	list := slices.Clone(m.Info.Placement)
	for i, p := range list {
		list[i].Weights, list[i].Memory, list[i].Compute =
			uint64(float64(p.Weights)*weights), uint64(float64(p.Memory)*cells), uint64(float64(p.Compute)*compute)
	}
	return list
}

// HeadroomForModel returns a *HeadroomError if the free memory is too small for the model at path, which has that many
// bytes, beside the present one. The new model would get as many contexts of the same length, adapters of adapterBytes
// bytes for all copies of the model, and cacheRAM MB for evicted prefixes. Another vocabulary is an error, too.
func (m *Model) HeadroomForModel(ctx context.Context, path string, bytes int64, adapterBytes uint64, cacheRAM int, free FreeMemory) error {
	file := path
	if checkpoint.IsDirectory(path) {
		f, err := checkpoint.OpenShape(path)
		if err != nil {
			return fmt.Errorf("the checkpoint could not be read: %w", err)
		}
		defer f.Close()
		file = f.Name()
	}
	next, err := llama.New(file, llama.SetCancel(ctx), llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		return loadError(path, "", err)
	}
	defer func() { _ = next.Free() }() // nothing uses it
	if err := sameVocabulary(m.Llama, next); err != nil {
		return err
	}
	cells := 1.0
	if now := cellBytes(m.Llama.Metadata(), m.Info.Architecture, m.Info.KVType); now > 0 {
		cells = cellBytes(next.Metadata(), next.Info().Architecture, m.Info.KVType) / now
	}
	weights := float64(bytes) + float64(adapterBytes)/float64(len(m.copies))
	need := m.scaled(weights/float64(m.Info.SizeBytes), cells, 1)
	host := slices.IndexFunc(need, func(p llama.Placement) bool { return p.Device == hostPlace })
	if host < 0 {
		host, need = len(need), append(need, llama.Placement{Device: hostPlace})
	}
	need[host].Memory += uint64(cacheRAM) * 1e6
	if file != path && len(need) > 1 { // the checkpoint's file in memory, which a device copies
		need[host].Memory += uint64(bytes)
	}
	return free.check(need, "free memory there, start the server with fewer contexts or a smaller context_length, or use a LoRA adapter")
}

// HeadroomForAdapter is HeadroomForModel for the adapter at path.
func (m *Model) HeadroomForAdapter(path string, free FreeMemory) error {
	bytes, _, err := Watch(Files(path)...)
	if err != nil {
		return err
	}
	return free.check(m.scaled(float64(bytes)/float64(m.Info.SizeBytes), 0, 0), "free memory there, or remove an adapter first")
}

// AdapterBase returns the description of the model that the conversion of a PEFT adapter needs.
func (m *Model) AdapterBase() checkpoint.Base {
	base := checkpoint.Base{Architecture: m.Info.Architecture}
	number := func(key string) int {
		n, _ := strconv.Atoi(m.Llama.Metadata()[base.Architecture+"."+key]) // a model without it has no heads to permute
		return n
	}
	base.Heads, base.KVHeads = number("attention.head_count"), number("attention.head_count_kv")
	return base
}

// sameVocabulary refuses a model with another vocabulary.
func sameVocabulary(now, next *llama.Model) error {
	a, b := now.Vocab(), next.Vocab()
	same := a.Size() == b.Size()
	for t := generation.Token(0); same && int(t) < a.Size(); t++ {
		same = slices.Equal(a.Piece(t, true), b.Piece(t, true)) && a.Attr(t) == b.Attr(t) && a.IsEOG(t) == b.IsEOG(t)
	}
	if !same {
		return errors.New("its vocabulary differs from that of the present model; restart the server to change it")
	}
	return nil
}
