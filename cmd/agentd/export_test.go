package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"agentd/protocol"
)

// cupTools and cup are the README's request.
const cupTools = `[{"name": "go_to", "description": "Drive to a room.", "parameters": {"room": {"type": "string"}}}, {"name": "pick_up", "description": "Pick up an object.", "parameters": {"object": {"type": "string"}}}]`

func cup(memory string) input {
	in := user(1, "rover, bring the red cup from the table in the kitchen to the shelf in the hall.").tools(cupTools)
	in.Attributes = json.RawMessage(`{"known_robots": ["rover", "scout"]}`)
	if memory != "" {
		in = in.memory(memory)
	}
	return in
}

// exchanged asks and is a line of a file of exchanges.
func (r *running) exchanged(id string, inputs ...input) (line string, outs []protocol.AgentOutput) {
	r.t.Helper()
	outs = r.ask(id, inputs...)
	return fmt.Sprintf("{\"request\": %s, \"response\": %s}\n", strings.TrimSpace(body(r.t, id, inputs...)), protocol.AgentOutputs(outs).AppendJSON(nil)), outs
}

// exported runs the command and returns the lines that it prints.
func exported(t *testing.T, args ...string) (lines []string, summary string) {
	t.Helper()
	var out, log bytes.Buffer
	if err := run(t.Context(), append([]string{"export"}, args...), &out, &log); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 {
		return nil, log.String()
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), log.String()
}

// TestExportMakesRowsOfWhatTheServerAnswered, and a pair of a correction.
func TestExportMakesRowsOfWhatTheServerAnswered(t *testing.T) {
	r := serveModel(t)
	asked, _ := r.exchanged("a", cup("").greedy())
	corrected, outs := r.exchanged("b", cup("").extra(`{"coaching": {"kind": "replace_say", "text": "Which shelf?"}}`))
	onward, _ := r.exchanged("c", cup(string(outs[0].Memory)).greedy().outputs(2))
	path := filepath.Join(t.TempDir(), "exchanges.jsonl")
	writeFile(t, path, asked+corrected+onward)

	chat, summary := exported(t, path)
	if len(chat) != 4 || !strings.Contains(summary, "4 rows of 4 candidates of 3 inputs") {
		t.Fatalf("%d rows, %s", len(chat), summary)
	}
	var row struct {
		Messages []struct {
			Role      string
			Content   string
			ToolCalls []struct {
				Function struct {
					Name      string
					Arguments map[string]string
				}
			} `json:"tool_calls"`
		}
		Tools []json.RawMessage
	}
	if err := json.Unmarshal([]byte(chat[0]), &row); err != nil {
		t.Fatal(err)
	}
	last := row.Messages[len(row.Messages)-1]
	if row.Messages[0].Role != "system" || last.Role != "assistant" || len(row.Tools) != 2 || len(last.ToolCalls) != 1 ||
		last.ToolCalls[0].Function.Arguments["room"] != "kitchen" || last.ToolCalls[0].Function.Arguments["target_robot"] != "rover" {
		t.Errorf("%s", chat[0])
	}
	if coached, _ := exported(t, "--origin", "coaching", path); len(coached) != 1 || !strings.Contains(coached[0], "Which shelf?") {
		t.Errorf("%q", coached)
	}
	pairs, summary := exported(t, "--kind", "pairs", path)
	if !strings.Contains(summary, "2 inputs gave no pairs: they have no correction, and no decisions whose") {
		t.Errorf("the summary has no reason: %s", summary)
	}
	if len(pairs) != 1 || !strings.Contains(pairs[0], `"chosen":[{"role":"assistant","content":"Which shelf?"}]`) || !strings.Contains(pairs[0], `"reason":"correction"`) {
		t.Errorf("%q", pairs)
	}

	out := filepath.Join(t.TempDir(), "chat.PARQUET")
	exported(t, "--out", out, path)
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := parquet.OpenFile(f, info.Size())
	if err != nil || table.NumRows() != 4 {
		t.Errorf("%v, %v", table, err)
	}
}

// returned is what extra_keys.return adds to a step, as the response has it and as a rollout has it.
type returned struct {
	PromptTokenIDs []int64    `json:"prompt_token_ids"`
	TokenIDs       []int64    `json:"token_ids"`
	Logprobs       []*float64 `json:"logprobs"`
	Masked         []*float64 `json:"masked"`
	Forced         []int64    `json:"forced"`
	Drafted        []int64    `json:"drafted"`
	FinishReason   string     `json:"finish_reason"`
	ModelVersion   string     `json:"model_version"`
}

func TestRolloutsHaveTheNumbersOfTheResponse(t *testing.T) {
	r := serveModel(t)
	line, outs := r.exchanged("sampled tokens", cup("").outputs(3).extra(`{"return": ["token_ids", "logprobs"]}`))
	path := filepath.Join(t.TempDir(), "exchanges.jsonl")
	writeFile(t, path, line)
	rows, summary := exported(t, "--kind", "rollouts", path)
	if len(rows) != len(outs) {
		t.Fatalf("%d rows, %s", len(rows), summary)
	}
	for i, o := range outs {
		var step struct {
			OutputRaw string `json:"output_raw"`
			Elements  struct {
				Generation returned `json:"generation"`
			} `json:"input_elements"`
		}
		var row struct {
			returned
			Text  string `json:"text"`
			Index int    `json:"candidate_index"`
		}
		if err := errors.Join(json.Unmarshal(o.InternalSteps[0], &step), json.Unmarshal([]byte(rows[i]), &row)); err != nil {
			t.Fatal(err)
		}
		want := step.Elements.Generation
		if diff := cmp.Diff(want, row.returned); diff != "" || row.Text != step.OutputRaw || row.Index != o.CandidateIndex {
			t.Errorf("row %d of candidate %d differs: %s", row.Index, o.CandidateIndex, diff)
		}
		n := len(want.TokenIDs)
		if len(want.Forced) == 0 || n <= len(want.Forced) || len(want.Logprobs) != n || len(want.Masked) != n || want.ModelVersion == "" {
			t.Errorf("%d tokens, %d forced, %d logprobs, version %q", n, len(want.Forced), len(want.Logprobs), want.ModelVersion)
		}
		for k, x := range want.Logprobs {
			if known := !slices.Contains(want.Forced, int64(k)); (x != nil) != known || want.Masked[k] == nil {
				t.Errorf("token %d of %v: logprob %v, masked %v", k, want.Forced, x, want.Masked[k])
			}
		}
	}
}

// TestExportReadsStandardInput, whose rows equal the file's.
func TestExportReadsStandardInput(t *testing.T) {
	path := filepath.Join("testdata", "magma", "gen-2.0.0.jsonl")
	_, want := exported(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-", "/dev/stdin"} {
		command := exec.CommandContext(t.Context(), os.Args[0], "export", name)
		command.Env = append(os.Environ(), programVariable+"=1")
		command.Stdin = bytes.NewReader(text) // a pipe
		var log strings.Builder
		command.Stderr = &log
		if err := command.Run(); err != nil || log.String() != want || !strings.Contains(want, "of 8 inputs") {
			t.Errorf("%s: %v, got %s, want %s", name, err, log.String(), want)
		}
	}
}

// TestExportSaysWhatThereWasWhenNothingMatches, and leaves no file.
func TestExportSaysWhatThereWasWhenNothingMatches(t *testing.T) {
	const turn = `{"request": {"request_id": "r", "inputs": [{"id": 0, "instruction": {"type": "user", "content": "Go."}, "num_outputs": 3}]}, "response": [%s], "outcomes": [{"reward": 1}, {"outcome": "failure"}, null]}` + "\n"
	var list []string
	for i := range 3 {
		list = append(list, fmt.Sprintf(`{"request_id": "r", "source_id": 0, "candidate_index": %d, "status": "completed", "memory": {}, "output": {"say": "Yes."},
			"internal_steps": [{"id": "step-0", "component": "commander", "origin": "model", "full_prompt": "", "output_raw": "", "input_elements": {"messages": [{"role": "user", "content": "Go."}]}}]}`, i))
	}
	folder := t.TempDir()
	path, out := filepath.Join(folder, "a.jsonl"), filepath.Join(folder, "rows.parquet")
	writeFile(t, path, strings.ReplaceAll(fmt.Sprintf(turn, strings.Join(list, ",")), "\n\t\t\t", ""))
	for args, want := range map[string]string{
		"--outcome success":                   "--outcome success; there were 1 failure, 1 unknown, 1 unknown (with a reward)",
		"--outcome failure --origin coaching": "--outcome failure; there were 1 failure, 1 unknown, 1 unknown (with a reward). --origin coaching; there were 1 model",
		"--kind pairs --outcome success":      "--outcome success; there were 1 unknown (with a reward)",
		"--kind rollouts --status error":      "--status error; there were 3 completed",
	} {
		err := run(t.Context(), append([]string{"export", "--out", out}, append(strings.Fields(args), path)...), io.Discard, io.Discard)
		if err == nil || err.Error() != "export: nothing matches the filters: "+want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	err := run(t.Context(), []string{"export", "--out", out, "--kind", "rollouts", "--outcome", "failure", path}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--out: no input gave a row") {
		t.Errorf("a file without rows: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("files were left behind: %v, %v", left, err)
	}
	// A candidate that matches and can't be a row is not an error without --out.
	if rows, summary := exported(t, "--kind", "rollouts", "--outcome", "failure", path); len(rows) != 0 || !strings.Contains(summary, "1 skipped") {
		t.Errorf("%q, %s", rows, summary)
	}
}

func TestExportToAFullDiskNamesNoInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	writeFile(t, path, `{"request": {"request_id": "r", "inputs": [{"id": 0, "instruction": {"type": "user", "content": "Go."}}]}, "response": [
		{"request_id": "r", "source_id": 0, "candidate_index": 0, "status": "completed", "memory": {}, "output": {"say": "`+strings.Repeat("x", 1<<16)+`"},
			"internal_steps": [{"id": "step-0", "component": "commander", "origin": "model", "full_prompt": "", "output_raw": "", "input_elements": {"messages": [{"role": "user", "content": "Go."}]}}]}]}`)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	err = run(t.Context(), []string{"export", path}, full, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "/dev/full: no space left") || strings.Contains(err.Error(), "a.jsonl") {
		t.Errorf("got %v", err)
	}
}

func TestExportWithoutUsableInputIsAnError(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there.jsonl")
	writeFile(t, there, "{}\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":        {nil, "nothing to export; name files or folders"},
		"missing":        {[]string{filepath.Join(folder, "none")}, "no such file"},
		"no exchange":    {[]string{there}, "there.jsonl line 1: an exchange has the members"},
		"existing file":  {[]string{"--out", there, there}, "--out: "},
		"unknown kind":   {[]string{"--kind", "dpo", there}, "--kind: "},
		"unknown origin": {[]string{"--origin", "modell", there}, `--origin: got "modell"`},
		"no console":     {[]string{"--console", folder}, "--console: "},
		"a device":       {[]string{os.DevNull}, "/dev/null is neither a file, a folder nor a pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), append([]string{"export"}, c.args...), io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "export: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("files were left behind: %v, %v", left, err)
	}
}
