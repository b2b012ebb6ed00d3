package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clientPackages are what clients/python and its tests need, and flit to install it.
var clientPackages = []string{
	"httpx==0.28.1", "httpcore==1.0.9", "h11==0.16.0", "anyio==4.16.0", "idna==3.20", "certifi==2026.10.19.post1", "sniffio==1.3.1", "typing_extensions==4.16.0",
	"pydantic==2.14.4", "pydantic_core==2.50.5", "annotated-types==0.8.0", "typing-inspection==0.4.5", "flit_core==4.2.0",
}

// TestPythonClientWorksWithTheServer: clients/python is installed as users do it, and
// its tests ask a server with the default model.
func TestPythonClientWorksWithTheServer(t *testing.T) {
	t.Parallel()
	source := filepath.Join("..", "..", "clients", "python")
	p := installedPython(t, clientPackages).with(t, source)
	r := serveModel(t)
	command := p.command(t, "-m", "unittest", "discover", "-v", "-s", filepath.Join(source, "tests"))
	command.Env = append(command.Env, "AGENTD_URL="+r.url, "NO_PROXY=127.0.0.1")
	out, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("test_two_turns_go_on_with_the_memory")) || bytes.Contains(out, []byte("skipped")) {
		t.Errorf("%v\n%s", err, out)
	}
}

var pythonBlock = regexp.MustCompile("(?s)\n```python\n(.*?)```")

// TestProgramsOfReadmesRun against a server with the default model, to the end of their episodes.
func TestProgramsOfReadmesRun(t *testing.T) {
	source := filepath.Join("..", "..", "clients", "python")
	p := installedPython(t, clientPackages).with(t, madeWheel(t)) // which brings the client
	r := serveModel(t)
	each := func(value string) string { return regexp.QuoteMeta("[" + strings.Repeat(value+", ", 15) + value + "]") } // of 16 worlds
	for file, wants := range map[string][]string{
		filepath.Join("..", "..", "README.md"): {each("1.0") + " " + each("False") + "\n" + each("0.0") + " " + each("True")},
		filepath.Join(source, "README.md"):     {`go_to.*kitchen.*\n.*pick_up.*red cup.*\nDone: rover holds the red cup\.`},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := pythonBlock.FindAllStringSubmatch(string(text), -1)
		if len(blocks) != len(wants) {
			t.Fatalf("%s has %d programs, want %d", file, len(blocks), len(wants))
		}
		for i, want := range wants {
			command := p.command(t, "-c", strings.ReplaceAll(blocks[i][1], "http://127.0.0.1:8888", r.url))
			if out, err := command.CombinedOutput(); err != nil || !regexp.MustCompile(want).Match(out) {
				t.Errorf("%s: %v: %s, want %q", file, err, out, want)
			}
		}
	}
}
