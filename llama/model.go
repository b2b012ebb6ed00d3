package llama

// #include "native/api.h"
// bool agdProgress(float fraction, void * handle);
import "C"

import (
	"context"
	"fmt"
	"os"
	"runtime/cgo"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Model is a loaded GGUF file. Its methods may be called by any number of
// goroutines.
type Model struct {
	mu       sync.RWMutex // held for reading by every native call on ptr
	ptr      *C.struct_llama_model
	children atomic.Int64 // open contexts, samplers, templates and adapters
	// reserving is held while llama.cpp sizes a graph, for which it reads the model's set of
	// adapters, and while that set changes.
	reserving sync.Mutex

	path      string
	vocabOnly bool
	vocab     *Vocab
	info      ModelInfo
	metadata  map[string]string
	template  string
	scanned   atomic.Pointer[string] // the grammar that scanGrammar accepted last
}

// New loads a model. path is its file, or the first file of a split model. It needs at
// least one backend; call LoadBackends first if there are plugins.
func New(path string, opts ...ModelOption) (*Model, error) {
	install()
	o := modelOptions{gpuLayers: -1, splitMode: SplitLayer, cancel: context.Background()}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := checkFile(path, "model"); err != nil {
		return nil, err
	}
	if err := o.cancel.Err(); err != nil {
		return nil, fmt.Errorf("llama: load %s: %w", path, context.Cause(o.cancel))
	}
	ptr, err := load(path, &o)
	if err != nil {
		return nil, fmt.Errorf("llama: load %s: %w", path, err)
	}
	m := &Model{ptr: ptr, path: path, vocabOnly: o.vocabOnly, metadata: readMetadata(ptr)}
	if err = checkRotation(ptr, m.metadata); err == nil {
		m.vocab, err = newVocab(m)
	}
	if err != nil {
		C.llama_model_free(ptr)
		return nil, fmt.Errorf("llama: load %s: %w", path, err)
	}
	m.info = readInfo(m)
	m.template = C.GoString(C.llama_model_chat_template(ptr, nil))
	return m, nil
}

// checkFile returns errors for files that llama.cpp refuses with a log line only.
func checkFile(path, kind string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("llama: %s file: %w", kind, err)
	}
	defer f.Close()
	var magic [4]byte
	if n, _ := f.Read(magic[:]); n < len(magic) || string(magic[:]) != "GGUF" {
		return fmt.Errorf("llama: %s is not a GGUF file: it starts with %q", path, magic[:n])
	}
	return nil
}

func load(path string, o *modelOptions) (*C.struct_llama_model, error) {
	if err := checkMetadata(path); err != nil {
		return nil, err
	}
	params := C.llama_model_default_params()
	params.n_gpu_layers = C.int32_t(o.gpuLayers)
	if o.mmap != nil {
		params.load_mode = C.LLAMA_LOAD_MODE_NONE
		if *o.mmap {
			params.load_mode = C.LLAMA_LOAD_MODE_MMAP
		}
	}
	params.split_mode = splitModes[o.splitMode]
	params.vocab_only = C.bool(o.vocabOnly)
	if o.devices != nil {
		devices, err := findDevices(o.devices)
		if err != nil {
			return nil, err
		}
		params.devices = &devices[0]
	}
	if len(o.tensorSplit) > 0 {
		split, err := tensorSplit(o.tensorSplit)
		if err != nil {
			return nil, err
		}
		params.tensor_split = &split[0]
	}
	handle := cgo.NewHandle(&progress{report: o.progress, ctx: o.cancel})
	defer handle.Delete()
	params.progress_callback = C.llama_progress_callback(C.agdProgress)
	params.progress_callback_user_data = unsafe.Pointer(&handle)

	var ptr *C.struct_llama_model
	var cerr *C.char
	cstring(path, func(p *C.char) { ptr = C.agd_model_load(p, params, &cerr) })
	reason := takeString(cerr)
	if ptr == nil {
		if o.cancel.Err() != nil {
			return nil, context.Cause(o.cancel)
		}
		return nil, fmt.Errorf("%s", reason)
	}
	return ptr, nil
}

// progress is the data for the callback of a load.
type progress struct {
	report func(fraction float32)
	ctx    context.Context
}

//export agdProgress
func agdProgress(fraction C.float, handle unsafe.Pointer) C.bool {
	p := (*cgo.Handle)(handle).Value().(*progress)
	if p.report != nil {
		p.report(float32(fraction))
	}
	return p.ctx.Err() == nil
}

// Free releases the model. While a context, sampler, template or adapter is open, it does nothing and returns ErrInUse.
func (m *Model) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ptr == nil {
		return ErrClosed
	}
	if n := m.children.Load(); n > 0 {
		return fmt.Errorf("%w: %d contexts, samplers, templates or adapters of the model are open", ErrInUse, n)
	}
	C.agd_vocab_index_free(m.vocab.index)
	if !gpuFailed() { // see ErrLost
		C.llama_model_free(m.ptr)
	}
	m.ptr = nil
	return nil
}

// gpuFailed reports whether a GPU was lost in this process.
func gpuFailed() bool { return bool(C.agd_gpu_failed()) }

// acquire counts a new child of the model; release undoes that. Neither waits for Tokenize,
// which may take long; only Free does.
func (m *Model) acquire() (*C.struct_llama_model, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.ptr == nil {
		return nil, ErrClosed
	}
	m.children.Add(1)
	return m.ptr, nil
}

func (m *Model) release() { m.children.Add(-1) }

// Vocab returns the model's vocabulary.
func (m *Model) Vocab() *Vocab { return m.vocab }

// Info returns a description of the model, also after Free.
func (m *Model) Info() ModelInfo { return m.info }

// Path returns the path from which the model was loaded.
func (m *Model) Path() string { return m.path }
