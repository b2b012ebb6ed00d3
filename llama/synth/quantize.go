package synth

/*
#cgo CFLAGS: -I${SRCDIR}/../../third_party/llama.cpp/include
#include <stdlib.h>
#include "llama.h"

static uint32_t quantize_q8_0(const char * src, const char * dst) {
	struct llama_model_quantize_params params = llama_model_quantize_default_params();
	params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
	return llama_model_quantize(src, dst, &params);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// Quantize writes the model file src as dst with weights in Q8_0. The file appears at dst only when it is
// complete.
func Quantize(src, dst string) error {
	if _, err := os.Stat(src); err != nil {
		return fmt.Errorf("synth: quantize: %w", err)
	}
	return WriteFile(dst, func(f *os.File) error {
		from, to := C.CString(src), C.CString(f.Name())
		defer C.free(unsafe.Pointer(from))
		defer C.free(unsafe.Pointer(to))
		if rc := C.quantize_q8_0(from, to); rc != 0 {
			return fmt.Errorf("synth: quantize %s: llama.cpp answered %d", src, rc)
		}
		return nil
	})
}
