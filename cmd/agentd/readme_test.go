package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is the root of the clone.
var repository = filepath.Join("..", "..")

// quickStart finds the first request of the README, and its answer after it.
var quickStart = regexp.MustCompile("(?s)curl -s localhost:8888(/\\S+) -H 'Content-Type: application/json' -d '(.*?)'\n```.*?```json\n(.*?)```")

// TestReadmeRequestGetsItsAnswer by the default model.
func TestReadmeRequestGetsItsAnswer(t *testing.T) {
	path, request, promised := readmeExample(t)
	r := serveModel(t)
	if !strings.Contains(r.log.String(), `"default_model":true`) {
		t.Errorf("the log does not say that this is the default model:\n%s", r.log)
	}
	r.expect(422, "the default model can't coach", "PUT", session1, `{"backends": {"own": {"type": "local", "model": "own"}}}`)
	status, answer, err := exchange("POST", r.url+path, request)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s, %v", status, answer, err)
	}
	if _, err := checked(request, answer); err != nil {
		t.Error(err)
	}
	expectShown(t, promised, answer)
}

// elsewhere are the commands of the READMEs that other tests run, by their beginnings, with the name of the test, or that
// need what a test lacks.
var elsewhere = map[string]string{
	"curl -s localhost:8888/v1/responses": "TestReadmeRequestGetsItsAnswer",
	"pip install agentd_server-":          "TestWheelInstallsCommand",
	"make example":                        "TestExample",
	"make run":                            "", // builds all, and waits
	"make test":                           "", // runs this test
	"./agentd --model":                    "", // a model of 8 GB
	"make cuda":                           "", // a GPU
}

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```")

// TestCommandsOfReadmesRun against a server with the default model, or are listed in elsewhere.
func TestCommandsOfReadmesRun(t *testing.T) {
	r := serveModel(t)
	for _, file := range []string{"README.md", filepath.Join("clients", "python", "README.md"), filepath.Join("docs", "README.md")} {
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			var open string // a command whose quotes do not end on its line
			for line := range strings.Lines(block[1]) {
				open += line
				if strings.Count(open, "'")%2 == 0 {
					runDocumented(t, r, file, open)
					open = ""
				}
			}
		}
	}
}

// runDocumented runs a command of a README with the address of a running server.
func runDocumented(t *testing.T, r *running, file, command string) {
	t.Helper()
	for beginning := range elsewhere {
		if strings.HasPrefix(command, beginning) {
			return
		}
	}
	command, _, _ = strings.Cut(command, "#")
	args := append(strings.Fields(command), "--url", r.url)
	var out strings.Builder
	var err error
	switch {
	case strings.HasPrefix(command, "./agentd demo"):
		err = run(t.Context(), args[1:], &out, io.Discard)
	case strings.HasPrefix(command, `make eval ARGS="`):
		options := strings.Split(command, `"`)[1]
		// The command and its options are tested, not the model.
		program := exec.CommandContext(t.Context(), "make", "eval", "ARGS="+options+" --url "+r.url+" --episodes 4")
		program.Dir, program.Stdout, program.Stderr = repository, &out, &out
		err = program.Run()
	default:
		t.Errorf("%s: no test runs %s", file, command)
		return
	}
	if err != nil || out.Len() == 0 {
		t.Errorf("%s: %s: %v: %s", file, command, err, &out)
	}
}

// readmeExample is the first request of the README and the answer that it promises.
func readmeExample(t *testing.T) (path, request, promised string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := quickStart.FindStringSubmatch(string(readme))
	if found == nil {
		t.Fatal("the README has no first request with an answer")
	}
	return found[1], found[2], found[3]
}

// expectShown fails unless the answer is the promised one but for its omissions.
func expectShown(t *testing.T, promised, answer string) {
	t.Helper()
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
