package inference

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/llama"
)

// placed is where the model's layers go.
type placed struct {
	devices []string // for llama.SetDevices
	layers  int      // for llama.SetGPULayers
	gpus    []llama.Device
}

func (p placed) gpu() bool { return p.layers != 0 && len(p.gpus) > 0 }

func (p placed) describe() string {
	if !p.gpu() {
		return "CPU"
	}
	var names []string
	for _, d := range p.gpus {
		names = append(names, fmt.Sprintf("%s (%s)", d.Name, d.Description))
	}
	return strings.Join(names, ", ")
}

// split deals the GPUs out to contexts: with n of them, each GPU or group of neighbours
// gets as many. Each group holds the whole model, which its contexts share. On the
// CPU there is one group.
//
// shares is true when Config.TensorSplit is set, which needs groups of several GPUs.
func (p placed) split(n int, shares bool) ([]placed, error) {
	if !p.gpu() {
		return []placed{p}, nil
	}
	gpus := len(p.gpus)
	groups := min(n, gpus)
	if n%groups != 0 || gpus%groups != 0 {
		return nil, fmt.Errorf("Config.Contexts %d can't be dealt out evenly to %d devices: use a multiple or a divisor of that, or name fewer with Config.Device", n, gpus)
	}
	size := gpus / groups
	if shares && size == 1 && gpus > 1 {
		return nil, fmt.Errorf("Config.TensorSplit shares one model out to several devices, but Config.Contexts %d puts a whole one on each; remove one of the two", n)
	}
	list := make([]placed, groups)
	for i := range list {
		list[i] = placed{layers: p.layers, gpus: p.gpus[i*size : (i+1)*size], devices: p.devices[i*size : (i+1)*size]}
	}
	return list, nil
}

// freeMemory is what is left for the KV cache, in bytes, given the devices as they are
// now: those of p were looked at before the model was loaded.
func (p placed) freeMemory(now []llama.Device) uint64 {
	if !p.gpu() {
		return hostMemory()
	}
	var free uint64
	for _, d := range now {
		if slices.ContainsFunc(p.gpus, func(g llama.Device) bool { return g.Name == d.Name }) {
			free += d.MemoryFree
		}
	}
	return free
}

// placement loads the backend plugins beside the libraries and picks devices.
func placement(cfg Config) (placed, error) {
	dir := llama.LibDir()
	names, pluginErr := llama.LoadBackends(dir)
	for _, name := range names {
		cfg.Log.Info().Str("plugin", name).Msg("backend loaded")
	}
	if pluginErr != nil {
		cfg.Log.Error().Err(pluginErr).Str("directory", dir).Msg("a backend is there but could not be loaded")
	}
	var gpus []llama.Device
	for _, d := range llama.Devices() {
		if d.Type == "gpu" || d.Type == "igpu" {
			gpus = append(gpus, d)
		}
	}
	p, err := chooseDevices(cfg, gpus)
	if err != nil && pluginErr != nil {
		err = fmt.Errorf("%w (%w)", err, pluginErr)
	}
	if err == nil && !p.gpu() {
		cfg.Log.Info().Msg("running on the CPU")
	}
	return p, err
}

// chooseDevices applies Device, GPULayers and TensorSplit of cfg to the GPUs
// that are there.
func chooseDevices(cfg Config, gpus []llama.Device) (placed, error) {
	cpu := placed{devices: []string{"cpu"}}
	wanted := strings.ToLower(strings.TrimSpace(cfg.Device))
	if wanted == "cpu" {
		return cpu, nil
	}
	if wanted == "" || wanted == "auto" {
		if len(gpus) == 0 {
			if cfg.GPULayers > 0 {
				return placed{}, fmt.Errorf("Config.GPULayers %d: there is no GPU here; remove it, or run make cuda to build the CUDA backend", cfg.GPULayers)
			}
			if len(cfg.TensorSplit) > 0 {
				return placed{}, errors.New("Config.TensorSplit: there is no GPU here; remove it, or run make cuda to build the CUDA backend")
			}
			return cpu, nil
		}
	} else {
		var err error
		if gpus, err = named(wanted, gpus); err != nil {
			return placed{}, err
		}
	}
	if n := len(cfg.TensorSplit); n > 0 && n != len(gpus) {
		return placed{}, fmt.Errorf("Config.TensorSplit has %d shares for %d devices; give one for each", n, len(gpus))
	}
	if cfg.GPULayers == 0 {
		return cpu, nil
	}
	p := placed{layers: cfg.GPULayers, gpus: gpus}
	for _, d := range gpus {
		p.devices = append(p.devices, d.Name)
	}
	return p, nil
}

// named finds the GPUs of a list such as cuda0,cuda1. "cuda" and "gpu" stand
// for all of them, "cuda:0" for "CUDA0".
func named(list string, gpus []llama.Device) ([]llama.Device, error) {
	var known []string
	for _, d := range gpus {
		known = append(known, d.Name)
	}
	var found []llama.Device
	for word := range strings.SplitSeq(list, ",") {
		word = strings.ReplaceAll(strings.TrimSpace(word), ":", "")
		matched := false
		for _, d := range gpus {
			name := strings.ToLower(d.Name)
			if name != word && word != "gpu" && strings.TrimRight(name, "0123456789") != word {
				continue
			}
			matched = true
			if !slices.ContainsFunc(found, func(f llama.Device) bool { return f.Name == d.Name }) {
				found = append(found, d)
			}
		}
		switch {
		case matched:
		case len(known) == 0:
			return nil, fmt.Errorf("Config.Device %s: there is no GPU here; use cpu, or run make cuda to build the CUDA backend", word)
		default:
			return nil, fmt.Errorf("Config.Device %s: there is no such device; use cpu or one of %s", word, strings.Join(known, ", "))
		}
	}
	return found, nil
}
