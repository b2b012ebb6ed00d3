package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// qualityPrograms are the measuring program of bench/quality, and the Python that has its packages. A test is skipped
// where these can't be installed.
func qualityPrograms(t *testing.T) (run, python string) {
	t.Helper()
	run, err := filepath.Abs(filepath.Join(repository, "bench", "quality", "run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	c := exec.CommandContext(t.Context(), run, "python")
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Skipf("bfcl-eval can't be installed: %v: %s", err, stderr.String())
	}
	return run, strings.TrimSpace(string(out))
}

// TestQualityProgramJudges runs the program's own tests.
func TestQualityProgramJudges(t *testing.T) {
	t.Parallel()
	run, python := qualityPrograms(t)
	out, err := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "discover", "-v", "-s", filepath.Dir(run)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "test_right_calls_are_right") || strings.Contains(string(out), "skipped") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Of the first items of simple_python so many are asked in each way, and so many must be right of all. The model's own
// limit is 17 with tool_choice required.
const (
	qualityItems = 10
	qualityRight = 14
)

// TestCallsOfARealSmallModelAreCalls: Qwen2.5-Coder 0.5B, without tool_choice, calls the tools that it is offered.
func TestCallsOfARealSmallModelAreCalls(t *testing.T) {
	run, _ := qualityPrograms(t)
	find := exec.CommandContext(t.Context(), filepath.Join(repository, "third_party", "models.sh"), "0.5b")
	find.Env = append(os.Environ(), "CACHED_ONLY=yes")
	model, err := find.Output()
	if err != nil {
		t.Skip("the cache has no Qwen2.5-Coder 0.5B; third_party/models.sh 0.5b fetches it (0.5 GB)")
	}
	r := serveModel(t, "--model", strings.TrimSpace(string(model)), "--context-length", "32768", "--max-new-tokens", "512")
	t.Run("several robots", func(t *testing.T) { callsOfSeveralRobots(t, r) })
	right := 0
	for i, way := range []string{"chat", "responses"} {
		t.Run(way, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "result.json")
			out, err := exec.CommandContext(t.Context(), run, "--server", r.url, "--way", way, "--categories", "simple_python",
				"--skip", strconv.Itoa(i*qualityItems), "--items", strconv.Itoa(qualityItems), "--show-wrong", "20", "--out", file).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var result struct {
				Categories map[string]struct {
					Answers []struct {
						ID    string
						Right bool
						Calls []map[string]json.RawMessage
					}
				}
			}
			if err := json.Unmarshal(text, &result); err != nil {
				t.Fatal(err)
			}
			answers := result.Categories["simple_python"].Answers
			for _, a := range answers {
				if a.Right {
					right++
				}
				if a.Right && len(a.Calls) != 1 {
					t.Errorf("%s is right with %d calls, want 1", a.ID, len(a.Calls))
				}
			}
			t.Logf("%s", out)
			if len(answers) != qualityItems {
				t.Errorf("%d answers, want %d", len(answers), qualityItems)
			}
		})
	}
	if right < qualityRight {
		t.Errorf("%d right, want at least %d", right, qualityRight)
	}
}

// callsOfSeveralRobots asks for one call where several are possible: with several robots, or none that are known. The model
// begins one object in a fence, and has to write a list.
func callsOfSeveralRobots(t *testing.T, r *running) {
	goTo := `{"name": "go_to", "description": "Drive to a room.", "parameters": {"room": {"type": "string"}}}`
	pickUp := `{"name": "pick_up", "description": "Pick up an object.", "parameters": {"object": {"type": "string"}}}`
	var inputs []input
	for _, robots := range []string{`[]`, `["rover"]`, `["rover", "scout"]`} {
		for _, tools := range []string{goTo, goTo + ", " + pickUp} {
			for _, say := range []string{"rover, go to the kitchen.", "Go to the garage."} {
				in := user(int64(len(inputs)), say).tools("[" + tools + "]").greedy()
				in.Attributes = json.RawMessage(`{"known_robots": ` + robots + `}`)
				inputs = append(inputs, in)
			}
		}
	}
	for i, o := range r.ask("several-robots", inputs...) {
		if o.Output == nil || len(o.Output.ToolCalls) == 0 || o.Output.ToolCalls[0].Name != "go_to" {
			t.Errorf("%s with %s: %s, want go_to", inputs[i].Instruction["content"], inputs[i].Attributes, answerOf(o))
		}
	}
}
