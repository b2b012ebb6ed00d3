package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

func TestStuckBoundFollowsTheLongestStep(t *testing.T) {
	for name, tc := range map[string]struct {
		longest time.Duration
		rows    int
		want    time.Duration
	}{
		"before the first step":          {0, 0, stuckFirst},
		"short steps":                    {50 * time.Millisecond, 512, stuckFloor},
		"long steps":                     {10 * time.Second, 512, 80 * time.Second},
		"larger steps may come":          {2 * time.Second, 64, 128 * time.Second},
		"much larger steps may come":     {time.Minute, 1, stuckFirst},
		"steps longer than the first's":  {10 * time.Minute, 1, 80 * time.Minute},
		"a step with more rows than one": {time.Second, 512, stuckFloor},
	} {
		t.Run(name, func(t *testing.T) {
			r := rounds{batch: 512, longest: tc.longest, rows: tc.rows}
			if got := r.bound(); got != tc.want {
				t.Errorf("bound %s, want %s", got, tc.want)
			}
		})
	}
}

// ticked returns the stages after each of n ticks of a second.
func ticked(r *rounds, n int) (list []stage) {
	for range n {
		_, now, _ := r.tick(watchInterval, false)
		list = append(list, now)
	}
	return list
}

func TestRoundIsLateThenStuckThenOnTime(t *testing.T) {
	start := time.Now()
	r := rounds{batch: 512, longest: time.Second, rows: 512}
	r.begin(start)
	list := ticked(&r, 20)
	if list[6] != onTime || list[7] != late || list[18] != late || list[19] != stuck {
		t.Errorf("stages %v", list)
	}
	r.end(start.Add(time.Hour), 512)
	r.begin(start.Add(time.Hour))
	if list := ticked(&r, 2); list[0] != onTime || list[1] != onTime {
		t.Errorf("stages after the end %v", list)
	}
	if r.longest != stuckFloor {
		t.Errorf("the longest step is %s, want no more than its bound", r.longest)
	}
}

func TestTimeWithoutTheWatchdogDoesNotCount(t *testing.T) {
	start := time.Now()
	r := rounds{batch: 512, longest: time.Second, rows: 512}
	r.begin(start)
	if _, now, spent := r.tick(time.Hour, false); now != onTime || spent != watchInterval {
		t.Errorf("stage %d after %s", now, spent)
	}
	r.end(start.Add(time.Hour), 512)
	if r.longest > 4*watchInterval {
		t.Errorf("the longest step is %s", r.longest)
	}
}

func TestIdleWorkerIsNeverLate(t *testing.T) {
	r := rounds{batch: 512, longest: time.Second, rows: 512}
	r.begin(time.Now())
	r.end(time.Now(), 0)
	for _, s := range ticked(&r, 100) {
		if s != onTime {
			t.Fatal("an idle worker is late")
		}
	}
	for range 20 {
		_, s, _ := r.tick(watchInterval, true)
		r.mu.Lock()
		if done := r.spent >= stuckFloor; (s == stuck) != done {
			t.Errorf("stage %d after %s with commands that nobody takes", s, r.spent)
		}
		r.mu.Unlock()
	}
}

// stuckTicks is enough for a round that hangs. The first tick may be that of an earlier round.
const stuckTicks = int(stuckFloor/watchInterval) + 1

// frozen is a backend whose native calls hang while a channel is open.
type frozen struct {
	backend
	at    string // the call that hangs
	gate  chan struct{}
	begun chan struct{}
	once  *sync.Once
}

func (b frozen) hang(call string) {
	if call == b.at {
		b.once.Do(func() { close(b.begun) })
		<-b.gate
	}
}

func (b frozen) Decode(rows []core.Row) error { b.hang("Decode"); return b.backend.Decode(rows) }
func (b frozen) SampleBatch(s []*llama.Sampler, rows [][]float32, out []llama.Sampled) {
	b.hang("SampleBatch")
	b.backend.SampleBatch(s, rows, out)
}

func (b frozen) Apply(o core.Op) error {
	if o.Kind == core.OpCopy {
		b.hang("Copy")
	}
	return b.backend.Apply(o)
}

func (b frozen) Logits(i int) ([]float32, error) { b.hang("Logits"); return b.backend.Logits(i) }

// lines is a log that tests may read while it grows.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func TestHangingCallIsReportedAndRecovers(t *testing.T) {
	for _, at := range []string{"Decode", "Logits", "Copy"} {
		t.Run(at, func(t *testing.T) {
			hang := frozen{at: at, gate: make(chan struct{}), begun: make(chan struct{}), once: new(sync.Once)}
			log := new(lines)
			found := make(chan *generation.StuckError, 1)
			e := newTestEngine(t, setup{contexts: 2, log: zerolog.New(log), cfg: Config{OnStuck: func(e *generation.StuckError) { found <- e }},
				wrapEach: func(i int, b backend) backend {
					if i == 1 {
						return b
					}
					h := hang
					h.backend = b
					return h
				}})
			for _, w := range e.workers {
				w.rounds.longest, w.rounds.rows = time.Millisecond, 64
			}
			g := greedy(tokenize(t, e.model, story), 2, 5)
			answered := make(chan error, 1)
			go func() {
				r, err := generate(t.Context(), e, g)
				if err == nil && (len(r.Completions) != 2 || r.Completions[0].Err != nil) {
					err = fmt.Errorf("answered with %+v", r)
				}
				answered <- err
			}()
			<-hang.begun
			for range stuckTicks {
				e.look(e.workers[0], watchInterval)
			}
			var hangs *generation.StuckError
			if err := e.Failure(); !errors.As(err, &hangs) || hangs.Names() != "context 0" || (<-found).Names() != "context 0" {
				t.Errorf("failure %v", err)
			}
			if list := e.Contexts(); list[0].Up || !list[1].Up || e.Stats().StuckSteps != 1 || !log.has("a step does not end") {
				t.Errorf("contexts up: %t, %t; %d steps counted", list[0].Up, list[1].Up, e.Stats().StuckSteps)
			}
			if err := <-answered; err != nil { // by the other context
				t.Error(err)
			}
			mustGenerate(t, e, g)
			close(hang.gate)
			eventually(t, "the context is idle", func() bool { e.look(e.workers[0], 0); return e.Failure() == nil })
			if !e.Contexts()[0].Up || !log.has("has ended after all") {
				t.Error("the context is not up again, or nothing says so")
			}
		})
	}
}

func TestCloseDoesNotWaitForAHangingStep(t *testing.T) {
	hang := frozen{at: "Decode", gate: make(chan struct{}), begun: make(chan struct{}), once: new(sync.Once)}
	e := newTestEngine(t, setup{wrap: func(b backend) backend { hang.backend = b; return hang }})
	e.workers[0].rounds.longest, e.workers[0].rounds.rows = time.Millisecond, 64
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := generate(ctx, e, greedy(tokenize(t, e.model, story), 1, 5))
		answered <- err
	}()
	<-hang.begun
	cancel()
	<-answered
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	eventually(t, "it is being closed", e.isClosed)
	for range stuckTicks {
		e.look(e.workers[0], watchInterval)
	}
	if err := <-closed; !errors.As(err, new(*generation.StuckError)) {
		t.Errorf("closed: %v", err)
	}
	close(hang.gate)
	<-e.workers[0].done // so that newTestEngine can close the rest
	e.calls.Wait()
}

func TestWeightsThatGiveNaNAreRefused(t *testing.T) {
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small = "f32", true
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	nan := bytes.Clone(sound)
	copy(nan[len(nan)*7/8:], bytes.Repeat([]byte{0xff}, len(nan)/8)) // each of these F32 is NaN
	for name, tc := range map[string]struct {
		file []byte
		want error
	}{"finite": {sound, nil}, "not finite": {nan, ErrNotFinite}} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, tc.file, 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := llama.New(path, llama.SetMMap(false), llama.SetDevices("cpu"))
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(t.Context(), []Context{{Model: m, Options: []llama.ContextOption{llama.SetContext(256), llama.SetMaxSequences(4)}}}, Config{}, zerolog.Nop())
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if e != nil {
				err = e.Close()
				if err != nil {
					t.Error(err)
				}
			}
			if err := m.Free(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLogitsThatAreNotFiniteAreRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, tc := range map[string]struct {
		row []float32
		ok  bool
	}{
		"finite":              {[]float32{1, -2, 0}, true},
		"an impossible token": {[]float32{1, -inf, 0}, true},
		"only such":           {[]float32{-inf, -inf}, false},
		"NaN":                 {[]float32{1, nan, 0}, false},
		"Inf":                 {[]float32{1, inf, 0}, false},
	} {
		if err := finite(tc.row); (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrNotFinite) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFirstStepThatHangsIsReported(t *testing.T) {
	hang := frozen{at: "Decode", gate: make(chan struct{}), begun: make(chan struct{}), once: new(sync.Once)}
	log := new(lines)
	found := make(chan *generation.StuckError, 1)
	e := newTestEngine(t, setup{log: zerolog.New(log), cfg: Config{OnStuck: func(e *generation.StuckError) { found <- e }},
		wrap: func(b backend) backend { hang.backend = b; return hang }})
	ended := make(chan error, 1)
	go func() { ended <- e.try(t.Context()) }()
	<-hang.begun
	for range stuckTicks { // it may page in a large model
		e.look(e.workers[0], watchInterval)
	}
	if e.Failure() != nil || len(found) > 0 || log.has("step") {
		t.Error("a first step is reported early")
	}
	for range stuckFirst / watchInterval {
		e.look(e.workers[0], watchInterval)
	}
	if names := (<-found).Names(); names != "first step on device 0" || !log.has("the first step of weights that are being loaded does not end") {
		t.Errorf("reported %s", names)
	}
	close(hang.gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, "the context is idle", func() bool { e.look(e.workers[0], 0); return e.Failure() == nil })
	e.workers[0].rounds.mu.Lock()
	if r := &e.workers[0].rounds; r.rows == 0 || r.longest == 0 {
		t.Error("the bound does not follow the first step")
	}
	e.workers[0].rounds.mu.Unlock()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.try(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that was cancelled: %v", err)
	}
}

// slow is an engine with two contexts, the first of which hangs in a step with some of the requests.
func slow(t *testing.T) (e *Engine, hang frozen, list []generation.Request, a *Admission, submitted []*request) {
	t.Helper()
	hang = frozen{at: "Decode", gate: make(chan struct{}), begun: make(chan struct{}), once: new(sync.Once)}
	e = newTestEngine(t, setup{contexts: 2, wrapEach: func(i int, b backend) backend {
		if i == 1 {
			return b
		}
		hang.backend = b
		return hang
	}})
	e.workers[0].rounds.longest, e.workers[0].rounds.rows = time.Millisecond, 64
	list = alike(t, 6)
	n := 0
	for _, g := range list {
		n += g.N
	}
	a, err := e.Admit(n, 0)
	if err != nil {
		t.Fatal(err)
	}
	submitted = submitAll(t, a, list...)
	<-hang.begun
	return e, hang, list, a, submitted
}

// Its requests stay, and new ones go to the other context.
func TestLateContextKeepsItsRequestsAndGetsNoOthers(t *testing.T) {
	e, hang, list, a, submitted := slow(t)
	for range int(lateFloor/watchInterval) + 1 {
		e.look(e.workers[0], watchInterval)
	}
	e.mu.Lock()
	has := len(e.workers[0].assigned)
	for r := range e.workers[0].assigned {
		if len(r.leave) > 0 {
			t.Error("a request is asked to leave")
		}
	}
	e.mu.Unlock()
	if has == 0 {
		t.Error("no request is on the late context")
	}
	mustGenerate(t, e, list[0])
	close(hang.gate)
	checkNaive(t, e.model, list, a, submitted)
	if n := e.Stats().Retried; n > 0 {
		t.Errorf("%d requests moved", n)
	}
}

// Its requests are computed by the other context.
func TestStuckContextIsRelieved(t *testing.T) {
	e, hang, list, a, submitted := slow(t)
	for range stuckTicks {
		e.look(e.workers[0], watchInterval)
	}
	checkNaive(t, e.model, list, a, submitted)
	if e.Stats().Retried == 0 {
		t.Error("no request was on the context that hangs")
	}
	close(hang.gate)
}

// alike are generations whose prompts have a long beginning in common.
func alike(t *testing.T, n int) []generation.Request {
	m := testModel(t, synth.Qwen3)
	list := make([]generation.Request, n)
	for i := range list {
		list[i] = greedy(tokenize(t, m, strings.Repeat(story, 5)+fmt.Sprint(" Robot ", i, story[:10+i])), 2, 6)
	}
	return list
}

func checkNaive(t *testing.T, m *llama.Model, list []generation.Request, a *Admission, submitted []*request) {
	t.Helper()
	for i, request := range submitted {
		r, err := a.wait(t.Context(), request)
		if err != nil {
			t.Error(err)
			continue
		}
		for c, got := range r.Completions {
			if want := naive(t, m, list[i], c); !sameAnswers(t, m, list[i].Prompt, want, got) {
				t.Errorf("request %d candidate %d: %s", i, c, cmp.Diff(want, got))
			}
		}
	}
}
