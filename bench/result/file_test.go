package result

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAResultIsReadAsItWasWritten(t *testing.T) {
	f := run(t, "agentd")
	body := must[[]byte](t)(f.Encode())
	got := must[*File](t)(Decode(body))
	if diff := cmp.Diff(f, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !bytes.Contains(body, []byte(`"kv_cells_peak": null`)) {
		t.Errorf("the unknown peak is not null in\n%s", body)
	}
}

func TestAResultIsReadStrictly(t *testing.T) {
	good := string(must[[]byte](t)(run(t, "agentd").Encode()))
	for _, c := range []struct{ name, from, to, want string }{
		{"another version", `"version": 2`, `"version": 1`, "version: got 1, this agentbench reads 2"},
		{"an unknown member", `"version": 2`, `"version": 2, "more": 1`, "more"},
		{"a member twice", `"version": 2`, `"version": 2, "version": 2`, "duplicate"},
		{"other letters", `"version": 2`, `"Version": 2`, "Version"},
		{"no name", `"name": "agentd"`, `"name": ""`, "name or target is missing"},
		{"another hash", hash, "abc", "trace.hash"},
		{"an unknown load", `"closed"`, `"open"`, `load: got "open"`},
		{"a bad objective", `"e2el=2s"`, `"e2el=2"`, "want a time above 0"},
		{"a number in quotes", `"span_s": 2`, `"span_s": "2"`, "want a number or null"},
		{"a negative rate", `"decisions_s": 2`, `"decisions_s": -2`, "decisions_s is -2"},
		{"more decisions than candidates", `"decisions": 4`, `"decisions": 5`, "5 of 4 candidates"},
		{"something behind", "\n}\n", "\n}\n{}", "not a result"},
		{"no time", `"made": "2026-11-21T12:00:00Z"`, `"made": "yesterday"`, "made"},
	} {
		body := strings.Replace(good, c.from, c.to, 1)
		if body == good {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		if _, err := Decode([]byte(body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestThreeFilesHoldARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.json")
	f := run(t, "agentd")
	records := []Record{answered(0), failed(1, "timeout")}
	states := []Sample{{At: 5, Running: 2, Width: 1.5, CellsUsed: -1}}
	if err := Save(path, f, records, states); err != nil {
		t.Fatal(err)
	}
	got := must[*Full](t)(LoadFull(path))
	if diff := cmp.Diff(&Full{f, records, states}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 3 {
		t.Errorf("%v in the directory, %v", names, err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "one.samples.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFull(path); err == nil || !strings.Contains(err.Error(), "needs all three files") {
		t.Errorf("got %v without the samples", err)
	}
}

func TestAResultFileEndsInJSON(t *testing.T) {
	for _, path := range []string{"", ".json", "dir/.json", "a.jsonl", "a"} {
		if _, err := Paths(path); err == nil {
			t.Errorf("%q is taken", path)
		}
	}
	if got := must[[3]string](t)(Paths("d/a.json")); got != [3]string{"d/a.json", "d/a.requests.jsonl", "d/a.samples.jsonl"} {
		t.Errorf("got %v", got)
	}
}

func TestLinesAreReadStrictlyWithTheirNumber(t *testing.T) {
	var b bytes.Buffer
	if err := WriteLines(&b, []Record{answered(0)}); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for _, c := range []struct{ name, text, want string }{
		{"an empty line", good + "\n" + good, "line 2 is empty"},
		{"an unknown member", good + `{"more": 1}`, "line 2"},
		{"no JSON", "x", "line 1"},
		{"a negative agent", strings.Replace(good, `"agent":0`, `"agent":-1`, 1), "line 1: agent"},
		{"done before it was to be sent", strings.Replace(good, `"done_ms":1000`, `"done_ms":-5`, 1), "line 1: intended_ms"},
		{"more failures than candidates", strings.Replace(good, `"candidates":2`, `"candidates":2,"failures":{"x":3}`, 1), `3 failures "x"`},
	} {
		if _, err := ReadLines[Record](strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":2,"made":"2026-11-21T12:00:00Z","run":{"name":"a","target":"agentd"},"trace":{"hash":"` + hash +
		`"},"load":{"kind":"closed","level":1},"slo":"e2el=2s","summary":{"span_s":1.5,"ttft_ms":{"n":1,"p50":null},"failures":{"timeout":1}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		file, err := Decode(body)
		if err != nil {
			return
		}
		again, err := file.Encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatalf("what was written can't be read: %v\n%s", err, again)
		}
		third, err := second.Encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("written differently: %v\n%s\n%s", err, again, third)
		}
	})
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte(`{"agent":0,"intended_ms":1,"done_ms":2,"itl_ms":[1],"failures":{"truncated":1},"candidates":1}`))
	f.Add([]byte("{}\n{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		records, err := ReadLines[Record](bytes.NewReader(body))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteLines(&b, records); err != nil {
			t.Fatal(err)
		}
		again, err := ReadLines[Record](&b)
		if err != nil || len(again) != len(records) {
			t.Fatalf("%d records, then %d, %v", len(records), len(again), err)
		}
		Summarize(Input{Records: records})
	})
}
