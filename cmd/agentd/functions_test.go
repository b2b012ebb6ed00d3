//go:build !race

package main

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentd/llama/synth"
)

const (
	// program answers the request. go covers packages only of a program that is covered itself.
	program = "agentd/cmd/agentd/testdata/functions"
	// walked are the packages whose functions count.
	walked = program + ",agentd/..."
	// requestFunctions is the row of the limits for functions that are not short.
	requestFunctions = "functions of a request"
	// shortFunction is the number of lines of an accessor or a guard at most.
	shortFunction = 7
)

// onTimers are functions of the scheduler that timers call, request or not.
var onTimers = regexp.MustCompile(`\*Engine\.(watch|look)$|\*rounds\.tick$|\*threads\.look$`)

var covered = regexp.MustCompile(`(?m)^agentd/(\S+):(\d+):\s+(\S+)\s+(\d+\.\d)%$`)

// countFunctions counts the named functions that run for the request of ARCHITECTURE's ten steps, from its first byte
// to the last one of the answer.
func countFunctions(t *testing.T, sizes map[string]int) (counted []string) {
	t.Helper()
	tools := `[{"name": "go_to", "description": "Drive to a room.", "parameters": {"room": {"type": "string"}}}]`
	ins := []input{user(1, "Go to the hall.").tools(tools), user(2, "Go to the kitchen.").tools(tools).outputs(3)}
	for i := range ins {
		ins[i].Attributes = json.RawMessage(`{"known_robots": ["rover", "scout"]}`)
	}
	dir := t.TempDir()
	serves := exec.CommandContext(t.Context(), "go", "run", "-cover", "-covermode=atomic", "-coverpkg="+walked,
		program, tinyModel(t, synth.Qwen3), dir)
	serves.Stdin = strings.NewReader(body(t, "r", ins...))
	if out, err := serves.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "func", "-i", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := map[string]int{} // of the function whose body begins at file:line
	goFiles(t, func(name string, fset *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				from, to := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
				lines[name+":"+strconv.Itoa(fset.Position(f.Body.Lbrace).Line)] = to - from + 1
			}
		}
	})
	for _, f := range covered.FindAllStringSubmatch(string(out), -1) {
		at := f[1] + ":" + f[2]
		if f[4] == "0.0" || strings.HasPrefix(at, "cmd/") || onTimers.MatchString(f[3]) {
			continue
		}
		sizes[requestFunctions+", and short ones"]++
		if lines[at] > shortFunction {
			sizes[requestFunctions]++
			counted = append(counted, at+" "+f[3])
		}
	}
	return counted
}
