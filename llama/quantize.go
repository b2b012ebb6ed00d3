package llama

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var fileTypes = map[string]C.enum_llama_ftype{
	"f32": C.LLAMA_FTYPE_ALL_F32, "f16": C.LLAMA_FTYPE_MOSTLY_F16, "bf16": C.LLAMA_FTYPE_MOSTLY_BF16,
	"q8_0": C.LLAMA_FTYPE_MOSTLY_Q8_0, "q6_k": C.LLAMA_FTYPE_MOSTLY_Q6_K,
	"q5_0": C.LLAMA_FTYPE_MOSTLY_Q5_0, "q5_1": C.LLAMA_FTYPE_MOSTLY_Q5_1,
	"q5_k_s": C.LLAMA_FTYPE_MOSTLY_Q5_K_S, "q5_k_m": C.LLAMA_FTYPE_MOSTLY_Q5_K_M,
	"q4_0": C.LLAMA_FTYPE_MOSTLY_Q4_0, "q4_1": C.LLAMA_FTYPE_MOSTLY_Q4_1,
	"q4_k_s": C.LLAMA_FTYPE_MOSTLY_Q4_K_S, "q4_k_m": C.LLAMA_FTYPE_MOSTLY_Q4_K_M,
	"q3_k_s": C.LLAMA_FTYPE_MOSTLY_Q3_K_S, "q3_k_m": C.LLAMA_FTYPE_MOSTLY_Q3_K_M,
	"q3_k_l": C.LLAMA_FTYPE_MOSTLY_Q3_K_L, "q2_k": C.LLAMA_FTYPE_MOSTLY_Q2_K,
	"mxfp4_moe": C.LLAMA_FTYPE_MOSTLY_MXFP4_MOE,
}

// FileTypes lists the names that Quantize takes.
func FileTypes() []string { return slices.Sorted(maps.Keys(fileTypes)) }

// Quantize writes the model file src as dst in another file type, as
// llama-quantize does. dst appears only when it is complete.
func Quantize(src, dst, ftype string) error {
	install()
	typ, ok := fileTypes[strings.ToLower(ftype)]
	if !ok {
		return fmt.Errorf("llama: quantize: type %q is none of %s", ftype, strings.Join(FileTypes(), ", "))
	}
	if err := checkFile(src); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(dst), filepath.Base(dst)+".*.partial")
	if err != nil {
		return fmt.Errorf("llama: quantize: %w", err)
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	var done bool
	var cerr *C.char
	cstring(src, func(s *C.char) {
		cstring(tmp.Name(), func(d *C.char) { done = bool(C.agd_quantize(s, d, C.int32_t(typ), &cerr)) })
	})
	if !done {
		return fmt.Errorf("llama: quantize %s: %s", src, takeString(cerr))
	}
	if err := os.Rename(tmp.Name(), dst); err != nil {
		return fmt.Errorf("llama: quantize: %w", err)
	}
	return nil
}
