package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/base/budget"
	"agentd/llama"
)

// Values of Config.CPUAttention.
const (
	Shared = "shared"
	F32    = "f32"
	GGML   = "ggml"
)

// deviceGroup is the devices of one copy of the model.
type deviceGroup struct {
	devices []string // for llama.SetDevices
	layers  int      // for llama.SetGPULayers
	gpus    []llama.Device
	shares  []float32 // for llama.SetTensorSplit; nil: llama.cpp decides
	mode    string    // for llama.SetSplitMode
}

func (p deviceGroup) gpu() bool { return p.layers != 0 && len(p.gpus) > 0 }

func (p deviceGroup) describe() string {
	if !p.gpu() {
		return "CPU"
	}
	var names []string
	for _, d := range p.gpus {
		names = append(names, fmt.Sprintf("%s (%s)", d.Name, d.Description))
	}
	all := strings.Join(names, ", ")
	if len(names) > 1 {
		all += ", split by " + p.mode
	}
	return all
}

// split divides the GPUs into groups for n contexts. Each group has a whole model, which its contexts share. The CPU is
// one group. The error says that shares, or a Config.SplitMode other than layer, need groups of several GPUs.
func (p deviceGroup) split(n int, cfg Config) ([]deviceGroup, error) {
	divided := cmp.Or(cfg.SplitMode, llama.SplitLayer) != llama.SplitLayer
	if divided && len(p.gpus) < 2 {
		return nil, fmt.Errorf("Config.SplitMode %s divides a model among several devices, and there is only %s; remove it, or name more with Config.Device", cfg.SplitMode, p.describe())
	}
	if !p.gpu() {
		return []deviceGroup{p}, nil
	}
	gpus := len(p.gpus)
	groups := min(n, gpus)
	if n%groups != 0 || gpus%groups != 0 {
		return nil, fmt.Errorf("Config.Contexts %d can't be divided evenly among %d devices: use a multiple or a divisor of that, or name fewer with Config.Device", n, gpus)
	}
	size := gpus / groups
	if divided && size == 1 {
		return nil, fmt.Errorf("Config.SplitMode %s divides one model among several devices, but Config.Contexts %d puts a whole one on each; remove one of the two", cfg.SplitMode, n)
	}
	if p.shares != nil && size == 1 && gpus > 1 {
		return nil, fmt.Errorf("Config.Device %s has shares that divide one model among several devices, but Config.Contexts %d puts a whole one on each; remove one of the two", cfg.Device, n)
	}
	list := make([]deviceGroup, groups)
	for i := range list {
		list[i] = deviceGroup{layers: p.layers, mode: p.mode, gpus: p.gpus[i*size : (i+1)*size], devices: p.devices[i*size : (i+1)*size]}
		if p.shares != nil {
			list[i].shares = p.shares[i*size : (i+1)*size]
		}
	}
	return list, nil
}

// freeMemory returns the free memory for the KV cache in bytes. now has the devices after the model was
// loaded, p.gpus those before.
func (p deviceGroup) freeMemory(now []llama.Device) uint64 {
	if !p.gpu() {
		return budget.Free(budget.System)
	}
	var free uint64
	for _, d := range now {
		if slices.ContainsFunc(p.gpus, func(g llama.Device) bool { return g.Name == d.Name }) {
			free += d.MemoryFree
		}
	}
	return free
}

// placement loads the backend plugins in the directory of the libraries, and chooses devices.
func placement(cfg Config) (deviceGroup, error) {
	dir := llama.LibDir()
	names, pluginErr := llama.LoadBackends(dir)
	for _, name := range names {
		cfg.Log.Info().Str("plugin", name).Msg("backend loaded")
	}
	if pluginErr != nil {
		cfg.Log.Error().Err(pluginErr).Str("directory", dir).Msg("backend plugin could not be loaded")
	}
	p, err := chooseDevices(cfg, gpus())
	if err != nil && pluginErr != nil {
		err = fmt.Errorf("%w (%w)", err, pluginErr)
	}
	if err == nil && !p.gpu() {
		cfg.Log.Info().Msg("running on the CPU")
	}
	return p, err
}

// gpus returns the GPUs of this machine, with their current free memory.
func gpus() []llama.Device {
	return slices.DeleteFunc(llama.Devices(), func(d llama.Device) bool { return d.Type != "gpu" && d.Type != "igpu" })
}

// chooseDevices applies Device and GPULayers of cfg to the GPUs of this machine.
func chooseDevices(cfg Config, gpus []llama.Device) (deviceGroup, error) {
	cpu := deviceGroup{devices: []string{"cpu"}}
	var shares []float32
	wanted := strings.ToLower(strings.TrimSpace(cfg.Device))
	if wanted == "cpu" {
		return cpu, nil
	}
	if wanted == "" || wanted == "auto" {
		if len(gpus) == 0 {
			if cfg.GPULayers > 0 {
				return deviceGroup{}, fmt.Errorf("Config.GPULayers %d: there is no GPU here; remove it, or run make cuda to build the CUDA backend", cfg.GPULayers)
			}
			return cpu, nil
		}
	} else {
		var err error
		if gpus, shares, err = named(wanted, gpus); err != nil {
			return deviceGroup{}, err
		}
	}
	if cfg.GPULayers == 0 {
		return cpu, nil
	}
	p := deviceGroup{layers: cfg.GPULayers, gpus: gpus, shares: shares, mode: cmp.Or(cfg.SplitMode, llama.SplitLayer)}
	for _, d := range gpus {
		p.devices = append(p.devices, d.Name)
	}
	return p, nil
}

// named returns the GPUs of a list such as cuda0,cuda1. "cuda" and "gpu" mean all, and "cuda:0" means
// "CUDA0". shares has the shares of a list such as cuda0=3,cuda1=1, and is nil without any.
func named(list string, gpus []llama.Device) (found []llama.Device, shares []float32, err error) {
	var known []string
	for _, d := range gpus {
		known = append(known, d.Name)
	}
	for word := range strings.SplitSeq(list, ",") {
		word, text, shared := strings.Cut(word, "=")
		word = strings.ReplaceAll(strings.TrimSpace(word), ":", "")
		share, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if usable := share > 0 && share <= math.MaxFloat32; shared && (err != nil || !usable) {
			return nil, nil, fmt.Errorf("Config.Device %s=%s: the share must be a number above 0, as in CUDA0=3,CUDA1=1", word, text)
		}
		matched := false
		for _, d := range gpus {
			name := strings.ToLower(d.Name)
			if name != word && word != "gpu" && strings.TrimRight(name, "0123456789") != word {
				continue
			}
			matched = true
			if !slices.ContainsFunc(found, func(f llama.Device) bool { return f.Name == d.Name }) {
				found = append(found, d)
				if shared {
					shares = append(shares, float32(share))
				}
			}
		}
		switch {
		case matched:
		case len(known) == 0:
			return nil, nil, fmt.Errorf("Config.Device %s: there is no GPU here; use cpu, or run make cuda to build the CUDA backend", word)
		default:
			return nil, nil, fmt.Errorf("Config.Device %s: there is no such device; use cpu or one of %s", word, strings.Join(known, ", "))
		}
	}
	if shares != nil && len(shares) != len(found) {
		return nil, nil, fmt.Errorf("Config.Device %s has %d shares for %d devices; give one to each, or to none", list, len(shares), len(found))
	}
	return found, shares, nil
}
