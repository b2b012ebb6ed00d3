//go:build !race

// Package patch holds what agentd changes in llama.cpp, as C++, and its test.
package patch

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

const (
	tree     = "../llama.cpp"
	libs     = "../../lib"
	products = "ggml/src/ggml-cpu/traits.cpp"
)

// TestCellsAndMasksMatchPlainLoops runs testdata/cells.cpp, which says where they are not.
func TestCellsAndMasksMatchPlainLoops(t *testing.T) {
	if !includes(t, "src/llama-kv-cells.h", "agentd-cells.h") {
		t.Skip("LLAMA_CPP_DIR is a llama.cpp without this patch")
	}
	run(t, compile(t, "testdata/cells.cpp", t.TempDir()))
}

// TestWordsAreTheLibrarys runs testdata/unicode.cpp, which has words of the library tokenizers 0.23.
func TestWordsAreTheLibrarys(t *testing.T) {
	if !includes(t, "src/unicode.cpp", "agentd-unicode.h") {
		t.Skip("LLAMA_CPP_DIR is a llama.cpp without this patch")
	}
	run(t, compile(t, "testdata/unicode.cpp", t.TempDir(), tree+"/src/unicode.cpp", tree+"/src/unicode-data.cpp", "-w"))
}

// TestProductsMatchPlainLoops runs testdata/products.cpp with the libraries that agentd links. It also compares each row
// of a batch with that row alone.
func TestProductsMatchPlainLoops(t *testing.T) {
	run(t, compileProducts(t, libs, "-lggml-cpu"))
}

// TestOtherProcessorsProductsMatchPlainLoops runs the same with products that are compiled for other processors: the
// program's traits.cpp takes the place of the library's. What this processor can't run is only checked by the compiler.
func TestOtherProcessorsProductsMatchPlainLoops(t *testing.T) {
	if runtime.GOARCH != "amd64" || !includes(t, products, "agentd-products.h") {
		t.Skip("products are ggml's own here")
	}
	program := compile(t, "testdata/products.cpp", t.TempDir(), "-DPATCHED", "-c")
	compiled := []string{"-I" + tree + "/ggml/src", "-I" + tree + "/ggml/src/ggml-cpu", "-I" + tree + "/ggml/include",
		filepath.Join(tree, products)}
	for march, has := range map[string]bool{
		"haswell":     cpu.X86.HasAVX2 && cpu.X86.HasFMA,
		"alderlake":   cpu.X86.HasAVXVNNI && cpu.X86.HasAVX2,
		"x86-64-v4":   cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL,
		"cascadelake": false, // its code is that of x86-64-v4 and of newer processors
	} {
		flags := append(compiled, "-march="+march)
		if !has {
			cxx(t, append(flags, "-fsyntax-only")...)
			continue
		}
		object := filepath.Join(t.TempDir(), "traits.o")
		cxx(t, append(flags, "-Og", "-c", "-o", object)...)
		run(t, compile(t, program, t.TempDir(), append(linked(t, libs, object), "-lggml-cpu")...), "few")
		t.Log(march)
	}
}

// TestVariantsProductsMatchPlainLoops does the same with the library of each generation of processors that `make dist`
// left in the directory AGENTD_VARIANTS.
func TestVariantsProductsMatchPlainLoops(t *testing.T) {
	dir := os.Getenv("AGENTD_VARIANTS")
	if dir == "" {
		t.Skip("AGENTD_VARIANTS is not set; make dist-test sets it")
	}
	variants, err := filepath.Glob(filepath.Join(dir, "libggml-cpu-*.so"))
	if err != nil || len(variants) == 0 {
		t.Fatalf("no libraries in %s: %v", dir, err)
	}
	ran := 0
	for _, variant := range variants {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(variant), "libggml-cpu-"), ".so")
		t.Run(name, func(t *testing.T) {
			out := run(t, compileProducts(t, dir, "-DVARIANT", variant))
			if out != "" {
				t.Skip(out)
			}
			ran++
		})
	}
	if ran == 0 {
		t.Error("this machine can run none of them")
	}
}

// BenchmarkProducts measures what one thread computes for batches of a few rows: one of ggml's
// products for each type and number of rows. The time of an operation means nothing.
func BenchmarkProducts(b *testing.B) {
	program := compileProducts(b, libs, "-lggml-cpu")
	for _, weights := range []string{"f32", "f16", "bf16", "q8_0", "q6_K", "q5_K", "q4_K"} {
		for _, rows := range []string{"1", "2", "4", "8", "16", "32", "64"} {
			b.Run(weights+"/rows="+rows, func(b *testing.B) {
				best := 0.0
				for range b.N {
					n, err := strconv.ParseFloat(strings.TrimSpace(run(b, program, weights, rows, "1")), 64)
					if err != nil {
						b.Fatal(err)
					}
					best = max(best, n)
				}
				b.ReportMetric(best, "GFLOP/s")
			})
		}
	}
}

// includes says whether a file of llama.cpp includes a header of the patch.
func includes(t testing.TB, file, header string) bool {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(tree, file))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(source, []byte(header))
}

func compileProducts(t testing.TB, libs string, flags ...string) string {
	t.Helper()
	if includes(t, products, "agentd-products.h") {
		flags = append(flags, "-DPATCHED")
	}
	return compile(t, "testdata/products.cpp", t.TempDir(), linked(t, libs, flags...)...)
}

// linked adds the flags of a program that uses libraries of ggml in a directory.
func linked(t testing.TB, libs string, flags ...string) []string {
	t.Helper()
	dir, err := filepath.Abs(libs)
	if err != nil {
		t.Fatal(err)
	}
	return append(flags, "-L"+dir, "-Wl,-rpath,"+dir, "-lggml-base")
}

// compile returns the path of the program. It looks at the files that the compiler reads, since go
// keeps a test's result as long as the files that the test itself looks at stay the same.
func compile(t testing.TB, source, dir string, flags ...string) string {
	t.Helper()
	headers, err := filepath.Glob("*.h")
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := filepath.Glob(libs + "/libggml*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(headers, libraries, []string{source}) {
		if _, err := os.Stat(f); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	command := []string{
		"-O1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS", "-I.",
		"-isystem", tree + "/src", "-isystem", tree + "/include", "-isystem", tree + "/ggml/include", "-isystem", dir, "-o", program, source,
	}
	cxx(t, append(command, flags...)...)
	return program
}

func cxx(t testing.TB, args ...string) {
	t.Helper()
	run(t, cmp.Or(os.Getenv("CXX"), "c++"), append([]string{"-std=c++17"}, args...)...)
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "OMP_WAIT_POLICY=passive") // beside other tests, waiting threads must not spin
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
	return string(out)
}
