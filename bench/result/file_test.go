package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func saved(t *testing.T, r *Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "one.json")
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadReturnsWhatSaveWrote(t *testing.T) {
	r := run("agentd")
	path := saved(t, r)
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	body, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(body), `"kv_cells_peak": 0`) || !strings.Contains(string(body), `"p99": 1000`) {
		t.Errorf("%v\n%s", err, body)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("%v in the directory, %v", names, err)
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	path := saved(t, run("agentd"))
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"another version":     {`"version": 4`, `"version": 3`, "version 3 instead of 4"},
		"an unknown member":   {`"version": 4`, `"version": 4, "more": 1`, "more"},
		"no name":             {`"name": "agentd"`, `"name": ""`, "name or trace is missing"},
		"a number in quotes":  {`"span_s": 2`, `"span_s": "2"`, "want a number or null"},
		"something behind it": {"\n}\n", "\n}\n{}", "is not a result"},
	} {
		changed := strings.Replace(string(body), c.from, c.to, 1)
		if changed == string(body) {
			t.Fatalf("%s: nothing to replace in %s", name, body)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestArmsGroupRepeatsByNameAndLoad(t *testing.T) {
	a1, a2, heavy, b := run("a"), run("a"), run("a"), run("b")
	heavy.Load.Agents = 9
	a1.Summary.DecisionRate, a2.Summary.DecisionRate = Known(1), Known(3)
	arms := Arms([]*Run{heavy, a1, b, a2})
	if len(arms) != 3 || arms[0].Name != "a" || len(arms[0].Runs) != 2 || arms[1].Load.Agents != 9 || arms[2].Name != "b" {
		t.Fatalf("%+v", arms)
	}
	if got := arms[0].Median(MetricNamed(DecisionRate)); got != Known(2) {
		t.Errorf("median %v", got)
	}
}

func TestDifferencesNameWhatMakesAComparisonUnfair(t *testing.T) {
	if list := Differences([]*Run{run("a"), run("b")}); len(list) > 0 {
		t.Errorf("equal runs differ: %q", list)
	}
	for want, change := range map[string]func(*Run){
		"a run of b was interrupted: signal":           func(r *Run) { r.Interrupted = "signal" },
		"trace: a has ":                                func(r *Run) { r.Trace.Hash = "x" },
		`model: a has "", b has "x"`:                   func(r *Run) { r.Model = "x" },
		`host: a has "2 × CPU", b has "2 × CPU, H100"`: func(r *Run) { r.Host.Note = "H100" },
		`--greedy: a has "", b has "true"`:             func(r *Run) { r.Options["greedy"] = "true" },
	} {
		b := run("b")
		change(b)
		if list := Differences([]*Run{run("a"), b}); len(list) != 1 || !strings.HasPrefix(list[0], want) {
			t.Errorf("got %q, want %q", list, want)
		}
	}
}
