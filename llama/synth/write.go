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
static struct ggml_context * new_tensors(int n) {
	struct ggml_init_params params = { ggml_tensor_overhead() * (size_t) (n + 1), NULL, true };
	return ggml_init(params);
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
	"unsafe"

	"golang.org/x/sync/errgroup"
)

// matrixTypes gives the types of matrices and of experts' matrices.
var matrixTypes = map[string][2]C.enum_ggml_type{
	"f32":   {C.GGML_TYPE_F32, C.GGML_TYPE_F32},
	"f16":   {C.GGML_TYPE_F16, C.GGML_TYPE_F16},
	"bf16":  {C.GGML_TYPE_BF16, C.GGML_TYPE_BF16},
	"q8_0":  {C.GGML_TYPE_Q8_0, C.GGML_TYPE_Q8_0},
	"mxfp4": {C.GGML_TYPE_Q8_0, C.GGML_TYPE_MXFP4},
}

// fileTypes gives llama_ftype, which loaders report as the file's type.
var fileTypes = map[string]uint32{"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7, "mxfp4": 38}

// Write writes a model file. It appears at path only when it is complete.
func Write(path string, spec Spec) error {
	v, list, err := spec.layout()
	if err != nil {
		return err
	}
	if spec.Merged != nil {
		if err := spec.Merged.merge(list); err != nil {
			return err
		}
	}
	types := matrixTypes[spec.Type]
	err = WriteFile(path, func(f *os.File) error {
		return writeFile(f, func(m *metadata) { setMetadata(m, &spec, v) }, types, list, spec.Seed)
	})
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
	list, err := tensors(s, v)
	return v, list, err
}

func vocabularyOf(spec *Spec) (*vocabulary, error) {
	switch {
	case spec.Arch == GPTOSS:
		return harmony(), nil
	case spec.Arch == Llama:
		return llama3(), nil
	case spec.Small:
		return smallQwen(), nil
	}
	path := spec.VocabFile
	if path == "" {
		var err error
		if path, err = VocabFile(); err != nil {
			return nil, err
		}
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

// writeFile writes the metadata with ggml's functions and then the tensors, one on each
// processor and in pieces, so that memory stays small whatever the model's size.
func writeFile(f *os.File, describe func(*metadata), types [2]C.enum_ggml_type, list []tensor, seed uint64) error {
	g := C.gguf_init_empty()
	defer C.gguf_free(g)
	describe(&metadata{g})

	ctx := C.new_tensors(C.int(len(list)))
	defer C.ggml_free(ctx)
	kinds := make([]C.enum_ggml_type, len(list))
	for i, t := range list {
		kinds[i] = types[0]
		if t.expert {
			kinds[i] = types[1]
		}
		if t.vector {
			kinds[i] = C.GGML_TYPE_F32
		}
		var ne [4]C.int64_t
		for d, n := range t.shape {
			ne[d] = C.int64_t(n)
		}
		ct := C.ggml_new_tensor(ctx, kinds[i], C.int(len(t.shape)), &ne[0])
		name := C.CString(t.name)
		C.ggml_set_name(ct, name)
		C.free(unsafe.Pointer(name))
		C.gguf_add_tensor(g, ct)
	}
	path := C.CString(f.Name())
	defer C.free(unsafe.Pointer(path))
	if !C.gguf_write_to_file(g, path, true) {
		return fmt.Errorf("the metadata could not be written to %s", f.Name())
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		w := bufio.NewWriterSize(io.NewOffsetWriter(f, at), 1<<20)
		at += int64(padded(list[i].rows() * int(C.ggml_row_size(kinds[i], C.int64_t(list[i].shape[0])))))
		group.Go(func() error {
			if err := writeTensor(w, &list[i], kinds[i], seed); err != nil {
				return err
			}
			return w.Flush()
		})
	}
	return group.Wait()
}

// padded is the space that so many bytes of a tensor take in the file.
func padded(bytes int) int {
	const alignment = C.GGUF_DEFAULT_ALIGNMENT
	return (bytes + alignment - 1) / alignment * alignment
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

func writeTensor(w *bufio.Writer, t *tensor, kind C.enum_ggml_type, seed uint64) error {
	src := newSource(seed, t.name)
	width, rows := t.shape[0], t.rows()
	rowBytes := int(C.ggml_row_size(kind, C.int64_t(width)))
	values := make([]float32, chunkRows*width)
	out := make([]byte, chunkRows*rowBytes)
	for first := 0; first < rows; first += chunkRows {
		n := min(chunkRows, rows-first)
		for r := range n {
			t.draw(&src, first+r, values[r*width:(r+1)*width])
		}
		if kind == C.GGML_TYPE_MXFP4 {
			toMXFP4(out[:n*rowBytes], values)
		} else {
			quantize(kind, out, values, n, width)
		}
		if _, err := w.Write(out[:n*rowBytes]); err != nil {
			return err
		}
	}
	_, err := w.Write(make([]byte, padded(rows*rowBytes)-rows*rowBytes))
	return err
}

// quantize converts rows of width values with ggml's reference code.
func quantize(kind C.enum_ggml_type, out []byte, values []float32, rows, width int) {
	C.ggml_quantize_chunk(kind, (*C.float)(&values[0]), unsafe.Pointer(&out[0]), 0, C.int64_t(rows), C.int64_t(width), nil)
}
