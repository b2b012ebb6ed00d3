package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/inference/load"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// liveConfig is a configuration with a directory of weights: two models of one vocabulary, and
// adapters of both.
func liveConfig(t *testing.T) (cfg load.Config, dir string) {
	t.Helper()
	cfg, dir = tinyConfig(t), t.TempDir()
	for i := range 2 {
		spec := tinySpec(t)
		spec.Seed = uint64(1 + i)
		if err := synth.Write(filepath.Join(dir, fmt.Sprint("model", i, ".gguf")), spec); err != nil {
			t.Fatal(err)
		}
		writeAdapter(t, filepath.Join(dir, fmt.Sprint("adapter", i, ".gguf")), uint64(1+i))
	}
	cfg.WeightsDir, cfg.Path = dir, filepath.Join(dir, "model0.gguf")
	return cfg, dir
}

func openLive(t *testing.T, cfg load.Config) *Service {
	t.Helper()
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, l)
	return l
}

// TestWeightsOfARelativeDirectoryHavePathsThatAreAccepted, also those with which the server began.
func TestWeightsOfARelativeDirectoryHavePathsThatAreAccepted(t *testing.T) {
	cfg, dir := liveConfig(t)
	t.Chdir(filepath.Dir(dir))
	base := filepath.Base(dir)
	cfg.WeightsDir, cfg.Path = base, filepath.Join(base, "model0.gguf")
	cfg.LoRA = []load.LoRA{{Name: "start", Path: filepath.Join(base, "adapter0.gguf")}}
	l := openLive(t, cfg)
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return l.SetAdapter(t.Context(), "policy", "adapter1.gguf") },
		func() error { return l.SetModel(t.Context(), "model1.gguf") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		before, err := l.Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range before.Adapters {
			if err := l.SetAdapter(t.Context(), a.Name, a.Path); err != nil {
				t.Errorf("%s: %v", a.Path, err)
			}
		}
		if err := l.SetModel(t.Context(), before.Model.Path); err != nil {
			t.Errorf("%s: %v", before.Model.Path, err)
		}
		after, err := l.Current(t.Context())
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
	}
}

func TestModelIsReplacedUnderLoad(t *testing.T) {
	cfg, _ := liveConfig(t)
	l := openLive(t, cfg)
	if err := l.SetAdapter(t.Context(), "policy", "adapter0.gguf"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{} // by version of the model and of the adapter
	extras := []string{"", `,"adapter":"policy"`}
	of := func(g toldWeights) string { return g.Elements.Generation.Model + g.Elements.Generation.Version }
	for i := range 2 {
		if err := l.SetModel(t.Context(), fmt.Sprint("model", i, ".gguf")); err != nil {
			t.Fatal(err)
		}
		for _, extra := range extras {
			alone := asked(t, l, "Go on", extra)
			want[of(alone)] = alone.Raw
		}
	}
	if len(want) != 4 {
		t.Fatalf("answers of %d versions", len(want))
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := asked(t, l, "Go on", extras[i%2])
				if text, ok := want[of(got)]; !ok || text != got.Raw {
					t.Errorf("%q is no answer of its version, %q", got.Raw, text)
				}
			}
		})
	}
	for i := range 4 {
		if err := l.SetModel(t.Context(), fmt.Sprint("model", i%2, ".gguf")); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	clients.Wait()
	info, err := l.Current(t.Context())
	if err != nil || !strings.HasSuffix(info.Model.Path, "model1.gguf") || len(info.Adapters) != 1 || info.Model.Version == "" {
		t.Errorf("%+v, %v", info, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(l.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	changes := 0.0
	for _, f := range families {
		if f.GetName() == "agentd_weights_changes_total" {
			for _, m := range f.GetMetric() {
				changes += m.GetCounter().GetValue()
			}
		}
	}
	if changes != 7 {
		t.Errorf("%g changes counted, want 7", changes)
	}
}

func TestOverwrittenModelIsToldByStepsAndMetrics(t *testing.T) {
	cfg, _ := liveConfig(t)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(cfg.Path, past, past); err != nil {
		t.Fatal(err)
	}
	l := openLive(t, cfg)
	overwritten := func() (value float64) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(l.Collector())
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "agentd_weights_overwritten" {
				value = 1 + f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return value
	}
	before := asked(t, l, "Go on", "").Elements.Generation.Model
	if v := overwritten(); !strings.HasPrefix(before, "sha256:") || v != 1 {
		t.Errorf("version %s, metric %g", before, v-1)
	}
	if err := rewrite(cfg.Path, "GGUF"); err != nil {
		t.Fatal(err)
	}
	after := asked(t, l, "Go on", "").Elements.Generation.Model
	if info, err := l.Current(t.Context()); err != nil || !strings.HasPrefix(after, "changed:") || info.Model.Version != after || overwritten() != 2 {
		t.Errorf("version %s, %+v, %v, metric %g", after, info, err, overwritten()-1)
	}
	if err := l.SetModel(t.Context(), "model1.gguf"); err != nil {
		t.Fatal(err)
	}
	if v := asked(t, l, "Go on", "").Elements.Generation.Model; !strings.HasPrefix(v, "sha256:") || overwritten() != 1 {
		t.Errorf("other weights have version %s", v)
	}
}

// visionFile is the head of an mmproj file: general.architecture is clip.
const visionFile = "GGUF\x03\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x14\x00\x00\x00\x00\x00\x00\x00general.architecture" + "\x08\x00\x00\x00" + "\x04\x00\x00\x00\x00\x00\x00\x00clip"

func TestRefusedWeightsLeaveTheOldOnesServing(t *testing.T) {
	cfg, dir := liveConfig(t)
	l := openLive(t, cfg)
	before := asked(t, l, "Go on", "")
	other, err := synth.Tiny("", synth.GPTOSS)
	if err != nil {
		t.Fatal(err)
	}
	large := tinySpec(t)
	large.Small = false
	if err := synth.Write(filepath.Join(dir, "large.gguf"), large); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cut.gguf"), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	nan := bytes.Clone(whole)
	copy(nan[len(nan)*7/8:], bytes.Repeat([]byte{0xff}, len(nan)/8)) // NaN in any format
	for name, content := range map[string][]byte{"nan.gguf": nan, "vision.gguf": []byte(visionFile)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(dir, "link.gguf")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"a file that is not there": {"none.gguf", "no such file"},
		"a file outside":           {other, "not in the server's directory of weights"},
		"a path that leads out":    {"../../etc/passwd", "not in the server's directory of weights"},
		"a link that leads out":    {"link.gguf", "not in the server's directory of weights"},
		"a directory":              {".", "directory of weights"},
		"half a file":              {"cut.gguf", "could not be loaded"},
		"an adapter":               {"adapter0.gguf", "is a LoRA adapter, not a model: name the model for which it was made as model, and this file as adapter"},
		"the vision part":          {"vision.gguf", "agentd has no vision"},
		"weights that give NaN":    {"nan.gguf", "gives NaN or Inf"},
		"another vocabulary":       {"large.gguf", "vocabulary differs"},
	} {
		t.Run(name, func(t *testing.T) {
			err := l.SetModel(t.Context(), tc.path)
			text := fmt.Sprint(err)
			var problems protocol.Problems
			var refused *Error
			switch {
			case errors.As(err, &problems):
				if text = problems.All(); !strings.HasPrefix(text, "body.model: ") {
					t.Errorf("%s does not name the field", text)
				}
			case !errors.As(err, &refused) || refused.Reason != Unusable:
				t.Errorf("%v is no invalid request", err)
			}
			if !strings.Contains(text, tc.want) {
				t.Errorf("%s does not say %q", text, tc.want)
			}
			if after := asked(t, l, "Go on", ""); after != before {
				t.Errorf("afterwards %+v, before %+v", after, before)
			}
		})
	}
	if err := l.SetAdapter(t.Context(), "bad", "model0.gguf"); err == nil {
		t.Error("a model became an adapter")
	}
	if err := synth.WriteAdapter(filepath.Join(dir, "inf.gguf"), tinySpec(t), synth.Adapter{Rank: 4, Alpha: float32(math.Inf(1)), Gain: 0.5}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetAdapter(t.Context(), "bad", "inf.gguf"); err == nil || !strings.Contains(err.Error(), "the adapter bad can't serve") {
		t.Errorf("an adapter that gives Inf: %v", err)
	}
	if err := l.RemoveAdapter("bad"); err == nil {
		t.Error("an adapter was removed that is not there")
	}
	l.change <- struct{}{}
	var refused *Error
	if err := l.SetModel(t.Context(), "model1.gguf"); !errors.As(err, &refused) || refused.Reason != Busy {
		t.Errorf("two changes at once: %v", err)
	}
	<-l.change
	fixed := tinyConfig(t)
	if err := openLive(t, fixed).SetModel(t.Context(), cfg.Path); !errors.As(err, &refused) || refused.Reason != NotAllowed || !strings.Contains(refused.Detail, "directory of weights") {
		t.Errorf("without a directory: %v", err)
	}
}

// hanging begins a change of a Live whose first step hangs until release is called.
func hanging(t *testing.T, l *Service, file string) (ended <-chan error, cancel, release func()) {
	t.Helper()
	path, unlock, err := l.begin(file, "model")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gate, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.apart(ctx, unlock, func() error {
			<-gate
			return nil
		})
	}()
	l.cfg.Scheduler.OnStuck(&generation.StuckError{Loading: "CUDA0"})
	if !strings.HasSuffix(path, file) {
		t.Errorf("the path is %s", path)
	}
	return done, cancel, func() { close(gate) }
}

func TestLoadThatHangsIsNamedUntilItEnds(t *testing.T) {
	cfg, _ := liveConfig(t)
	var reported []string
	cfg.Hangs = func(e *generation.StuckError) { reported = append(reported, "load: "+e.Names()) }
	cfg.Scheduler.OnStuck = func(e *generation.StuckError) { reported = append(reported, e.Names()) }
	l := openLive(t, cfg)
	before := asked(t, l, "Go on", "")
	ended, cancel, release := hanging(t, l, "model1.gguf")
	defer cancel()
	var hang *generation.StuckError
	if err := l.Failure(); !errors.As(err, &hang) || hang.Names() != "first step on CUDA0" {
		t.Errorf("failure %v", err)
	}
	if want := []string{"load: first step on CUDA0", "first step on CUDA0"}; !slices.Equal(reported, want) {
		t.Errorf("reported %q", reported)
	}
	for name, change := range map[string]func() error{
		"model":   func() error { return l.SetModel(t.Context(), "model0.gguf") },
		"adapter": func() error { return l.SetAdapter(t.Context(), "a", "adapter0.gguf") },
		"removal": func() error { return l.RemoveAdapter("a") },
	} {
		var refused *Error
		if err := change(); !errors.As(err, &refused) || refused.Reason != Busy || !strings.Contains(refused.Detail, "model1.gguf is being loaded, and its first step on CUDA0 does not end") {
			t.Errorf("%s meanwhile: %v", name, err)
		}
	}
	if after := asked(t, l, "Go on", ""); after != before {
		t.Errorf("meanwhile %+v, before %+v", after, before)
	}
	release()
	if err := <-ended; err != nil || l.Failure() != nil {
		t.Errorf("afterwards: %v, %v", err, l.Failure())
	}
	if err := l.SetModel(t.Context(), "model1.gguf"); err != nil {
		t.Error(err)
	}
}

func TestLoadThatHangsHoldsUpNeitherClientNorClose(t *testing.T) {
	cfg, _ := liveConfig(t)
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel, release := hanging(t, l, "model1.gguf")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	l.wait = 0
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "model1.gguf is still being loaded") {
		t.Errorf("closed: %v", err)
	}
	release()
	l.wait = time.Hour
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// rewrite writes over the beginning of a file.
func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
