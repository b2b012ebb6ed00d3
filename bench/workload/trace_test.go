package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadReturnsWhatWriteWrote(t *testing.T) {
	trace := generate(t, small())
	if diff := cmp.Diff(trace, reread(t, file(t, trace))); diff != "" {
		t.Error(diff)
	}
}

func TestHashDependsOnInputsOnly(t *testing.T) {
	trace := generate(t, small())
	before := hash(t, trace)
	for i := range trace.Turns {
		trace.Turns[i].Prompt, trace.Turns[i].Tokens, trace.Turns[i].Grammar = "p", []int32{1}, "g"
	}
	if hash(t, trace) != before {
		t.Error("the hash depends on the rendered prompts")
	}
	trace.Turns[3].Candidates++
	if hash(t, trace) == before {
		t.Error("the hash does not depend on the candidates")
	}
}

func TestReadNamesTheLineOfAnError(t *testing.T) {
	text := file(t, generate(t, small()))
	lines := strings.SplitAfter(text, "\n")
	change := func(line int, from, to string) string {
		if !strings.Contains(lines[line], from) {
			t.Fatalf("no %s in %s", from, lines[line])
		}
		return strings.Join(lines[:line], "") + strings.Replace(lines[line], from, to, 1) + strings.Join(lines[line+1:], "")
	}
	for name, test := range map[string]struct{ text, want string }{
		"an empty file":     {"", "turns are missing"},
		"no turns":          {lines[0], "turns are missing"},
		"a missing turn":    {strings.Join(lines[:len(lines)-2], ""), "turns are missing"},
		"another version":   {change(0, `"version":2`, `"version":1`), "line 1: is not a header"},
		"no JSON":           {"x\n", "line 1: is not a header"},
		"wrong options":     {change(0, `"agents":5`, `"agents":0`), "line 1: agents is 0"},
		"an unknown member": {change(2, `"agent":1`, `"agent":1,"x":1`), "line 3: "},
		"an earlier turn":   {change(7, `"turn":1`, `"turn":0`), "line 8: turn 0 of agent 1 is out of order"},
		"a negative agent":  {change(2, `"agent":1`, `"agent":-1`), "line 3: turn 0 of agent -1"},
		"no candidates":     {change(1, `"candidates":3`, `"candidates":0`), "line 2: turn 0 of agent 0"},
	} {
		if _, err := Read(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	o := small()
	o.Agents, o.Groups, o.Turns = 1, 1, 1
	f.Add(file(f, generate(f, o)))
	f.Add("{}\n{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if diff := cmp.Diff(trace, reread(t, file(t, trace))); diff != "" {
			t.Error(diff)
		}
	})
}
