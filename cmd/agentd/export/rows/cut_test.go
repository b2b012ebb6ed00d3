package rows

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCutLinesAreSkippedAndCounted(t *testing.T) {
	good := func(id string) string {
		return line(id, `{"a": {"b": ["é", 12]}}`, "{}", "", candidate{output: call("hall"), origin: "model"})
	}
	pretty := func(id string) string { return strings.ReplaceAll(good(id), ", ", ",\n  ") }
	cutAt := func(n int) string { return strings.TrimSuffix(good("cut"), "\n")[:n] }
	in := strings.Index(good("cut"), "é") + 1
	for name, c := range map[string]struct {
		text string
		want []string // source and request
		cut  int
	}{
		"at the end":               {good("a") + cutAt(100), []string{"a.jsonl:1 a"}, 1},
		"at the end with newline":  {good("a") + cutAt(100) + "\n", []string{"a.jsonl:1 a"}, 1},
		"first line":               {cutAt(100) + "\n" + good("a") + good("b"), []string{"a.jsonl:2 a", "a.jsonl:3 b"}, 1},
		"within a character":       {cutAt(in) + "\n" + good("a"), []string{"a.jsonl:2 a"}, 1},
		"two cut lines":            {good("a") + cutAt(100) + "\n" + cutAt(60) + "\n" + good("b"), []string{"a.jsonl:1 a", "a.jsonl:4 b"}, 2},
		"two apart":                {cutAt(100) + "\n" + good("a") + cutAt(60) + "\n" + good("b"), []string{"a.jsonl:2 a", "a.jsonl:4 b"}, 2},
		"next on the same line":    {good("a") + cutAt(100) + good("b") + good("c"), []string{"a.jsonl:1 a", "a.jsonl:2 b", "a.jsonl:3 c"}, 1},
		"two before on one line":   {cutAt(100) + cutAt(60) + good("b"), []string{"a.jsonl:1 b"}, 2},
		"pretty, at the end":       {good("a") + pretty("b")[:200], []string{"a.jsonl:1 a"}, 1},
		"pretty, before another":   {pretty("b")[:200] + "\n" + good("a"), []string{fmt.Sprintf("a.jsonl:%d a", 2+strings.Count(pretty("b")[:200], "\n"))}, 1},
		"zeros of a crash":         {cutAt(100) + "\x00\x00\n" + good("a"), []string{"a.jsonl:2 a"}, 1},
		"windows lines":            {cutAt(100) + "\r\n" + good("a"), []string{"a.jsonl:2 a"}, 1},
		"only a cut line":          {cutAt(30), nil, 1},
		"cut before any member":    {"{\n" + good("a"), []string{"a.jsonl:2 a"}, 1},
		"recorded by another tool": {`{"method": "POST", "path": "/v1/resp` + "\n" + good("a"), []string{"a.jsonl:2 a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rows, s := rowsOf[chatRow](t, Config{Kind: Chat}, write(t, "a.jsonl", c.text))
			var got []string
			for _, row := range rows {
				got = append(got, row.Source+" "+row.RequestID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || s.Skipped[wasCut] != c.cut {
				t.Errorf("%s%s", diff, s)
			}
		})
	}
}

// TestLineCutAnywhereLosesNothingElse: whole lines before and after each cut are read.
func TestLineCutAnywhereLosesNothingElse(t *testing.T) {
	text := strings.TrimSuffix(line("cut", `{"a": "é\u00e9", "n": [null, -1.5e3, true]}`, "{}", `, "outcomes": [null]`, candidate{output: call("hall"), origin: "model"}), "\n")
	good := line("good", "{}", "{}", "", candidate{output: call("hall"), origin: "model"})
	for n := 1; n < len(text); n += 1 + n/40 {
		for _, between := range []string{"\n", ""} {
			path := write(t, "a.jsonl", good+text[:n]+between+good+good)
			rows, s := rowsOf[chatRow](t, Config{Kind: Chat}, path)
			if len(rows) != 3 || s.Skipped[wasCut] != 1 {
				t.Errorf("cut at %d of %q, %q between: %s", n, text[max(0, n-20):n], between, s)
			}
		}
	}
}

func TestPairsReadAgainBehindACutLine(t *testing.T) {
	good := line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"})
	text := good[:90] + "\n" + good +
		line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`}) +
		line("r3", `{"history": [1]}`, "{}", "", candidate{output: call("hall"), origin: "model"})
	rows, s := rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", text))
	if diff := cmp.Diff([]string{"correction: " + toHall + " > " + toAttic}, texts(rows)); diff != "" {
		t.Errorf("%s%s", diff, s)
	}
}

// TestKeysOfACutLineAreRedacted: other lines may repeat them.
func TestKeysOfACutLineAreRedacted(t *testing.T) {
	session := `{"method": "PUT", "path": "/v1/coaching/sessions/r", "headers": {"Authorization": ["Bearer canary-1111"], "User-Agent": "python-requests"},
		"body": {"backends": {"b": {"headers": {"X-Key": "canary-2222", "Accept": "application/json"}, "type": "oll`
	said := `{"say": "canary-1111 and canary-2222 of python-requests want application/json"}`
	path := write(t, "a.jsonl", strings.ReplaceAll(session, "\n\t\t", "")+"\n"+line("r", "{}", "{}", "", candidate{output: said, origin: "model"}))
	rows, s := rowsOf[chatRow](t, Config{Kind: Chat}, path)
	if len(rows) != 1 || rows[0].Messages[2].Content != "[REDACTED] and [REDACTED] of python-requests want application/json" {
		t.Errorf("%+v %s", rows, s)
	}
}

func TestWrongLinesStayErrors(t *testing.T) {
	good := line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model"})
	for name, text := range map[string]string{
		"no JSON":                 good + "hello\n" + good,
		"a comma too many":        strings.Replace(good, `"inputs"`, `,"inputs"`, 1) + good,
		"a member that is broken": good + `{"request": }` + "\n" + good,
		"a list":                  good + "[1, 2",
		"no name of a member":     good + "{hello}\n" + good,
	} {
		if _, err := run(t, Config{Kind: Chat}, io.Discard, write(t, "a.jsonl", text)); err == nil || !strings.Contains(err.Error(), "a.jsonl line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrongLineOfALargeFileEndsTheSearch: what follows it is not read, or this test takes hours.
func TestWrongLineOfALargeFileEndsTheSearch(t *testing.T) {
	good := line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model"})
	path := write(t, "a.jsonl", strings.Replace(good, `"inputs"`, `,"inputs"`, 1)+strings.Repeat(good, 20_000))
	if _, err := run(t, Config{Kind: Chat}, io.Discard, path); err == nil || !strings.Contains(err.Error(), "a.jsonl line 1: ") {
		t.Error(err)
	}
}
