package inference

import (
	"context"
	"fmt"
	"os"

	"agentd/internal/budget"
	"agentd/llama"
)

// freeMemory is the free memory in bytes by place: "CPU" for the host, or the name of a device. A
// place that is missing or has 0 is not known.
type freeMemory map[string]uint64

// hostPlace is the host's name in llama.Placement.
const hostPlace = "CPU"

// memoryNow measures the free memory of the host and of all devices.
func memoryNow() freeMemory {
	free := freeMemory{hostPlace: budget.Free(budget.System)}
	for _, d := range llama.Devices() {
		if d.Type == "gpu" || d.Type == "igpu" {
			free[d.Name] = d.MemoryFree
		}
	}
	return free
}

// at is the free memory at a place of llama.Placement. With SplitTensor that is one name for all
// devices.
func (f freeMemory) at(place string) uint64 {
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

// noRoomError refuses weights that do not fit beside the present ones.
type noRoomError struct {
	place      string
	need, free uint64 // bytes
	fix        string
}

func (e *noRoomError) Error() string {
	return fmt.Sprintf("they need about %d MB of memory on %s beside the present ones, and %d MB are free there; %s",
		(e.need+999_999)/1e6, e.place, e.free/1e6, e.fix)
}

// room refuses what needs more than the free memory at some place.
func (f freeMemory) room(need []llama.Placement, fix string) error {
	for _, p := range need {
		bytes := p.Weights + p.Memory + p.Compute
		bytes += bytes / roomReserve
		if free := f.at(p.Device); free > 0 && bytes > free {
			return &noRoomError{p.Device, bytes, free, fix}
		}
	}
	return nil
}

// beside is what other weights take where the present ones lie. weights, cells and compute are
// theirs relative to the present model's.
func (s *Service) beside(weights, cells, compute float64) []llama.Placement {
	list := make([]llama.Placement, 0, len(s.info.Placement))
	for _, p := range s.info.Placement {
		list = append(list, llama.Placement{
			Device:  p.Device,
			Weights: uint64(float64(p.Weights) * weights), Memory: uint64(float64(p.Memory) * cells), Compute: uint64(float64(p.Compute) * compute),
		})
	}
	return list
}

// roomForModel refuses a model at path, of so many bytes, that does not fit the free memory beside the
// present one, with as many contexts of the same length, the same adapters and cacheRAM MB for
// evicted prefixes.
func (s *Service) roomForModel(ctx context.Context, path string, bytes int64, cacheRAM int, free freeMemory) error {
	next, err := llama.New(path, llama.SetCancel(ctx), llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		return loadError(path, "", err)
	}
	defer func() { _ = next.Free() }() // nothing uses it
	if err := sameVocabulary(s.model, next); err != nil {
		return err
	}
	cells := 1.0
	if now := cellBytes(s.model.Metadata(), s.info.Architecture, 0, 0, s.info.KVType); now > 0 {
		cells = cellBytes(next.Metadata(), next.Info().Architecture, 0, 0, s.info.KVType) / now
	}
	weights := float64(bytes)
	for _, a := range s.adapters.list() {
		weights += float64(a.Bytes) / float64(len(s.models))
	}
	need := s.beside(weights/float64(s.info.Bytes), cells, 1)
	need = append(need, llama.Placement{Device: hostPlace, Memory: uint64(cacheRAM) * 1e6})
	return free.room(merged(need), "free memory there, start the server with fewer contexts or a smaller context_length, or use a LoRA adapter")
}

// roomForAdapter is roomForModel for an adapter.
func (s *Service) roomForAdapter(path string, free freeMemory) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return free.room(s.beside(float64(info.Size())/float64(s.info.Bytes), 0, 0), "free memory there, or remove an adapter first")
}

// merged adds up what has the same place.
func merged(list []llama.Placement) (sums []llama.Placement) {
	at := map[string]int{}
	for _, p := range list {
		i, ok := at[p.Device]
		if !ok {
			i, sums = len(sums), append(sums, llama.Placement{Device: p.Device})
			at[p.Device] = i
		}
		sums[i].Weights, sums[i].Memory, sums[i].Compute = sums[i].Weights+p.Weights, sums[i].Memory+p.Memory, sums[i].Compute+p.Compute
	}
	return sums
}
