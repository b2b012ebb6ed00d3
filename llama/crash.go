package llama

// #include "native/api.h"
import "C"

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
)

// SetBuild sets the program's name and version for the line that the process writes to
// stderr if native code ends it. Without it the line has what the Go toolchain recorded.
func SetBuild(build string) {
	install()
	cstring(build, func(p *C.char) { C.agd_crash_build(p) })
}

// recordedBuild is the program and its version as the Go toolchain knows them.
func recordedBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown (" + runtime.Version() + ")"
	}
	return fmt.Sprintf("%s %s (%s)", path.Base(info.Path), info.Main.Version, info.GoVersion)
}

// reportCrashes makes the process write that line: see native/binding/crash.cpp.
func reportCrashes() {
	start, end := goCode()
	C.agd_crash_install(C.uintptr_t(start), C.uintptr_t(end))
	cstring(recordedBuild(), func(p *C.char) { C.agd_crash_build(p) })
}

// goCode finds the range of addresses that holds Go's code. The runtime can tell whether
// an address belongs to it, but exports no bounds.
func goCode() (start, end uintptr) {
	here := reflect.ValueOf(goCode).Pointer()
	isGo := func(pc uintptr) bool { return runtime.FuncForPC(pc) != nil }
	start = here - uintptr(sort.Search(int(here), func(n int) bool { return !isGo(here - uintptr(n)) })) + 1
	end = here + uintptr(sort.Search(1<<40, func(n int) bool { return !isGo(here + uintptr(n)) }))
	return start, end
}

// watched is an open file that a model was loaded from.
type watched struct {
	file *os.File
	mark *C.struct_agd_watch
}

// watch makes the crash report name the model's files that change from now on. Writing to
// a mapped file, or truncating it, can end the process.
func watch(paths []string) (list []watched) {
	for _, name := range paths {
		f, err := os.Open(name)
		if err != nil {
			continue // the load says so
		}
		w := watched{file: f}
		cstring(name, func(p *C.char) { w.mark = C.agd_crash_watch(C.int(f.Fd()), p) })
		list = append(list, w)
	}
	return list
}

// unwatch ends a watch.
func unwatch(list []watched) {
	for _, w := range list {
		if w.mark != nil {
			C.agd_crash_unwatch(w.mark)
		}
		w.file.Close()
	}
}

var splitName = regexp.MustCompile(`^(.*)-\d{5}-of-(\d{5})\.gguf$`)

// parts lists the files of a model that is split as llama.cpp names them, or its only one.
func parts(name string) []string {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	n, _ := strconv.Atoi(m[2]) // five digits
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i+1, m[2])
	}
	return list
}
