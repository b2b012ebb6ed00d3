package llama

// libggml needs libggml-cpu, and would take one of LD_LIBRARY_PATH. So the program itself needs it, whose rpath comes
// first. A release has plugins instead: third_party/dist.sh takes these flags out.

/*
#cgo CFLAGS: -I${SRCDIR}/../third_party/llama.cpp/include -I${SRCDIR}/../third_party/llama.cpp/ggml/include
#cgo LDFLAGS: -fopenmp
#cgo LDFLAGS: -L${SRCDIR}/../lib -lagentd-native -lllama-common -lllama -lggml -Wl,--no-as-needed -lggml-cpu -Wl,--as-needed -lggml-base -lstdc++ -lm -ldl
#cgo LDFLAGS: -Wl,-rpath,$ORIGIN/lib -Wl,-rpath,${SRCDIR}/../lib -Wl,--disable-new-dtags

#include <stdlib.h>
#include "native/api.h"
#include "native_stamp.h" // written by make: without it, run make first
*/
import "C"

import "unsafe"

// takeString returns a malloc'd C string as a Go string and frees it; for nil it returns "".
func takeString(s *C.char) string {
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}

// cstring calls f with a NUL-terminated copy of s.
func cstring(s string, f func(*C.char)) {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	f(c)
}

// nativeStamp changes with the native library, so that go builds this package again and links the new one.
var nativeStamp = C.AGD_NATIVE_STAMP

// nativeID returns a name of the sources from which the native library was built.
func nativeID() string { return C.GoString(C.agd_native_id()) }
