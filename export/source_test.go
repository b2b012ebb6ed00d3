package export

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// savedGraph is a graph that magma-gen saved of a run with agentd.
var savedGraph = filepath.Join("..", "clients", "agentd-magma", "tests", "graph")

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
	_, s := rowsOf[chatRow](t, Config{Kind: Chat}, filepath.Join("..", "cmd", "agentd", "testdata", "magma"))
	if s.Situations < 5 || s.Skipped["the candidate has no internal steps"] != s.Candidates {
		t.Errorf("%s", s) // internal steps are cut out of these recordings
	}
}

func TestCorrectionOfAPersonBeatsTheStep(t *testing.T) {
	step := candidate{output: call("attic"), origin: "model"}.json("r", 0)
	outs, err := protocol.DecodeAgentOutputs([]byte("[" + step + "]"))
	if err != nil {
		t.Fatal(err)
	}
	input := `{"id": 7, "instruction": {"type": "user", "content": "Go."}}`
	req, err := protocol.DecodeSpecializedCoachingRequest([]byte(`{"run_id": "run", "request_id": "c", "kind": "failure", "stage": "goal", "target_step_id": 1,
		"trajectory": [{"id": 1, "input": ` + input + `, "output": ` + call("attic") + `, "internal_steps": [` + string(outs[0].InternalSteps[0]) + `]}],
		"reinjection_points": [{"id": "here", "input_step_id": 1}, {"id": "after", "input": ` + input + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	correction := protocol.Raw(`{"kind": "replace_decision", "decision": ` + call("hall") + `}`)
	proposals := []protocol.CoachingProposal{{ReinjectionPointID: "here", ExtraKeys: correction}, {ReinjectionPointID: "after", ExtraKeys: correction}}
	s := newSources()
	s.AddSituations(func(f func(*Situation) error) error {
		list, err := Corrections("console:4", req, proposals)
		for _, x := range list {
			if err := f(x); err != nil {
				return err
			}
		}
		return err
	})
	var out strings.Builder
	if _, err := Run(t.Context(), s, Config{Kind: Pairs, Format: JSONL}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"chosen":[{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"go_to","arguments":{"room":"hall"`,
		`"rejected":[{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"go_to","arguments":{"room":"attic"`, `"source":"console:4"`, `"origin":"coaching"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in %s", want, out.String())
		}
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("more than one pair: %s", out.String())
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
