package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/cmd/agentd/serve"
	"agentd/cmd/household/eval"
	"agentd/household"
	"agentd/household/dataset/playbacktest"
	"agentd/household/evaluate"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tiny(t *testing.T) string {
	t.Helper()
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// evalToken is the bearer token of the tests' server.
const evalToken = "0123456789abcdef"

// plannerModel decides as the planner does in the episodes of a measurement.
func plannerModel(t *testing.T, o evaluate.Options) *playbacktest.Playback {
	t.Helper()
	m, err := playbacktest.New()
	if err != nil {
		t.Fatal(err)
	}
	var episodes []*household.Episode
	for _, names := range []string{evaluate.Known, evaluate.Unseen} {
		o.ToolNames = names
		for i := range o.Episodes {
			episodes = append(episodes, o.Episode(i))
		}
	}
	for _, e := range episodes {
		if err := m.Teach(t.Context(), e, playbacktest.PlannerAnswer); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// serveInference is the URL of an agent server with another inference than a model.
func serveInference(t *testing.T, d server.Inference, tokens ...string) string {
	t.Helper()
	info := serve.DefaultConfig().Server.Info
	info.Capabilities[protocol.CapabilityCoaching], info.CoachingUnavailableReason = false, "a test"
	s, err := server.New(server.Options{Info: info, Log: zerolog.Nop(), Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	if d != nil {
		s.Ready(d)
	}
	return h.URL
}

// interrupting is an inference that ends its client's work at one of the requests.
type interrupting struct {
	server.Inference
	at     int64
	count  atomic.Int64
	cancel context.CancelFunc
}

func (d *interrupting) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	if d.count.Add(1) == d.at {
		d.cancel()
		<-ctx.Done()
	}
	return d.Inference.Decide(ctx, req)
}

// evaluated is the output of household eval --json.
func evaluated(ctx context.Context, t *testing.T, args ...string) (report struct {
	Model       string
	Interrupted bool
	Missed      []string
	Runs        []struct {
		ToolNames           string `json:"tool_names"`
		Constraints         string
		Episodes            int
		Valid, Right, Tasks evaluate.Share
	}
}, err error) {
	t.Helper()
	var out strings.Builder
	err = run(ctx, append([]string{"eval", "--json"}, args...), &out, io.Discard)
	if bad := json.Unmarshal([]byte(out.String()), &report); bad != nil {
		t.Fatalf("%v (%v) in %s", bad, err, out.String())
	}
	return report, err
}

func TestEvalMeasuresARunningServer(t *testing.T) {
	o := evaluate.Options{Episodes: 3, Seed: 9}
	url := serveInference(t, plannerModel(t, o), evalToken)
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, evalToken)
	args := []string{"--url", url, "--token-file", file, "--episodes", "3", "--seed", "9"}

	report, err := evaluated(t.Context(), t, append(args, "--check")...)
	if err != nil || report.Interrupted || len(report.Missed) > 0 || len(report.Runs) != 2 {
		t.Fatalf("got %+v, %v", report, err)
	}
	for i, names := range []string{evaluate.Known, evaluate.Unseen} {
		r := report.Runs[i]
		if r.ToolNames != names || r.Constraints != "" || r.Episodes != 3 || r.Right.Of == 0 || r.Right.Count != r.Right.Of || r.Tasks.Count != r.Tasks.Of {
			t.Errorf("%s: got %+v", names, r)
		}
	}

	// Other episodes: the planner's answers to these are not known.
	report, err = evaluated(t.Context(), t, append(args, "--seed", "10", "--tool-names", "unseen", "--check")...)
	if err == nil || !strings.Contains(err.Error(), "--check: missed goals: 2") || len(report.Runs) != 1 || report.Runs[0].Right.Count == report.Runs[0].Right.Of {
		t.Errorf("got %+v, %v", report, err)
	}

	var table strings.Builder
	if err := run(t.Context(), append([]string{"eval"}, args...), &table, io.Discard); err != nil || !strings.Contains(table.String(), "All goals are reached.") {
		t.Errorf("got %s, %v", table.String(), err)
	}
}

// TestEvalMeasuresBothConstraintSettings with the options of the model.
func TestEvalMeasuresBothConstraintSettings(t *testing.T) {
	// One client: how many prompts are computed together may change decisions that
	// are as good as each other.
	args := []string{"--clients", "1", "--model", tiny(t), "--threads", "1", "--max-new-tokens", "8", "--episodes", "1", "--tool-names", "known", "--log-level", "error"}
	report, err := evaluated(t.Context(), t, args...)
	if err != nil || len(report.Runs) != 2 || !strings.Contains(report.Model, ".gguf") {
		t.Fatalf("got %+v, %v", report, err)
	}
	on, off := report.Runs[0], report.Runs[1]
	if on.Constraints != "on" || off.Constraints != "off" || on.Episodes != 1 || off.Episodes != 1 || on.Tasks.Of == 0 || off.Tasks.Of != 0 || on.Right.Of != off.Right.Of {
		t.Errorf("got %+v and %+v", on, off)
	}
	again, err := evaluated(t.Context(), t, append(args, "--constrain", "on")...)
	if err != nil || len(again.Runs) != 1 || again.Runs[0] != on {
		t.Errorf("the same measurement gave %+v, %v, and before %+v", again.Runs, err, on)
	}
}

// TestInterruptedEvalPrintsPartialReport and says so; --check fails.
func TestInterruptedEvalPrintsPartialReport(t *testing.T) {
	o := evaluate.Options{Episodes: 10, Seed: 1}
	m := plannerModel(t, o)
	for _, check := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		url := serveInference(t, &interrupting{Inference: m, at: 20, cancel: cancel})
		report, err := evaluated(ctx, t, "--url", url, "--episodes", "10", "--clients", "1", fmt.Sprintf("--check=%t", check))
		if check != (err != nil && strings.Contains(err.Error(), "interrupted")) {
			t.Errorf("--check=%t ends with %v", check, err)
		}
		if !report.Interrupted || len(report.Runs) != 1 || report.Runs[0].Right != (evaluate.Share{Count: 19, Of: 19}) || report.Runs[0].Episodes == 0 {
			t.Errorf("got %+v", report)
		}
	}
}

// breaking is an inference that breaks at one of the requests.
type breaking struct {
	server.Inference
	at    int64
	count atomic.Int64
}

func (d *breaking) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	if d.count.Add(1) >= d.at {
		return nil, errors.New("out of order")
	}
	return d.Inference.Decide(ctx, req)
}

// TestEvalWithBrokenServerPrintsPartialReport, as interrupted, and is an error.
// Where nothing was measured, the error is all.
func TestEvalWithBrokenServerPrintsPartialReport(t *testing.T) {
	m := plannerModel(t, evaluate.Options{Episodes: 10, Seed: 1})
	args := []string{"--episodes", "10", "--clients", "1", "--url"}
	report, err := evaluated(t.Context(), t, append(args, serveInference(t, &breaking{Inference: m, at: 20}))...)
	if err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("ends with %v", err)
	}
	if !report.Interrupted || len(report.Runs) != 1 || report.Runs[0].Right != (evaluate.Share{Count: 19, Of: 19}) {
		t.Errorf("got %+v", report)
	}

	var out strings.Builder
	err = run(t.Context(), append([]string{"eval"}, append(args, serveInference(t, &breaking{Inference: m}))...), &out, io.Discard)
	if err == nil || out.String() != "" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// TestEvalInterruptedWhileLoadingPrintsNotice, with nothing to show.
func TestEvalInterruptedWhileLoadingPrintsNotice(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, []string{"eval"}, &out, io.Discard); err != nil || out.String() != "INTERRUPTED before anything was measured\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestEvalErrorsNameFix(t *testing.T) {
	url, notReady := serveInference(t, plannerModel(t, evaluate.Options{}), evalToken), serveInference(t, nil)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	dir := t.TempDir()
	short, other := filepath.Join(dir, "short"), filepath.Join(dir, "other")
	writeFile(t, short, "x")
	writeFile(t, other, evalToken+evalToken)

	for name, test := range map[string]struct {
		args  []string
		wants []string
	}{
		"eval, unknown option":       {[]string{"eval", "--episode", "3"}, []string{"eval: ", "--episode", "did you mean --episodes"}},
		"eval, an argument":          {[]string{"eval", "3"}, []string{`"3"`, "household eval --help"}},
		"eval, bad number":           {[]string{"eval", "--episodes", "0"}, []string{"--episodes", "from 1 to"}},
		"eval, bad word":             {[]string{"eval", "--tool-names", "new"}, []string{"--tool-names", "known, unseen, both"}},
		"eval, no model file":        {[]string{"eval", "--model", "nowhere.gguf"}, []string{"--model", "does not exist"}},
		"eval, model of a server":    {[]string{"eval", "--url", url, "--threads", "2"}, []string{"--threads", "--url"}},
		"eval, token for nobody":     {[]string{"eval", "--token-file", other}, []string{"--token-file", "--url"}},
		"eval, an option of serving": {[]string{"eval", "--port", "1"}, []string{"--port", "unknown"}},
		"eval, URL without scheme":   {[]string{"eval", "--url", "localhost:8888"}, []string{"--url", "http"}},
		"eval, nobody there":         {[]string{"eval", "--url", gone.URL}, []string{"no agent server answers", "start one with agentd"}},
		"eval, not ready":            {[]string{"eval", "--url", notReady}, []string{"is loading", "try again"}},
		"eval, no token":             {[]string{"eval", "--url", url}, []string{"--token-file"}},
		"eval, a wrong token":        {[]string{"eval", "--url", url, "--token-file", other}, []string{"--token-file"}},
		"eval, a bad token file":     {[]string{"eval", "--url", url, "--token-file", short}, []string{"--token-file", "line 1"}},
	} {
		err := run(t.Context(), test.args, io.Discard, io.Discard)
		for _, want := range test.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
}

func TestEvalHelpListsEveryOption(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"eval", "--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, o := range eval.DefaultConfig().Command().Options {
		if !strings.Contains(out.String(), "  --"+o.Name) {
			t.Errorf("--%s is missing", o.Name)
		}
	}
}
