package llama

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"agentd/llama/synth"
)

// testDevice is the device that tests compute on, such as Vulkan0; "" is the CPU. With one,
// the tests of memories, decoding and faults run on it (make test-device).
var testDevice = os.Getenv("AGENTD_TEST_DEVICE")

// loadTestDevice loads the plugins beside the libraries, and those in the directory vulkan
// below them, which servers do not load. A missing device is an error if it was requested.
func loadTestDevice() {
	if testDevice == "" {
		return
	}
	for _, dir := range []string{LibDir(), filepath.Join(LibDir(), "vulkan")} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if _, err := LoadBackends(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if !slices.ContainsFunc(Devices(), func(d Device) bool { return d.Name == testDevice }) {
		fmt.Fprintf(os.Stderr, "AGENTD_TEST_DEVICE=%s: there is no such device among %v\n", testDevice, Devices())
		os.Exit(1)
	}
}

func onTestDevice() []ModelOption {
	if testDevice == "" {
		return nil
	}
	return []ModelOption{SetDevices(testDevice)}
}

// needsTestDevice skips a test without a device.
func needsTestDevice(t testing.TB) {
	t.Helper()
	if testDevice == "" {
		t.Skip("no device: make test-device runs this")
	}
	t.Setenv("GGML_SCHED_DEBUG", "2") // of contexts made from now on: see placement
}

// deviceModel is a small F32 model, so that the width of a batch hardly changes a logit.
func deviceModel(t testing.TB, arch string, opts ...ModelOption) *Model {
	t.Helper()
	return modelWithHeads(t, arch, 0, opts...)
}

// modelWithHeads is a deviceModel whose heads have a size; 0 is the preset's.
func modelWithHeads(t testing.TB, arch string, size int, opts ...ModelOption) *Model {
	t.Helper()
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small, spec.Seed = "f32", true, 3
	spec.HeadDim = cmp.Or(size, spec.HeadDim)
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// sameOnDevice is the largest difference of a logit between the CPU and a device. Rows have a
// standard deviation of synth.LogitSpread.
const sameOnDevice = 0.05 * synth.LogitSpread

// situation does something with a context and returns the logits after it.
type situation func(t *testing.T, c *Context) [][]float32

func countTo(n, seed int) []Token {
	list := make([]Token, n)
	for i := range list {
		list[i] = Token(40 + (i*i+seed*7+i)%80)
	}
	return list
}

// must fails the test on an error of a memory operation.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func forkAndShare(t *testing.T, c *Context) (rows [][]float32) {
	prompt := countTo(24, 1)
	rows = append(rows, feed(t, c, 0, prompt))
	for s := SeqID(1); s < 4; s++ {
		must(t, c.Memory().Copy(0, s, -1, -1))
	}
	b := make([]Row, 4)
	for step := range 3 { // all in one batch
		for s := range b {
			b[s] = Row{Token(50 + s + step), Pos(24 + step), SeqID(s), true}
		}
		must(t, c.Decode(b))
		for i := range 4 {
			row, err := c.Logits(i)
			must(t, err)
			rows = append(rows, slices.Clone(row))
		}
	}
	return rows
}

// shorten cuts a fork back to a prefix, continues it with other tokens, and restores it.
func shorten(t *testing.T, c *Context) (rows [][]float32) {
	prompt := countTo(30, 2)
	rows = append(rows, feed(t, c, 0, prompt))
	must(t, c.Memory().Copy(0, 1, 0, 12))
	rows = append(rows, feed(t, c, 1, countTo(9, 5)))
	must(t, c.Memory().Remove(1, 12, -1))
	rows = append(rows, feed(t, c, 1, prompt[12:]))
	if d := maxDiff(rows[0], rows[2]); d > sameOnDevice {
		t.Errorf("computed again it differs by %g", d)
	}
	return rows
}

// evict fills the cache, gives its middle to other sequences, and computes the evicted tokens again.
func evict(t *testing.T, c *Context) (rows [][]float32) {
	for s := range SeqID(3) {
		rows = append(rows, feed(t, c, s, countTo(30, int(s))))
	}
	must(t, c.Memory().Remove(1, -1, -1), c.Memory().Remove(0, 20, -1))
	rows = append(rows, feed(t, c, 3, countTo(25, 8)))
	must(t, c.Memory().Remove(2, -1, -1))
	rows = append(rows, feed(t, c, 1, countTo(30, 1)))
	if d := maxDiff(rows[1], rows[4]); d > sameOnDevice {
		t.Errorf("computed again it differs by %g", d)
	}
	return append(rows, feed(t, c, 0, countTo(10, 9)))
}

// restore preempts a sequence and loads its cells from host memory into other cells.
func restore(t *testing.T, c *Context) (rows [][]float32) {
	prompt := countTo(48, 4)
	feed(t, c, 0, prompt[:47])
	s := save(t, c, 0, 47)
	rows = append(rows, feed(t, c, 0, prompt[47:]))
	must(t, c.Memory().Remove(0, -1, -1))
	rows = append(rows, feed(t, c, 1, countTo(30, 6)))
	must(t, c.Memory().Load(s, 0, scratch(c), 0, 47))
	rows = append(rows, feed(t, c, 0, prompt[47:]))
	if d := maxDiff(rows[0], rows[2]); d > sameOnDevice {
		t.Errorf("restored it differs by %g", d)
	}
	return rows
}

// drafts computes several rows of a sequence at once, and removes two of them.
func drafts(t *testing.T, c *Context) (rows [][]float32) {
	feed(t, c, 0, countTo(20, 3))
	b := make([]Row, 4)
	for i := range b {
		b[i] = Row{Token(60 + i), Pos(20 + i), 0, true}
	}
	must(t, c.Decode(b))
	for i := range 4 {
		row, err := c.Logits(i)
		must(t, err)
		rows = append(rows, slices.Clone(row))
	}
	must(t, c.Memory().Remove(0, 22, -1))
	return append(rows, feed(t, c, 0, []Token{90, 91}))
}

// window makes a sequence and a fork of it longer than the sliding window.
func window(t *testing.T, c *Context) (rows [][]float32) {
	for part := range slices.Chunk(countTo(240, 2), 60) {
		rows = append(rows, feed(t, c, 0, part))
	}
	must(t, c.Memory().Copy(0, 1, 0, 200))
	return append(rows, feed(t, c, 1, countTo(5, 7)), feed(t, c, 0, countTo(3, 1)))
}

// whole uses the operations of a recurrent state: forks and removals of whole sequences.
func whole(t *testing.T, c *Context) [][]float32 {
	rows := forkAndShare(t, c)
	must(t, c.Memory().Remove(2, -1, -1))
	must(t, c.Memory().Copy(1, 2, -1, -1))
	return append(rows, feed(t, c, 2, countTo(4, 2)), feed(t, c, 1, countTo(4, 2)))
}

// placement reads in ggml's log where work computes attention and logits: by "FLASH_ATTN", or "logits", and the
// beginning of a backend's name.
func placement(t *testing.T, work func()) map[[2]string]int {
	t.Helper()
	var text bytes.Buffer
	log := zerolog.New(zerolog.SyncWriter(&text))
	defer logger.Store(logger.Swap(&log))
	work()
	seen := map[[2]string]int{}
	for _, n := range regexp.MustCompile(`node #[ \d]+\( *(\w+)\): +(\S+) \([^)]*\) \[ *(\w+)`).FindAllStringSubmatch(text.String(), -1) {
		if n[2] == "result_output" {
			seen[[2]string{"logits", n[3]}]++
		} else if n[1] == "FLASH_ATTN" {
			seen[[2]string{n[1], n[3]}]++
		}
	}
	return seen
}

// onlyOnDevice fails the test if the CPU computes attention or logits during work, or if a mask is written as lists.
func onlyOnDevice(t *testing.T, work func()) {
	t.Helper()
	lists := masksAsLists()
	seen := placement(t, work)
	name := testDevice[:min(len(testDevice), 5)] // as the log has it
	if len(seen) != 2 || seen[[2]string{"logits", name}] == 0 || seen[[2]string{"FLASH_ATTN", name}] == 0 {
		t.Errorf("not all was computed on the device: %v", seen)
	}
	if read := masksAsLists() - lists; read > 0 {
		t.Errorf("%d masks were written as lists", read)
	}
}

// furthest is the largest difference of a logit in two lists of rows.
func furthest(t *testing.T, want, got [][]float32) (worst float64) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		worst = max(worst, maxDiff(got[i], want[i]))
	}
	return worst
}

// within fails the test where a logit differs from the CPU's by more than limit.
func within(t *testing.T, limit float64, want, got [][]float32) {
	t.Helper()
	worst := furthest(t, want, got)
	if worst > limit || math.IsNaN(worst) {
		t.Errorf("a logit differs from the CPU's by %g, more than %g", worst, limit)
	}
	t.Logf("worst difference %.4f", worst)
}

// TestOnDeviceLogitsAreThoseOfCPU in every situation that the scheduler makes.
func TestOnDeviceLogitsAreThoseOfCPU(t *testing.T) {
	needsTestDevice(t)
	cells := map[string]situation{"fork and share": forkAndShare, "shorten": shorten, "evict": evict, "restore": restore, "drafts": drafts}
	for _, c := range []struct {
		arch       string
		heads      int
		kv         string
		situations map[string]situation
	}{
		{synth.Qwen3, 0, "f16", cells},
		{synth.Qwen3, 32, "q8_0", map[string]situation{"evict": evict, "restore": restore}}, // heads of one block
		{synth.GPTOSS, 0, "q8_0", map[string]situation{"fork and share": forkAndShare, "shorten": shorten, "drafts": drafts}},
		{synth.GPTOSS, 0, "f16", map[string]situation{"window": window, "evict": evict}},
		{synth.Qwen35, 0, "f16", map[string]situation{"whole sequences": whole}},
	} {
		cpu, device := modelWithHeads(t, c.arch, c.heads, SetDevices("cpu")), modelWithHeads(t, c.arch, c.heads, SetDevices(testDevice))
		for _, name := range slices.Sorted(maps.Keys(c.situations)) {
			t.Run(fmt.Sprintf("%s %s %s", c.arch, c.kv, name), func(t *testing.T) {
				do := func(m *Model, kv string) [][]float32 {
					return c.situations[name](t, newContext(t, m, SetContext(512), SetBatch(512), SetMaxSequences(6), SetMaxOutputs(8), SetKVType(kv), SetFlashAttention(true), SetThreads(2, 2)))
				}
				want, limit := do(cpu, c.kv), sameOnDevice
				if c.kv != "f16" { // both round keys and values, each in its own way
					limit = max(limit, 2*furthest(t, do(cpu, "f16"), want))
				}
				onlyOnDevice(t, func() { within(t, limit, want, do(device, c.kv)) })
			})
		}
	}
}

// TestCPUCountsAsCPU is what the tests on a device rely on: what the CPU computes is counted as such.
func TestCPUCountsAsCPU(t *testing.T) {
	t.Setenv("GGML_SCHED_DEBUG", "2")
	c := newContext(t, deviceModel(t, synth.Qwen3, SetDevices("cpu")), SetFlashAttention(true))
	want, seen := map[string]bool{"CPU": true, "agent": true}, placement(t, func() { feed(t, c, 0, countTo(5, 1)) })
	kinds := map[string]bool{}
	for node := range seen {
		kinds[node[0]] = true
		if !want[node[1]] {
			t.Errorf("%v, want nodes on the CPU only", seen)
		}
	}
	if len(kinds) != 2 {
		t.Errorf("%v, want attention and logits", seen)
	}
}

// onCPU is what a situation gives on the CPU, in a context with these options.
func onCPU(t *testing.T, do situation, options ...ContextOption) [][]float32 {
	t.Helper()
	return do(t, newContext(t, deviceModel(t, synth.Qwen3, SetDevices("cpu")), options...))
}

// few computes one short prompt.
func few(t *testing.T, c *Context) [][]float32 {
	must(t, c.Memory().Clear(true))
	return [][]float32{feed(t, c, 0, countTo(9, 1))}
}

// TestOnDeviceContextsShareIt at the same time, each with the CPU's results.
func TestOnDeviceContextsShareIt(t *testing.T) {
	needsTestDevice(t)
	m := deviceModel(t, synth.Qwen3, SetDevices(testDevice))
	want := onCPU(t, forkAndShare, SetMaxOutputs(8))
	contexts := make([]*Context, 3)
	got := make([][][]float32, len(contexts))
	for i := range contexts {
		contexts[i] = newContext(t, m, SetMaxOutputs(8), SetFlashAttention(true))
	}
	onlyOnDevice(t, func() {
		var group sync.WaitGroup
		for i, c := range contexts {
			group.Go(func() { got[i] = forkAndShare(t, c) })
		}
		group.Wait()
	})
	for _, rows := range got {
		within(t, sameOnDevice, want, rows)
	}
}

// TestOnDeviceSplitModelGivesSameLogits divides a model among two devices of the kind, which
// may be the same one twice.
func TestOnDeviceSplitModelGivesSameLogits(t *testing.T) {
	needsTestDevice(t)
	kind := strings.TrimRight(testDevice, "0123456789")
	var names []string
	for _, d := range Devices() {
		if strings.HasPrefix(d.Name, kind) && len(names) < 2 {
			names = append(names, d.Name)
		}
	}
	want := onCPU(t, few)
	for _, mode := range []string{SplitLayer, SplitTensor} {
		t.Run(mode, func(t *testing.T) {
			if len(names) < 2 {
				t.Skipf("there is one device: %v", names)
			}
			c := newContext(t, deviceModel(t, synth.Qwen3, SetDevices(names...), SetSplitMode(mode)), SetFlashAttention(true))
			within(t, sameOnDevice, want, few(t, c))
		})
	}
}
