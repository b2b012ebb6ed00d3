package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/internal/base/waittest"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

func TestMain(m *testing.M) {
	if err := llama.Init(zerolog.New(os.Stderr).Level(zerolog.ErrorLevel)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := loadTestDevice(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// testDevice is the device that tests compute on, such as Vulkan0; "" is the CPU.
var testDevice = os.Getenv("AGENTD_TEST_DEVICE")

// loadTestDevice loads the plugins beside the libraries, and those in vulkan below them.
func loadTestDevice() error {
	if testDevice == "" {
		return nil
	}
	for _, dir := range []string{llama.LibDir(), filepath.Join(llama.LibDir(), "vulkan")} {
		if _, err := os.Stat(dir); err == nil {
			if _, err := llama.LoadBackends(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// fewer is the first n of a list on a device, where Mesa's driver for CPUs takes a hundred times as long, else all.
func fewer[T any](list []T, n int) []T {
	if testDevice == "" {
		return list
	}
	return list[:n]
}

// count is n, or on a device what is enough there.
func count(n, onDevice int) int {
	if testDevice == "" {
		return n
	}
	return onDevice
}

// microBatch is how many rows are computed at once. Mesa's driver for CPUs takes seconds for more than 8, which
// the tests of package llama compute.
var microBatch = count(512, 8)

// tied is the largest difference of two logits that a device may order otherwise in a batch of another width.
const tied = 0.05 * synth.LogitSpread

// sameAnswers compares greedy answers to one prompt that were computed in batches of other widths. On the CPU
// they are equal. On a device they may part where two tokens are tied.
func sameAnswers(t testing.TB, m *llama.Model, prompt []llama.Token, want, got generation.Completion) bool {
	t.Helper()
	i := 0
	for i < min(len(want.Tokens), len(got.Tokens)) && want.Tokens[i] == got.Tokens[i] {
		i++
	}
	if testDevice == "" || i == len(want.Tokens) && i == len(got.Tokens) {
		return cmp.Equal(want, got)
	}
	c, err := m.NewContext(llama.SetContext(1024), llama.SetBatch(512), llama.SetMicroBatch(microBatch), llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		t.Fatal(err)
	}
	b := newContextBackend(c)
	defer b.Close()
	var rows []core.Row
	for pos, token := range slices.Concat(prompt, want.Tokens[:i]) {
		rows = append(rows, core.Row{Token: token, Pos: pos, Output: pos == len(prompt)+i-1})
	}
	if err := b.Decode(rows); err != nil {
		t.Fatal(err)
	}
	row, err := b.Logits(len(rows) - 1)
	if err != nil {
		t.Fatal(err)
	}
	// What ended an answer is any of the end tokens.
	value := func(c generation.Completion) float32 {
		if i < len(c.Tokens) {
			return row[c.Tokens[i]]
		}
		best := float32(math.Inf(-1))
		for token, v := range row {
			if m.Vocab().IsEOG(llama.Token(token)) {
				best = max(best, v)
			}
		}
		return best
	}
	d := value(want) - value(got)
	t.Logf("token %d of %d: %.3f apart", i, len(want.Tokens), d)
	return d > -tied && d < tied
}

var models sync.Map // device and architecture to func() (*llama.Model, error)

// testModel loads the tiny F32 model of an architecture once. With F32 the width of a batch
// hardly changes the logits.
func testModel(t testing.TB, arch string) *llama.Model {
	t.Helper()
	return modelOn(t, testDevice, arch)
}

// reference is the same model on the CPU, which results of a device are compared with.
func reference(t testing.TB, arch string) *llama.Model {
	t.Helper()
	if testDevice == "" {
		return testModel(t, arch)
	}
	return modelOn(t, "cpu", arch)
}

func modelOn(t testing.TB, device, arch string) *llama.Model {
	t.Helper()
	load, _ := models.LoadOrStore(device+" "+arch, sync.OnceValues(func() (*llama.Model, error) {
		spec, err := synth.Preset("tiny", arch)
		if err != nil {
			return nil, err
		}
		spec.Type, spec.Small = "f32", true
		path, err := synth.Cached("", spec)
		if err != nil {
			return nil, err
		}
		if device != "" {
			return llama.New(path, llama.SetDevices(device))
		}
		return llama.New(path)
	}))
	m, err := load.(func() (*llama.Model, error))()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// setup describes the engine of a test.
type setup struct {
	arch                             string // default qwen3
	cells, sequences, outputs, batch int
	cfg                              Config
	// wrap puts something between the engine and the context.
	wrap     func(backend) backend
	contexts int                                // default 1
	wrapEach func(index int, b backend) backend // wrap, with the context's index
	now      func() time.Time
	log      zerolog.Logger // default: none
	// onCPU computes on the CPU where the tests have a device.
	onCPU bool
	model *llama.Model // default: the tiny one of arch
	// options are further ones of the context with an index.
	options func(index int) []llama.ContextOption
}

func newTestEngine(t testing.TB, s setup) *Engine {
	t.Helper()
	m := testModel(t, orElse(s.arch, synth.Qwen3))
	if s.onCPU {
		m = reference(t, orElse(s.arch, synth.Qwen3))
	}
	if s.model != nil {
		m = s.model
	}
	var parts []workerParts
	for i := range orElse(s.contexts, 1) {
		options := []llama.ContextOption{
			llama.SetContext(orElse(s.cells, 2048)), llama.SetBatch(orElse(s.batch, 64)), llama.SetMicroBatch(microBatch),
			llama.SetMaxSequences(orElse(s.sequences, 16)), llama.SetMaxOutputs(orElse(s.outputs, 8)),
			llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false),
		}
		if s.options != nil {
			options = append(options, s.options(i)...)
		}
		c, err := m.NewContext(options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.cfg.complete(c); err != nil {
			t.Fatal(err)
		}
		var back backend = newContextBackend(c)
		if s.wrap != nil {
			back = s.wrap(back)
		}
		if s.wrapEach != nil {
			back = s.wrapEach(i, back)
		}
		parts = append(parts, workerParts{Context{Model: m, Device: fmt.Sprint("device ", i)}, c, back})
	}
	e, err := newEngine(parts, s.cfg, s.log)
	if err != nil {
		t.Fatal(err)
	}
	if s.now != nil {
		e.now = s.now
	}
	e.start()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func tokenize(t testing.TB, m *llama.Model, text string) []llama.Token {
	t.Helper()
	tokens, err := m.Vocab().Tokenize(text, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// greedy is a generation without randomness.
func greedy(prompt []llama.Token, n, maxTokens int) generation.Request {
	return generation.Request{Prompt: prompt, Params: generation.Params{N: n, MaxTokens: maxTokens, Seeds: make([]uint32, n)}}
}

// sampled is a generation with the seeds first, first+1, ...
func sampled(prompt []llama.Token, n, maxTokens int, first uint32) generation.Request {
	g := greedy(prompt, n, maxTokens)
	g.Sampling = generation.Sampling{Temperature: 1, TopK: 40}
	for i := range g.Seeds {
		g.Seeds[i] = first + uint32(i)
	}
	return g
}

// generate admits and runs one generation.
func generate(ctx context.Context, e *Engine, g generation.Request) (*generation.Result, error) {
	admission, err := e.Admit(g.N, 0)
	if err != nil {
		return nil, err
	}
	defer admission.Release()
	return admission.generate(ctx, g)
}

// submitAll submits generations all at once.
func submitAll(t *testing.T, a *Admission, list ...generation.Request) []*request {
	t.Helper()
	submitted, errs := a.submit(t.Context(), list)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	return submitted
}

// generate runs one generation.
func (a *Admission) generate(ctx context.Context, g generation.Request) (result *generation.Result, err error) {
	a.GenerateAll(ctx, []generation.Request{g}, func(_ int, r *generation.Result, failed error) { result, err = r, failed })
	return result, err
}

func mustGenerate(t testing.TB, e *Engine, g generation.Request) *generation.Result {
	t.Helper()
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Completions {
		if c.Err != nil {
			t.Fatalf("candidate %d: %v", i, c.Err)
		}
	}
	return r
}

// naive is the plain reference of the engine: one candidate with one sequence in its own
// context, the prompt in one batch.
func naive(t testing.TB, m *llama.Model, g generation.Request, cand int) generation.Completion {
	t.Helper()
	return naiveWith(t, m, nil, g, cand)
}

// naiveWith is naive under an adapter.
func naiveWith(t testing.TB, m *llama.Model, a *llama.Adapter, g generation.Request, cand int) generation.Completion {
	t.Helper()
	c, err := m.NewContext(llama.SetContext(1024), llama.SetBatch(512), llama.SetMicroBatch(microBatch), llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetAdapter(a); err != nil {
		t.Fatal(err)
	}
	cfg := llama.SamplerConfig{
		Temperature: g.Temperature, TopP: g.TopP, MinP: g.MinP, TopK: g.TopK, Seed: g.Seeds[cand],
		Grammar: g.Grammar, SuppressControl: g.SuppressControl, Suppress: slices.Clip(g.Suppress), Score: g.Scores,
	}
	for t := range llama.Token(m.Vocab().Size()) {
		if g.IgnoreEnd && m.Vocab().IsEOG(t) {
			cfg.Suppress = append(cfg.Suppress, t)
		}
	}
	s, err := m.NewSampler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := generation.Completion{Finish: generation.FinishLength}
	feed := slices.Clone(g.Prompt)
	for pos := 0; len(done.Tokens) < g.MaxTokens; {
		b := make([]llama.Row, len(feed))
		for i, token := range feed {
			b[i] = llama.Row{Token: token, Pos: llama.Pos(pos + i), Output: i == len(feed)-1}
		}
		pos += len(feed)
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		row, err := c.Logits(len(feed) - 1)
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.Sample(row)
		if err != nil {
			t.Fatal(err)
		}
		if m.Vocab().IsEOG(token) {
			done.Stop, done.StopToken, done.Finish = string(m.Vocab().Piece(token, true)), token, generation.FinishStop
			break
		}
		done.Tokens = append(done.Tokens, token)
		feed = []llama.Token{token}
	}
	done.Text = m.Vocab().Detokenize(done.Tokens, true)
	return done
}

// eventually waits for a condition that other goroutines fulfil.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	waittest.Eventually(t, what, ok)
}

// faulty is a backend whose operations can be made to fail.
type faulty struct {
	backend
	mu     sync.Mutex
	decode func(rows []core.Row) error // runs before the real Decode, unless it returns an error
	copy   func() error
	steps  int
}

func (f *faulty) Decode(rows []core.Row) error {
	f.mu.Lock()
	decode := f.decode
	f.steps++
	f.mu.Unlock()
	if decode != nil {
		if err := decode(rows); err != nil {
			return err
		}
	}
	return f.backend.Decode(rows)
}

func (f *faulty) Apply(o core.Op) error {
	f.mu.Lock()
	fail := f.copy
	f.mu.Unlock()
	if o.Kind == core.OpCopy && fail != nil {
		if err := fail(); err != nil {
			return err
		}
	}
	return f.backend.Apply(o)
}

// gate blocks every Decode until it is opened, and signals when one waits.
type gate struct {
	backend
	enter chan struct{}
	open  chan struct{}
}

func newGate(b backend) *gate {
	return &gate{backend: b, enter: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) Decode(rows []core.Row) error {
	select {
	case g.enter <- struct{}{}:
	case <-g.open:
		return g.backend.Decode(rows)
	}
	<-g.open
	return g.backend.Decode(rows)
}

var errInjected = errors.New("injected")
