package rows

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/protocol"
)

// savedGraph is a graph that magma-gen saved of a run with agentd.
var savedGraph = filepath.Join("..", "..", "..", "..", "clients", "agentd-magma", "tests", "graph")

func TestGraphOfMagmaGenGivesRows(t *testing.T) {
	rows, _ := rowsOf[chatRow](t, Config{Kind: Chat, Outcomes: []string{Success}}, savedGraph)
	var got []string
	for _, row := range rows {
		if row.RunID == "" || row.Origin != protocol.OriginCoaching {
			t.Errorf("%+v", row.About)
		}
		got = append(got, row.Source+" "+string(row.Messages[len(row.Messages)-1].ToolCalls[0].Function.Arguments))
	}
	press := `{"id":"sw0","target_robot":"panda"}`
	if diff := cmp.Diff([]string{"graph/2.json " + press, "graph/4.json " + press}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCorrectionInAGraphBeatsTheAnswerToItsInput(t *testing.T) {
	rows, _ := rowsOf[pairRow](t, Config{Kind: Pairs}, savedGraph)
	press := `correction: {"id":"sw0","target_robot":"panda"} > I can't: I have no tool to pick things up.`
	want := []string{press + " Done: panda is in the", press}
	if diff := cmp.Diff(want, texts(rows)); diff != "" {
		t.Error(diff)
	}
}

func TestFolderIsSearchedForGraphsAndExchanges(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "b", "run"), os.DirFS(savedGraph)); err != nil {
		t.Fatal(err)
	}
	text := line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model"})
	for _, name := range []string{"a.jsonl", filepath.Join("b", "c.jsonl"), filepath.Join("b", "notes.txt")} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, s := rowsOf[chatRow](t, Config{Kind: Chat}, folder)
	if s.Situations != 5+2 {
		t.Errorf("%s", s)
	}
	if _, err := Open([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "neither .jsonl files nor a graph") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestReplyBesideCallsInAGraphIsDropped(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(folder, os.DirFS(savedGraph)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "0.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"say": ""`, `"say": "On my way."`, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil || changed == string(text) {
		t.Fatal(err, "or nothing was changed")
	}
	rows, _ := rowsOf[chatRow](t, Config{Kind: Chat}, folder)
	m := rows[0].Messages[len(rows[0].Messages)-1]
	if m.Content != "" || len(m.ToolCalls) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestGraphOfAnotherMajorVersionIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"generator_version": "3.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, Config{Kind: Chat}, os.Stderr, folder); err == nil || !strings.Contains(err.Error(), "magma-gen 3.0.0") {
		t.Errorf("%v", err)
	}
}

// TestRecordedRequestsAreExchanges: the form of a recording proxy.
func TestRecordedRequestsAreExchanges(t *testing.T) {
	_, s := rowsOf[chatRow](t, Config{Kind: Chat}, filepath.Join("..", "..", "testdata", "magma"))
	if s.Situations < 5 || s.Skipped["the candidate has no internal steps"] != s.Candidates {
		t.Errorf("%s", s) // internal steps are cut out of these recordings
	}
}

// corrected exports rows of a kind: of tasks of a console, beside what is at paths. Each task is the
// points of a request and its proposals.
func corrected[T any](t *testing.T, kind string, tasks [][2]string, paths ...string) ([]T, *Summary) {
	t.Helper()
	sources, err := Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	outs, err := protocol.DecodeAgentOutputs([]byte("[" + candidate{output: call("attic"), origin: "model", generation: `"reasoning": "Up.", ` + tokens}.json("r", 0) + "]"))
	if err != nil {
		t.Fatal(err)
	}
	sources.AddSituations(func(f func(*Situation) error) error {
		for i, task := range tasks {
			req, err := protocol.DecodeSpecializedCoachingRequest([]byte(`{"run_id": "run", "request_id": "c", "kind": "failure", "stage": "goal", "target_step_id": 1,
				"trajectory": [{"id": 1, "input": ` + inputOf("Go.") + `, "output": ` + call("attic") + `, "internal_steps": [` + string(outs[0].InternalSteps[0]) + `]},
					{"id": 2, "input": ` + inputOf("It is dark.") + `, "output": {"say": "Help!"}, "internal_steps": [` + string(outs[0].InternalSteps[0]) + `]},
					{"id": 3, "input": ` + inputOf("Stop.") + `, "output": ` + call("attic") + `}],
				"reinjection_points": [` + task[0] + `]}`))
			if err != nil {
				return err
			}
			var proposals []protocol.CoachingProposal
			for point := range strings.FieldsSeq(task[1]) {
				proposals = append(proposals, protocol.CoachingProposal{ReinjectionPointID: point, ExtraKeys: protocol.Raw(`{"kind": "replace_decision", "decision": ` + call("hall") + `}`)})
			}
			list, err := Corrections(fmt.Sprint("console:", i), req, proposals)
			if err != nil {
				return err
			}
			for _, x := range list {
				x.Person = "Ann"
				if err := f(x); err != nil {
					return err
				}
			}
		}
		return nil
	})
	var out strings.Builder
	s, err := Run(t.Context(), sources, Config{Kind: kind, Format: JSONL}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	for text := range strings.Lines(out.String()) {
		var row T
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows, s
}

func inputOf(text string) string {
	return `{"id": 7, "instruction": {"type": "user", "content": "` + text + `"}, "tools": ` + inputTools + `}`
}

func TestCorrectionsOfPeopleGivePairsOrAreCounted(t *testing.T) {
	here, dark := `{"id": "replacement", "input_step_id": 1}`, `, {"id": "recovery", "input": `+inputOf("It is dark.")+`}`
	const overAttic, overHelp = "correction: " + toHall + " > " + toAttic, "correction: " + toHall + " > Help!"
	for name, c := range map[string]struct {
		tasks [][2]string
		want  []string
		lost  map[string]int
	}{
		"at a step":                    {[][2]string{{here, "replacement"}}, []string{overAttic}, nil},
		"at an input of its own":       {[][2]string{{here + dark, "recovery"}}, []string{overHelp}, nil},
		"both":                         {[][2]string{{here + dark, "replacement recovery"}}, []string{overAttic, overHelp}, nil},
		"at an input nobody answered":  {[][2]string{{here + strings.Replace(dark, "dark", "light", 1), "recovery"}}, nil, map[string]int{noAnswer: 1}},
		"without internal_steps":       {[][2]string{{`{"id": "bare", "input_step_id": 3}`, "bare"}}, nil, map[string]int{noSteps: 1}},
		"the same twice in a task":     {[][2]string{{here + `, {"id": "again", "input": ` + inputOf("Go.") + `}`, "replacement again"}}, []string{overAttic}, map[string]int{samePair: 1}},
		"the same in two tasks counts": {[][2]string{{here, "replacement"}, {here, "replacement"}}, []string{overAttic, overAttic}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rows, s := corrected[pairRow](t, Pairs, c.tasks)
			if diff := cmp.Diff(c.want, texts(rows)) + cmp.Diff(c.lost, s.Unpaired, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			for _, row := range rows {
				if row.Origin != protocol.OriginCoaching || row.Person != "Ann" || row.RunID != "run" || row.Chosen[0].Reasoning != "" || len(row.Prompt) != 2 {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}

func TestCorrectionsOfPeopleGiveChatRowsAndNoRollouts(t *testing.T) {
	tasks := [][2]string{{`{"id": "replacement", "input_step_id": 1}, {"id": "recovery", "input": ` + inputOf("It is dark.") + `}`, "replacement recovery"}}
	rows, s := corrected[chatRow](t, Chat, tasks)
	if len(rows) != 2 {
		t.Fatalf("%s", s)
	}
	for _, row := range rows {
		last := row.Messages[len(row.Messages)-1]
		if row.Origin != protocol.OriginCoaching || string(last.ToolCalls[0].Function.Arguments) != toHall || last.Reasoning != "" || len(row.Messages) != 3 {
			t.Errorf("%+v", row)
		}
	}
	// The tokens of the step belong to the wrong answer.
	if rows, s := corrected[rolloutRow](t, Rollouts, tasks); len(rows) > 0 {
		t.Errorf("%s: %+v", s, rows)
	}
}

func TestCorrectionAtTheConsoleIsNotRepeated(t *testing.T) {
	memory := line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`})
	saved := write(t, "a.jsonl", line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"})+memory+line("r3", `{"history": [1]}`, "{}", "", candidate{output: call("hall"), origin: "model"}))
	rows, s := corrected[pairRow](t, Pairs, [][2]string{{`{"id": "replacement", "input_step_id": 1}`, "replacement"}}, saved)
	if len(rows) != 1 || rows[0].Source != "a.jsonl:2" || s.Corrections != 2 || s.Unpaired[samePair] != 1 {
		t.Errorf("%q, %s", texts(rows), s)
	}
}

func TestAnswerToATaskMayBeInAnotherSource(t *testing.T) {
	saved := write(t, "a.jsonl", line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"}))
	rows, s := corrected[pairRow](t, Pairs, [][2]string{{`{"id": "here", "input_step_id": 2}, {"id": "recovery", "input": ` + inputOf("Go.") + `}`, "recovery"}}, saved)
	if len(rows) != 1 {
		t.Errorf("%q, %s", texts(rows), s)
	}
}

func TestPipesGiveTheSameRowsAsFiles(t *testing.T) {
	text := line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"}) +
		line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`}) +
		line("r3", `{"history": [1]}`, "{}", "", candidate{output: call("hall"), origin: "model"})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(w, text) // the rows show whether it was written
		_ = w.Close()
	}()
	rows, _ := rowsOf[pairRow](t, Config{Kind: Pairs}, fmt.Sprintf("/proc/self/fd/%d", r.Fd()))
	if diff := cmp.Diff([]string{"correction: " + toHall + " > " + toAttic}, texts(rows)); diff != "" {
		t.Error(diff)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrorOfAPipeNamesThePipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() { wrote <- os.WriteFile(fifo, []byte("hello\n"), 0o600) }()
	_, err := run(t, Config{Kind: Chat}, io.Discard, fifo)
	if err == nil || !strings.HasPrefix(err.Error(), fifo+" line 1: ") {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestDeviceIsNoSource(t *testing.T) {
	if _, err := Open([]string{os.DevNull}); err == nil || !strings.Contains(err.Error(), "/dev/null is neither a file, a folder nor a pipe") {
		t.Error(err)
	}
}

// TestRecordedCoachingsArePairsOrCounted: the requests that magma-gen sent, with steps as agents write
// them. Each correction at a recovery has a step with the same input before it, or is counted.
func TestRecordedCoachingsArePairsOrCounted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "magma", "gen-2.0.0.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*Situation
	recoveries := 0
	for recorded := range strings.Lines(string(text)) {
		var x struct {
			Path   string       `json:"path"`
			Body   protocol.Raw `json:"body"`
			Answer struct {
				Status    string `json:"status"`
				Proposals []struct {
					Point string       `json:"reinjection_point_id"`
					Extra protocol.Raw `json:"extra_keys"`
				} `json:"proposals"`
			} `json:"answer"`
		}
		if json.Unmarshal([]byte(recorded), &x) != nil || x.Path != "/v1/coaching" || x.Answer.Status != "corrected" {
			continue
		}
		req, err := protocol.DecodeSpecializedCoachingRequest(x.Body)
		if err != nil {
			t.Fatal(err)
		}
		for i := range req.Trajectory { // the recording holds no prompts
			for j, step := range req.Trajectory[i].InternalSteps {
				elements, _ := protocol.Get(step, "input_elements")
				elements = protocol.SetMember(elements, "messages", protocol.Raw(`[{"role": "user", "content": "Go."}]`))
				elements = protocol.SetMember(elements, "tools", protocol.Raw(`[]`))
				req.Trajectory[i].InternalSteps[j] = protocol.SetMember(step, "input_elements", elements)
			}
		}
		var proposals []protocol.CoachingProposal
		for _, p := range x.Answer.Proposals {
			proposals = append(proposals, protocol.CoachingProposal{ReinjectionPointID: p.Point, ExtraKeys: p.Extra})
			if p.Point == "recovery" {
				recoveries++
			}
		}
		made, err := Corrections("console:"+req.RequestID, req, proposals)
		if err != nil || len(made) != len(proposals) {
			t.Fatal(len(made), err)
		}
		list = append(list, made...)
	}
	sources := newSources()
	sources.AddSituations(func(f func(*Situation) error) error {
		for _, x := range list {
			if err := f(x); err != nil {
				return err
			}
		}
		return nil
	})
	s, err := Run(t.Context(), sources, Config{Kind: Pairs, Format: JSONL}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if recoveries == 0 || s.Corrections != len(list) || len(s.Unpaired) > 0 {
		t.Errorf("%d corrections, %d at recoveries: %s", len(list), recoveries, s)
	}
	t.Logf("%d corrections, %d at recoveries: %s", len(list), recoveries, s)
}
