package llama

// #include <stdlib.h>
// #include "native/api.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Device is a CPU, GPU or accelerator that can compute layers of a model.
type Device struct {
	Name        string // for SetDevices, such as "CPU" or "CUDA0"
	Description string
	Type        string // "cpu", "gpu", "igpu", "accel" or "meta"
	MemoryFree  uint64 // bytes
}

// Devices lists the devices of all loaded backends.
func Devices() []Device {
	install()
	n := int(C.ggml_backend_dev_count())
	devices := make([]Device, 0, n)
	for i := range n {
		dev := C.ggml_backend_dev_get(C.size_t(i))
		var free, total C.size_t
		C.ggml_backend_dev_memory(dev, &free, &total)
		devices = append(devices, Device{
			Name:        C.GoString(C.ggml_backend_dev_name(dev)),
			Description: strings.TrimSpace(C.GoString(C.ggml_backend_dev_description(dev))),
			Type:        deviceTypes[C.ggml_backend_dev_type(dev)],
			MemoryFree:  uint64(free),
		})
	}
	return devices
}

var deviceTypes = map[C.enum_ggml_backend_dev_type]string{
	C.GGML_BACKEND_DEVICE_TYPE_CPU: "cpu", C.GGML_BACKEND_DEVICE_TYPE_GPU: "gpu", C.GGML_BACKEND_DEVICE_TYPE_IGPU: "igpu",
	C.GGML_BACKEND_DEVICE_TYPE_ACCEL: "accel", C.GGML_BACKEND_DEVICE_TYPE_META: "meta",
}

// LibDir returns the directory from which libllama.so was loaded. It also has backend plugins and the vocabulary file.
func LibDir() string { return filepath.Dir(C.GoString(C.agd_lib_file())) }

// loaded keeps LoadBackends from loading a library twice.
var loaded = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// LoadBackends loads the backend plugins in dir. It must be called before a model is loaded. Of the CPU variants of a
// portable tree (libggml-cpu-*.so) it loads the best one for this machine, and it loads every other plugin
// (libggml-cuda.so). It returns the names of the loaded libraries. If a plugin can't be loaded, the error says why, and
// the others are loaded: a caller may log the error and continue.
func LoadBackends(dir string) ([]string, error) {
	install()
	loaded.Lock()
	defer loaded.Unlock()

	files, err := filepath.Glob(filepath.Join(dir, "libggml-*.so"))
	if err != nil {
		return nil, fmt.Errorf("llama: backend directory %q: %w", dir, err)
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("llama: backend directory: %w", err)
	}
	var plugins, variants, names []string
	var errs []error
	hasCPU := C.ggml_backend_dev_by_type(C.GGML_BACKEND_DEVICE_TYPE_CPU) != nil
	for _, path := range files {
		switch name := filepath.Base(path); {
		case name == "libggml-base.so" || name == "libggml-cpu.so" && hasCPU: // linked, not plugins
		case strings.HasPrefix(name, "libggml-cpu-"):
			variants = append(variants, path)
		default:
			plugins = append(plugins, path)
		}
	}
	if len(variants) > 0 {
		best, err := bestVariant(variants)
		if err != nil {
			errs = append(errs, err)
		} else {
			plugins = append(plugins, best)
		}
	}
	for _, path := range plugins {
		if err := loadBackend(path); err != nil {
			errs = append(errs, err)
		} else {
			names = append(names, filepath.Base(path))
		}
	}
	return names, errors.Join(errs...)
}

func loadBackend(path string) error {
	if loaded.paths[path] {
		return nil
	}
	var ok bool
	var cerr *C.char
	cstring(path, func(p *C.char) { ok = bool(C.agd_backend_load(p, &cerr)) })
	if !ok {
		return fmt.Errorf("llama: backend %s: %s", filepath.Base(path), takeString(cerr))
	}
	loaded.paths[path] = true
	return nil
}

// bestVariant picks the CPU library with the highest score on this machine.
func bestVariant(paths []string) (string, error) {
	best, bestScore := "", 0
	var errs []error
	for _, path := range paths {
		var score C.int
		var cerr *C.char
		cstring(path, func(p *C.char) { score = C.agd_backend_score(p, &cerr) })
		if score < 0 {
			errs = append(errs, fmt.Errorf("llama: backend %s: %s", filepath.Base(path), takeString(cerr)))
			continue
		}
		if int(score) > bestScore {
			best, bestScore = path, int(score)
		}
	}
	if best == "" {
		errs = append(errs, fmt.Errorf("llama: none of %d CPU backends in %s runs on this machine", len(paths), filepath.Dir(paths[0])))
		return "", errors.Join(errs...)
	}
	return best, nil
}
