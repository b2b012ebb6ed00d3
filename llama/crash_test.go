package llama

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentd/llama/internal/faultstest"
	"agentd/llama/synth"
)

// crashVariable says how a process of this test binary crashes. crashFile names a file
// that it may change.
const (
	crashVariable = "AGENTD_TEST_CRASH"
	crashFile     = "AGENTD_TEST_CRASH_FILE"
)

// crash ends the process in a way given as "where/kind".
func crash(order string) {
	where, kind, _ := strings.Cut(order, "/")
	file := os.Getenv(crashFile)
	install()
	SetBuild("under test 1.2.3")
	switch where {
	case "thread":
		faultstest.OnThread(kind, file)
	case "openmp":
		faultstest.InOpenMP(kind, file)
	case "many":
		faultstest.OnMany(kind, file)
	case "cgo":
		faultstest.Here(kind, file)
	case "model":
		decodeFromFileCutShort(file, kind)
	case "panic":
		fmt.Println(**new(*int)) //nolint:govet // the test dereferences nil
	case "sent":
		fmt.Println("ready")
		select {}
	}
	os.Exit(3)
}

// decodeFromFileCutShort loads a model, which maps its file, and decodes after the file was
// cut short. By kind, an OpenMP thread reads the weights first.
func decodeFromFileCutShort(file, kind string) {
	m, err := New(file, SetMMap(true), SetDevices("cpu"))
	if err != nil {
		panic(err)
	}
	c, err := m.NewContext(SetContext(256), SetBatch(32), SetThreads(2, 2))
	if err != nil {
		panic(err)
	}
	if err := os.Truncate(file, 4096); err != nil {
		panic(err)
	}
	if kind == "worker" {
		faultstest.InOpenMP("read", mappedAt(file))
	}
	fmt.Println(c.Decode([]Row{{1, 0, 0, true}}))
}

// mappedAt is the address of the last page of a mapped file, in hexadecimal.
func mappedAt(file string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(maps)) {
		if _, end, _ := strings.Cut(line, "-"); strings.HasSuffix(line, file+"\n") {
			end, _, _ = strings.Cut(end, " ")
			last, err := strconv.ParseUint(end, 16, 64)
			if err != nil {
				panic(err)
			}
			return strconv.FormatUint(last-1, 16)
		}
	}
	panic(file + " is not mapped")
}

// crashed is the result of a process that crashed.
type crashed struct {
	signal syscall.Signal // 0: it exited
	code   int
	line   string // the one about the signal
	stderr string
}

// crashing starts a process of this test binary that crashes.
func crashing(t *testing.T, order, file string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), crashVariable+"="+order, crashFile+"="+file, "OMP_NUM_THREADS=2")
	return cmd
}

var fatalLine = regexp.MustCompile(`(?m)^\S+: fatal signal .*$`)

// wait runs a process to its end.
func wait(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer) crashed {
	t.Helper()
	var end *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &end) {
		t.Fatalf("it did not end by itself: %v\n%s", err, stderr)
	}
	c := crashed{code: end.ExitCode(), stderr: stderr.String()}
	if status := end.Sys().(syscall.WaitStatus); status.Signaled() {
		c.signal = status.Signal()
	}
	lines := fatalLine.FindAllString(c.stderr, -1)
	if len(lines) > 1 {
		t.Errorf("%d lines about the end", len(lines))
	}
	c.line = strings.Join(lines, "\n")
	return c
}

func runCrash(t *testing.T, order, file string) crashed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := crashing(t, order, file)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return wait(t, cmd, &stderr)
}

// holds checks that a text matches all expressions.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

// spoiled is a file of two pages that a test may change.
func spoiled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mapped file")
	if err := os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// crashes are the faults in C code, with the expected text of the line for each.
var crashes = []struct {
	kind   string
	signal syscall.Signal
	says   string
}{
	{"write", syscall.SIGSEGV, `SIGSEGV \(nothing is mapped there: address 0x10, code 1\)`},
	{"jump", syscall.SIGSEGV, `SIGSEGV \(nothing is mapped there: address 0x0, code 1\)`},
	{"bus", syscall.SIGBUS, `SIGBUS \(beyond the end of a mapped file, as a model's that was cut short: address 0x[0-9a-f]+fff, code 2\)`},
	{"divide", syscall.SIGFPE, `SIGFPE \(integer division by zero: address 0x[0-9a-f]+, code 1\)`},
	{"illegal", syscall.SIGILL, `SIGILL \(a fault of the processor: address 0x[0-9a-f]+, code 2\)`},
	{"abort", syscall.SIGABRT, `SIGABRT \(abort\(\) was called\)`},
	{"free", syscall.SIGABRT, `SIGABRT \(abort\(\) was called\)`},
	{"throw", syscall.SIGABRT, `SIGABRT \(abort\(\) was called\)`},
	{"ggml", syscall.SIGABRT, `SIGABRT \(faults.cpp:7: made to fail\)`},
}

// everyLine matches all lines: the build and the place of the fault.
const everyLine = `; build: under test 1\.2\.3, llama\.cpp \S+, ggml \d+\.\d+\.\d+ .*; at (0x0|\S+\+0x[0-9a-f]+ \(.+\))$`

func onlyAMD64(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors raise other signals for the same faults")
	}
}

func TestFaultOnCThreadLeavesLineAndDiesOfSignal(t *testing.T) {
	onlyAMD64(t)
	for _, where := range []string{"thread", "openmp"} {
		for _, c := range crashes {
			t.Run(where+"/"+c.kind, func(t *testing.T) {
				t.Parallel()
				got := runCrash(t, where+"/"+c.kind, spoiled(t))
				if got.signal != c.signal {
					t.Errorf("ended by signal %d with code %d, not %v:\n%s", got.signal, got.code, c.signal, got.stderr)
				}
				holds(t, got.line, everyLine)
				holds(t, got.line, `fatal signal `+c.says+` on thread \d+ "[^"]+" of C; build`)
				switch c.kind {
				case "write":
					holds(t, got.line, `llama\.test\+0x[0-9a-f]+ \(`)
				case "abort":
					holds(t, got.line, `libc\.so\.6\+0x`)
				case "throw": // the line before has the reason
					holds(t, got.stderr, `terminate called after throwing an instance of 'std::runtime_error'`, `thrown on purpose`)
				}
				if strings.Contains(got.stderr, "goroutine") {
					t.Errorf("Go's traces are there too:\n%s", got.stderr)
				}
			})
		}
	}
}

func TestFaultInGoCallLeavesLineAndTraces(t *testing.T) {
	onlyAMD64(t)
	for _, c := range crashes {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			got := runCrash(t, "cgo/"+c.kind, spoiled(t))
			if got.signal != 0 || got.code != 2 {
				t.Errorf("ended by signal %d with code %d, not as Go ends:\n%s", got.signal, got.code, got.stderr)
			}
			holds(t, got.line, everyLine)
			holds(t, got.line, `fatal signal `+c.says+` on thread \d+ "[^"]+" of Go; build`)
			holds(t, got.stderr, `signal arrived during cgo execution`, `goroutine 1 `, `faultstest\._Cfunc_faults_here`)
		})
	}
}

func TestConcurrentFaultsLeaveOneLine(t *testing.T) {
	onlyAMD64(t)
	got := runCrash(t, "many/write", "")
	if got.signal != syscall.SIGSEGV {
		t.Errorf("ended by signal %d with code %d:\n%s", got.signal, got.code, got.stderr)
	}
	holds(t, got.line, everyLine)
}

// By whichever thread computes first, Go's or one of OpenMP's.
func TestModelFileCutShortLeavesLine(t *testing.T) {
	onlyAMD64(t)
	source, err := os.ReadFile(modelPath(t, synth.GPTOSS))
	if err != nil {
		t.Fatal(err)
	}
	for kind, says := range map[string]string{
		"cut":    `SIGBUS \(beyond the end of a mapped file, .*\) on`,
		"worker": `SIGBUS \(beyond the end of a mapped file, .*\) on .* of C;`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(file, source, 0o600); err != nil {
				t.Fatal(err)
			}
			got := runCrash(t, "model/"+kind, file)
			holds(t, got.line, everyLine, says)
			if byGo := strings.Contains(got.line, `" of Go;`); byGo != (got.code == 2) || byGo == (got.signal != 0) {
				t.Errorf("ended by signal %d with code %d:\n%s", got.signal, got.code, got.stderr)
			}
		})
	}
}

func TestSentSignalIsReportedWithItsSender(t *testing.T) {
	var stderr bytes.Buffer
	cmd := crashing(t, "sent/", "")
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	got := wait(t, cmd, &stderr)
	holds(t, got.line, fmt.Sprintf(`SIGABRT \(sent by process %d\)`, os.Getpid()), everyLine)
	holds(t, got.stderr, `SIGABRT: abort`)
	if got.code != 2 {
		t.Errorf("ended by signal %d with code %d", got.signal, got.code)
	}
}

func TestFaultInGoCodeStaysAPanic(t *testing.T) {
	install()
	for what, f := range map[string]func(){
		"nil dereference": func() { fmt.Println(**new(*int)) }, //nolint:govet // the test dereferences nil
		"division":        func() { fmt.Println(1 / *new(int)) },
		"nil function":    func() { (*new(func()))() }, //nolint:govet // the test dereferences nil
	} {
		func() {
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					t.Errorf("%s: no panic of the runtime", what)
				}
			}()
			f()
		}()
	}

	got := runCrash(t, "panic/", "")
	holds(t, got.stderr, `panic: runtime error: invalid memory address or nil pointer dereference`, `goroutine 1 `)
	if got.code != 2 || got.line != "" {
		t.Errorf("ended by signal %d with code %d and the line %q", got.signal, got.code, got.line)
	}
}

func TestGoCodeRangeExcludesC(t *testing.T) {
	start, end := goCode()
	for what, f := range map[string]any{"ours": goCode, "the library's": fmt.Println, "the runtime's": runtime.GC, "assembly": bytes.IndexByte} {
		if pc := reflect.ValueOf(f).Pointer(); pc < start || end <= pc {
			t.Errorf("%s: %#x is not within %#x to %#x", what, pc, start, end)
		}
	}
	for _, pc := range []uintptr{start - 1, end} {
		if f := runtime.FuncForPC(pc); f != nil {
			t.Errorf("%#x is in %s", pc, f.Name())
		}
	}
}
