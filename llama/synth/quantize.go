package synth

/*
#cgo CFLAGS: -I${SRCDIR}/../../third_party/llama.cpp/include
#include <stdlib.h>
#include "llama.h"

static uint32_t convert(const char * src, const char * dst, enum llama_ftype type) {
	struct llama_model_quantize_params params = llama_model_quantize_default_params();
	params.ftype = type;
	return llama_model_quantize(src, dst, &params);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// Quantize converts the model file src to dst with weights in Q8_0. The file appears at dst when it is complete.
func Quantize(src, dst string) error { return convert(src, dst, C.LLAMA_FTYPE_MOSTLY_Q8_0) }

// Widen converts the model file src, which must not be quantized, to dst with the same values in
// F32. The file appears at dst when it is complete.
func Widen(src, dst string) error { return convert(src, dst, C.LLAMA_FTYPE_ALL_F32) }

func convert(src, dst string, kind C.enum_llama_ftype) error {
	if _, err := os.Stat(src); err != nil {
		return fmt.Errorf("synth: convert: %w", err)
	}
	return WriteFile(dst, func(f *os.File) error {
		from, to := C.CString(src), C.CString(f.Name())
		defer C.free(unsafe.Pointer(from))
		defer C.free(unsafe.Pointer(to))
		if rc := C.convert(from, to, kind); rc != 0 {
			return fmt.Errorf("synth: convert %s: llama.cpp answered %d", src, rc)
		}
		return nil
	})
}
