package demo

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/household"
	"agentd/household/dataset/playbacktest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taught is a model that decides as the planner does in these houses.
func taught(t *testing.T, seeds ...uint64) *playbacktest.Playback {
	t.Helper()
	m, err := playbacktest.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range seeds {
		if err := m.Teach(t.Context(), Episode(seed), playbacktest.PlannerAnswer); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// ticking is a clock on which every question takes 20 milliseconds.
func ticking() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(20 * time.Millisecond)
		return now
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// TestPlannerTranscript compares the output for an agent that is always right.
func TestPlannerTranscript(t *testing.T) {
	var out bytes.Buffer
	sum, err := Play(t.Context(), &out, taught(t, 1, 2, 3), Options{Seed: 1, Tasks: 8, Now: ticking()})
	if err != nil || sum.Tasks != 8 || sum.Done != 8 || sum.Asked != time.Duration(sum.Decisions)*20*time.Millisecond {
		t.Errorf("got %+v, %v", sum, err)
	}
	golden(t, "planner", out.String())
}

// TestTranscriptsOfFailures: a wrong reply ends the task only; no decision and too
// many decisions end the conversation, and the next task is in another house.
func TestTranscriptsOfFailures(t *testing.T) {
	m := taught(t, 1, 2, 3)
	teach := func(seed uint64, answer func(e *household.Episode) (string, error)) {
		t.Helper()
		if err := m.Teach(t.Context(), Episode(seed), answer); err != nil {
			t.Fatal(err)
		}
	}
	teach(1, func(e *household.Episode) (string, error) {
		if e.Score().Tasks == 0 {
			return "I'd rather not.\x1b[2J", nil
		}
		return playbacktest.PlannerAnswer(e)
	})
	teach(2, func(e *household.Episode) (string, error) { return "<tool_call>", nil })
	again := ""
	teach(3, func(e *household.Episode) (string, error) {
		text, err := playbacktest.PlannerAnswer(e)
		if again == "" && len(e.Expected().ToolCalls) > 0 {
			again = text
		}
		if again != "" {
			return again, nil
		}
		return text, err
	})

	var out bytes.Buffer
	sum, err := Play(t.Context(), &out, m, Options{Seed: 1, Tasks: 9, Now: ticking()})
	if err != nil || sum.Tasks != 9 || sum.Done == 9 {
		t.Errorf("got %+v, %v", sum, err)
	}
	golden(t, "failures", out.String())
}

// TestColoursOnlyAddEscapes.
func TestColoursOnlyAddEscapes(t *testing.T) {
	var with, without strings.Builder
	m := taught(t, 1, 2)
	for out, colours := range map[*strings.Builder]bool{&with: true, &without: false} {
		if _, err := Play(t.Context(), out, m, Options{Seed: 1, Tasks: 2, Colours: colours, Now: ticking()}); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(with.String(), "\x1b[") {
		t.Error("there is no colour")
	}
	bare := with.String()
	for _, s := range []style{strong, faint, act, good, bad} {
		bare = strings.ReplaceAll(bare, "\x1b["+string(s)+"m", "")
	}
	if diff := cmp.Diff(without.String(), strings.ReplaceAll(bare, "\x1b[0m", "")); diff != "" {
		t.Error(diff)
	}
}

// closed is a writer that takes nothing.
type closed struct{}

var errClosed = errors.New("closed")

func (closed) Write([]byte) (int, error) { return 0, errClosed }

// TestFailedWriteStopsTheDemo: a pipe that was closed ends the demo.
func TestFailedWriteStopsTheDemo(t *testing.T) {
	sum, err := Play(t.Context(), closed{}, taught(t, 1), Options{Seed: 1, Tasks: 100})
	if !errors.Is(err, errClosed) || sum.Tasks > 1 {
		t.Errorf("%v after %d tasks", err, sum.Tasks)
	}
}
