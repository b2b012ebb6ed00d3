package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quickStart finds the first request of the README, and its answer after it.
var quickStart = regexp.MustCompile("(?s)curl -s localhost:8888(/\\S+) -H 'Content-Type: application/json' -d '(.*?)'\n```.*?```json\n(.*?)```")

// TestReadmeRequestGetsItsAnswer by the default model.
func TestReadmeRequestGetsItsAnswer(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := quickStart.FindStringSubmatch(string(readme))
	if found == nil {
		t.Fatal("the README has no first request with an answer")
	}
	path, request, promised := found[1], found[2], found[3]

	r := serveModel(t)
	if !strings.Contains(r.log.String(), `"default_model":true`) {
		t.Errorf("the log does not say that this is the default model:\n%s", r.log)
	}
	status, answer, err := exchange("POST", r.url+path, request)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s, %v", status, answer, err)
	}
	if _, err := checked(request, answer); err != nil {
		t.Error(err)
	}
	var want, got any
	if err := json.Unmarshal([]byte(promised), &want); err != nil {
		t.Fatalf("the answer in the README: %v", err)
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	if !shows(want, got) {
		t.Errorf("the README says\n%s\nthe server\n%s", promised, answer)
	}
}

// omission stands for what a text leaves out: the rest of a string, or, as a name,
// further members.
const omission = "…"

// shows reports whether want equals got apart from its omissions.
func shows(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		_, open := want[omission]
		for name, value := range want {
			if name != omission && !shows(value, object[name]) {
				return false
			}
		}
		return ok && (open || len(object) == len(want))
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, shows)
	case string:
		text, ok := got.(string)
		before, after, cut := strings.Cut(want, omission)
		if !cut {
			return ok && text == want
		}
		return len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
	}
	return want == got
}

func TestShowsTellsAnswersApart(t *testing.T) {
	const got = `{"a": [1, "one two three"], "b": {"c": true}}`
	for want, same := range map[string]bool{
		got: true,
		`{"a": [1, "one … three"], "b": {"c": true}}`: true,
		`{"a": [1, "…"], "…": "…"}`:                   true,
		`{"a": [1, "…"]}`:                             false,
		`{"a": [1], "…": "…"}`:                        false,
		`{"a": [1, "two …"], "…": "…"}`:               false,
		`{"a": [1, "one two three…three"], "…": ""}`:  false,
		`{"b": {"c": false}, "…": "…"}`:               false,
		`{"b": [], "…": "…"}`:                         false,
		`{"b": {"d": true}, "…": "…"}`:                false,
	} {
		var w, g any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(got), &g); err != nil {
			t.Fatal(err)
		}
		if shows(w, g) != same {
			t.Errorf("%s: %v", want, !same)
		}
	}
}
