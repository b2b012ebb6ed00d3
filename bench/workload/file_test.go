package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/protocol"
)

func TestATraceThatIsReadIsTheOneThatWasWritten(t *testing.T) {
	for _, kind := range kinds {
		o := small(kind)
		o.Think = Millis(1500 * time.Microsecond)
		trace := generate(t, o)
		text := file(t, trace)
		again := reread(t, text)
		if diff := cmp.Diff(trace, again); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if file(t, again) != text || hash(t, again) != hash(t, trace) {
			t.Errorf("%s: it is written otherwise the second time", kind)
		}
	}
}

// one is a recorded trace of a turn with the given fields, "..." standing for the
// required ones.
func one(fields string) string {
	const required = `"agent":0,"turn":0,"input":{"id":1,"instruction":{"type":"user","content":"go"}},"candidates":1`
	return `{"version":1,"kind":"recorded"}` + "\n" + `{` + strings.Replace(fields, "...", required, 1) + "}\n"
}

// TestInputsKeepTheirBytes: numbers, escapes and the order of keys are the agent's.
func TestInputsKeepTheirBytes(t *testing.T) {
	const input = `{"memory":{"b":1.50,"a":"<\u00e9\/>","n":1e400},"id":7,"instruction":{"content":"\u003cgo\u003e","type":"env"},"num_outputs":2}`
	text := one(`"agent":0,"turn":0,"input":` + input + `,"candidates":2`)
	trace := reread(t, text)
	if got := string(trace.Turns[0].Input); got != input {
		t.Errorf("it was read as %s", got)
	}
	if got := file(t, trace); got != text {
		t.Errorf("it was written as %s", got)
	}
	spaced := reread(t, one(`"agent":0,"turn":0,"input": `+strings.ReplaceAll(input, ",", " , ")+` ,"candidates":2`))
	if hash(t, spaced) != hash(t, trace) || file(t, spaced) != text {
		t.Error("whitespace between tokens counts")
	}
}

// TestTheHashIsOfWhatIsAsked, and not of what a model made of it.
func TestTheHashIsOfWhatIsAsked(t *testing.T) {
	trace := generate(t, small(Synthetic))
	sum := hash(t, trace)
	trace.Header.Model = strings.Repeat("0a", 32)
	for i := range trace.Turns {
		trace.Turns[i].Prompt, trace.Turns[i].Tokens, trace.Turns[i].Grammar = "p", []int32{1}, "root ::= [a]"
	}
	rendered := reread(t, file(t, trace))
	if hash(t, rendered) != sum || rendered.Turns[3].Grammar != "root ::= [a]" {
		t.Error("rendering changed the hash, or was lost")
	}
	for field, change := range map[string]func(*Turn){
		"agent":      func(turn *Turn) { turn.Agent++ },
		"turn":       func(turn *Turn) { turn.Turn++ },
		"think_ms":   func(turn *Turn) { turn.Think++ },
		"at_ms":      func(turn *Turn) { turn.At++ },
		"candidates": func(turn *Turn) { turn.Candidates++ },
		"input":      func(turn *Turn) { turn.Input = protocol.SetMember(turn.Input, "id", protocol.Raw("99")) },
	} {
		other := reread(t, file(t, trace))
		change(&other.Turns[7])
		if hash(t, other) == sum {
			t.Errorf("the hash does not depend on %s", field)
		}
	}
}

// TestTheHashStaysTheSame: result files of different versions are compared by it.
func TestTheHashStaysTheSame(t *testing.T) {
	const want = "ea61a6a21f372f88e8316e9b585dbda1f0d21aaf7ab0ec4ca778e6bda11ae378"
	if got := hash(t, reread(t, one(`...,"at_ms":1.5`))); got != want {
		t.Errorf("it is %s now: raise Version", got)
	}
}

func TestWrongLinesAreNamed(t *testing.T) {
	const header = `{"version":1,"kind":"recorded"}` + "\n"
	made := file(t, generate(t, small(Synthetic)))
	cut := made[:strings.LastIndex(strings.TrimSpace(made), "\n")+1]
	model := strings.Repeat("0a", 32)
	rendered := func(fields string) string {
		return strings.Replace(one(fields), `"recorded"`, `"recorded","model":"`+model+`"`, 1)
	}
	for rule, test := range map[string]struct{ text, want string }{
		"empty file":        {"", "the file is empty"},
		"no turns":          {header, "the trace has no turns"},
		"no JSON":           {"agentbench\n", "line 1: is not one JSON object"},
		"null":              {"null\n", "line 1: is not one JSON object"},
		"two objects":       {`{"version":1,"kind":"recorded"}{}`, "line 1: is not one JSON object"},
		"newer version":     {`{"version":2,"trace":"recorded"}`, "line 1: the trace has version 2, and this program reads version 1"},
		"no version":        {`{"kind":"recorded"}`, "line 1: the field /version is missing"},
		"unknown kind":      {`{"version":1,"kind":"x"}`, `line 1: kind is "x"; it must be synthetic, household or recorded`},
		"unknown field":     {`{"version":1,"kind":"recorded","sped":1}`, "line 1: the field /sped is unknown"},
		"wrong type":        {`{"version":1,"kind":3}`, "line 1: the field /kind can't be a JSON number"},
		"wrong model":       {`{"version":1,"kind":"recorded","model":"abc"}`, "line 1: model is \"abc\"; it must be a SHA-256"},
		"no options":        {`{"version":1,"kind":"synthetic"}`, "line 1: options are missing"},
		"needless options":  {`{"version":1,"kind":"recorded","options":{"kind":"synthetic"}}`, "line 1: options are for a trace that was generated"},
		"other options":     {`{"version":1,"kind":"household","options":{"kind":"synthetic"}}`, `line 1: options.kind is "synthetic"`},
		"wrong options":     {`{"version":1,"kind":"household","options":{"kind":"household"}}`, "line 1: options: agents is 0"},
		"cut":               {cut, "the trace has 19 turns where its options make 20: it was cut"},
		"cut in a line":     {made[:len(made)-10], "line 21: is not one JSON object"},
		"empty line":        {header + "\n", "line 2: is empty"},
		"unknown in a turn": {one(`...,"x":1`), "line 2: the field /x is unknown"},
		"case":              {one(`...,"Agent":1`), "line 2: the field /Agent is unknown"},
		"no agent":          {header + `{"turn":0,"input":{},"candidates":1}`, "line 2: the field /agent is missing"},
		"no input":          {header + `{"turn":0,"agent":0,"candidates":1}`, "line 2: the field /input is missing"},
		"duration":          {one(`...,"at_ms":1e30`), "line 2: the field /at_ms: 1e30 milliseconds are more than"},
		"text as duration":  {one(`...,"at_ms":"1s"`), `line 2: the field /at_ms: "1s" is not a number of milliseconds`},
		"negative pause":    {one(`...,"think_ms":-1`), "line 2: think_ms is below 0"},
		"negative time":     {one(`...,"at_ms":-1`), "line 2: at_ms is before"},
		"agents in order":   {strings.Replace(one("..."), `"agent":0`, `"agent":1`, 1), "line 2: agent is 1, and 0 agents came before"},
		"negative agent":    {strings.Replace(one("..."), `"agent":0`, `"agent":-1`, 1), "line 2: agent is -1"},
		"turns in order":    {strings.Replace(one("..."), `"turn":0`, `"turn":1`, 1), "line 2: turn is 1 where that of agent 0 is 0"},
		"no AgentInput":     {header + `{"agent":0,"turn":0,"input":{"id":"x"},"candidates":1}`, "line 2: input: body.inputs[0].id: must be an integer"},
		"candidates":        {strings.Replace(one("..."), `"candidates":1`, `"candidates":2`, 1), "line 2: input: num_outputs is 1, and candidates 2"},
		"prompt, no model":  {one(`...,"prompt":"p"`), "line 2: prompt, tokens and grammar are there, but the header has no model"},
		"model, no prompt":  {rendered("..."), "line 2: prompt and tokens are missing"},
		"wrong token":       {rendered(`...,"prompt":"p","tokens":[-1]`), "line 2: tokens has a number below 0"},
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := Read(strings.NewReader(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, not %q", err, test.want)
			}
		})
	}
	if trace := reread(t, rendered(`...,"prompt":"p","tokens":[0,5]`)); trace.Turns[0].Tokens[1] != 5 || trace.Header.Model != model {
		t.Errorf("%+v", trace)
	}
}

func TestFilesHaveASize(t *testing.T) {
	text := one("...")
	header, line, _ := strings.Cut(text, "\n")
	for want, read := range map[string]func() (*Trace, error){
		"<nil>": func() (*Trace, error) {
			return readWithin(iotest.OneByteReader(strings.NewReader(text)), len(line)+1, len(text))
		},
		"line 2: has more than 60 byte": func() (*Trace, error) { return readWithin(strings.NewReader(text), 60, len(text)) },
		"line 2: the file has more tha": func() (*Trace, error) { return readWithin(strings.NewReader(text), len(text), len(header)+1) },
	} {
		if _, err := read(); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("got %v, not %q", err, want)
		}
	}
	if _, err := Read(iotest.ErrReader(errors.New("unplugged"))); err == nil || err.Error() != "unplugged" {
		t.Errorf("got %v", err)
	}
}

// TestWriteRefusesWhatReadWould, and names the line.
func TestWriteRefusesWhatReadWould(t *testing.T) {
	trace := generate(t, small(Synthetic))
	trace.Turns[3].Turn = 5
	if err := trace.Write(failing{}); err == nil || !strings.HasPrefix(err.Error(), "line 5: turn is 5") {
		t.Errorf("got %v", err)
	}
	trace.Turns[3].Turn = 0
	if err := trace.Write(failing{}); err == nil || err.Error() != "the trace could not be written: disk full" {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

func TestDurationsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Millis(rapid.Int64Range(-maxMillis*1e6/2, maxMillis*1e6/2).Draw(t, "nanoseconds"))
		text, err := want.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got Millis
		if err := got.UnmarshalJSON(text); err != nil || got != want {
			t.Fatalf("%d became %s, then %d, %v", want, text, got, err)
		}
	})
	for d, want := range map[Millis]string{0: "0", Millis(time.Second): "1000", Millis(1500 * time.Microsecond): "1.5"} {
		if text, _ := d.MarshalJSON(); string(text) != want {
			t.Errorf("%d is %s", d, text)
		}
	}
}

// FuzzRead: what is read can be written and is then read as the same.
func FuzzRead(f *testing.F) {
	f.Add(one("..."))
	f.Add(one(`...,"at_ms":1.25,"think_ms":3`))
	f.Add(one(`"agent":0,"turn":0,"input":{"id":1,"instruction":{"type":"env","content":"\ud800"},"memory":{"history":[]}},"candidates":1`))
	f.Add(`{"version":1,"kind":"recorded","model":"` + strings.Repeat("00", 32) + `"}` + "\n" + `{"agent":0}`)
	o := small(Synthetic)
	o.Agents, o.Turns, o.Groups, o.Tools = 1, 2, 1, 1
	f.Add(file(f, generate(f, o)))
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		written := file(t, trace)
		again := reread(t, written)
		if diff := cmp.Diff(trace, again); diff != "" {
			t.Fatal(diff)
		}
		if hash(t, again) != hash(t, trace) || file(t, again) != written {
			t.Fatal("it is written otherwise the second time")
		}
	})
}
