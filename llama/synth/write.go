package synth

/*
#cgo CFLAGS: -I${SRCDIR}/../../third_party/llama.cpp/ggml/include
#cgo LDFLAGS: -L${SRCDIR}/../../lib -lllama -lggml-base -ldl
#cgo LDFLAGS: -Wl,-rpath,$ORIGIN/lib -Wl,-rpath,${SRCDIR}/../../lib -Wl,--disable-new-dtags
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "ggml.h"
#include "gguf.h"

static const char * lib_file(void) {
	Dl_info info;
	return dladdr((void *) gguf_init_empty, &info) != 0 ? info.dli_fname : NULL;
}
static struct gguf_context * open_meta(const char * path) {
	struct gguf_init_params params = { true, NULL };
	return gguf_init_from_file(path, params);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"agentd/llama/internal/gguf"
)

// matrixTypes gives the types of matrices and of experts' matrices, and llama_ftype, which loaders report as the file's type.
var matrixTypes = map[string]struct {
	matrix, expert uint32
	file           int
}{
	"f32":   {gguf.F32, gguf.F32, 0},
	"f16":   {gguf.F16, gguf.F16, 1},
	"bf16":  {gguf.BF16, gguf.BF16, 32},
	"q8_0":  {gguf.Q8, gguf.Q8, 7},
	"mxfp4": {gguf.Q8, gguf.MXFP4, 38},
}

// Write writes a model file. It appears at path only when it is complete.
func Write(path string, spec Spec) error {
	v, list, err := spec.layout()
	if err != nil {
		return err
	}
	if spec.Merged != nil {
		spec.Merged.merge(list)
	}
	err = WriteFile(path, func(f *os.File) error { return writeFile(f, spec.metadata(v), spec.Type, list, spec.Seed) })
	if err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	return nil
}

// layout checks a spec and returns the vocabulary and the tensors of its model.
func (s *Spec) layout() (*vocabulary, []tensor, error) {
	if err := s.validate(); err != nil {
		return nil, nil, err
	}
	v, err := vocabularyOf(s)
	if err != nil {
		return nil, nil, err
	}
	return v, tensors(s, v), nil
}

func vocabularyOf(spec *Spec) (*vocabulary, error) {
	switch {
	case spec.Arch == GPTOSS:
		return harmony.vocabulary(), nil
	case spec.Arch == Llama:
		return llama3.vocabulary(), nil
	case spec.Small:
		return qwen.vocabulary(), nil
	}
	path, err := VocabFile()
	if err != nil {
		return nil, err
	}
	v, err := readVocabulary(path)
	if err != nil {
		return nil, err
	}
	return v, patchQwen(v)
}

// vocabName is the file with Qwen's vocabulary in llama.cpp's source.
const vocabName = "ggml-vocab-qwen2.gguf"

// VocabFile finds the file with Qwen's vocabulary: beside llama.cpp's
// libraries, or in the source tree that those were built from.
func VocabFile() (string, error) {
	lib := C.lib_file()
	if lib == nil {
		return "", fmt.Errorf("synth: the directory of llama.cpp's libraries is unknown")
	}
	dir := filepath.Dir(C.GoString(lib))
	for _, path := range []string{
		filepath.Join(dir, vocabName),
		filepath.Join(dir, "..", "third_party", "llama.cpp", "models", vocabName),
	} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("synth: there is no %s in %s", vocabName, dir)
}

func readVocabulary(path string) (*vocabulary, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	g := C.open_meta(cpath)
	if g == nil {
		return nil, fmt.Errorf("synth: vocabulary file %s can't be read", path)
	}
	defer C.gguf_free(g)
	v := &vocabulary{pre: "qwen2"}
	var err error
	if v.tokens, err = readStrings(g, "tokenizer.ggml.tokens"); err != nil {
		return nil, fmt.Errorf("synth: %s: %w", path, err)
	}
	if v.merges, err = readStrings(g, "tokenizer.ggml.merges"); err != nil {
		return nil, fmt.Errorf("synth: %s: %w", path, err)
	}
	id := findKey(g, "tokenizer.ggml.token_type")
	if id < 0 || C.gguf_get_kv_type(g, id) != C.GGUF_TYPE_ARRAY || C.gguf_get_arr_type(g, id) != C.GGUF_TYPE_INT32 ||
		int(C.gguf_get_arr_n(g, id)) != len(v.tokens) {
		return nil, fmt.Errorf("synth: %s has no token types", path)
	}
	v.types = append(v.types, unsafe.Slice((*int32)(C.gguf_get_arr_data(g, id)), len(v.tokens))...)
	return v, nil
}

func findKey(g *C.struct_gguf_context, key string) C.int64_t {
	ckey := C.CString(key)
	defer C.free(unsafe.Pointer(ckey))
	return C.gguf_find_key(g, ckey)
}

func readStrings(g *C.struct_gguf_context, key string) ([]string, error) {
	id := findKey(g, key)
	if id < 0 || C.gguf_get_kv_type(g, id) != C.GGUF_TYPE_ARRAY || C.gguf_get_arr_type(g, id) != C.GGUF_TYPE_STRING {
		return nil, fmt.Errorf("there is no list %s", key)
	}
	list := make([]string, int(C.gguf_get_arr_n(g, id)))
	for i := range list {
		list[i] = C.GoString(C.gguf_get_arr_str(g, id, C.size_t(i)))
	}
	return list, nil
}

// writeFile writes the metadata and then the tensors, one on each processor and in pieces, so that memory stays small
// whatever the model's size.
func writeFile(f *os.File, m *gguf.Metadata, matrices string, list []tensor, seed uint64) error {
	described := make([]gguf.Tensor, len(list))
	for i, t := range list {
		d := gguf.Tensor{Name: t.name, Kind: matrixTypes[matrices].matrix}
		switch {
		case t.vector:
			d.Kind = gguf.F32
		case t.expert:
			d.Kind = matrixTypes[matrices].expert
		}
		for _, n := range slices.Backward(t.shape) {
			d.Shape = append(d.Shape, int64(n))
		}
		described[i] = d
	}
	if err := m.WriteHead(f, described); err != nil {
		return err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		d := &described[i]
		w := bufio.NewWriterSize(io.NewOffsetWriter(f, at), 1<<20)
		at += d.Size() + gguf.Padding(d.Size())
		group.Go(func() error {
			if err := writeTensor(w, &list[i], d, seed); err != nil {
				return err
			}
			return w.Flush()
		})
	}
	return group.Wait()
}

// chunkRows is how many rows are drawn and converted at a time.
const chunkRows = 256

// draw draws the next row of a tensor.
func (t *tensor) draw(src *source, row int, values []float32) {
	src.fill(values, t.mean, t.dev)
	if t.fix != nil {
		t.fix(row, values)
	}
}

func writeTensor(w *bufio.Writer, t *tensor, d *gguf.Tensor, seed uint64) error {
	src := newSource(seed, t.name)
	width, rows := t.shape[0], t.rows()
	rowBytes := int(d.Size()) / rows
	values := make([]float32, chunkRows*width)
	out := make([]byte, chunkRows*rowBytes)
	for first := 0; first < rows; first += chunkRows {
		n := min(chunkRows, rows-first)
		for r := range n {
			t.draw(&src, first+r, values[r*width:(r+1)*width])
		}
		// ggml's reference code
		C.ggml_quantize_chunk(d.Kind, (*C.float)(&values[0]), unsafe.Pointer(&out[0]), 0, C.int64_t(n), C.int64_t(width), nil)
		if _, err := w.Write(out[:n*rowBytes]); err != nil {
			return err
		}
	}
	_, err := w.Write(make([]byte, gguf.Padding(d.Size())))
	return err
}
