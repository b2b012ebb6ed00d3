package llama

// #include "native/api.h"
import "C"

import (
	"reflect"
	"runtime"
	"sort"
)

// SetBuild sets the program's name and version in the line that the process writes to stderr when native code ends it.
func SetBuild(build string) {
	install()
	cstring(build, func(p *C.char) { C.agd_crash_build(p) })
}

// goCode finds the range of addresses of Go's code. The runtime can say whether an address is
// in it, but does not export the bounds.
func goCode() (start, end uintptr) {
	here := reflect.ValueOf(goCode).Pointer()
	isGo := func(pc uintptr) bool { return runtime.FuncForPC(pc) != nil }
	start = here - uintptr(sort.Search(int(here), func(n int) bool { return !isGo(here - uintptr(n)) })) + 1
	end = here + uintptr(sort.Search(1<<40, func(n int) bool { return !isGo(here + uintptr(n)) }))
	return start, end
}
