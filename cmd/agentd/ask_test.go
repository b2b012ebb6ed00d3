package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/household"
	"agentd/internal/base/conformal"
	"agentd/internal/base/waittest"
	"agentd/llama/synth"
	"agentd/protocol"
)

// unsureStep is what a step says of an unsure decision.
type unsureStep struct {
	Origin   string
	Elements struct {
		Generation struct {
			Version   string `json:"model_version"`
			Candidate struct {
				Option        int
				Format        string
				Probabilities []float64
				Ask           *struct {
					Error, Threshold float64
					Set              []int
					Outcome, Reason  string
					Option           *int
				}
			}
		}
	} `json:"input_elements"`
}

func unsureStepOf(t *testing.T, out protocol.AgentOutput) (s unsureStep) {
	t.Helper()
	if out.Output == nil || len(out.InternalSteps) != 1 {
		t.Fatalf("got %s with %d steps", answerOf(out), len(out.InternalSteps))
	}
	if err := json.Unmarshal(out.InternalSteps[0], &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// cupOptions are decisions about the README's cup, and keys a text with more members of extra_keys.
func cupOptions(keys string) input {
	call := func(name, argument, value string) string {
		return fmt.Sprintf(`{"say": "", "tool_calls": [{"name": %q, "arguments": {%q: %q}, "target_robot_name": "rover"}]}`, name, argument, value)
	}
	options := []string{`"unsure"`, call("go_to", "room", "kitchen"), call("go_to", "room", "hall"), call("pick_up", "object", "red cup")}
	return cup("").extra(`{"inference_mode": true, "options": [` + strings.Join(options, ",") + `]` + keys + `}`)
}

// calibrationFor writes a calibration by hand: with the error rate 0.05 all options are in every set, with 0.5 none is.
func calibrationFor(t *testing.T, s unsureStep) string {
	t.Helper()
	g := s.Elements.Generation
	file := conformal.File{Model: g.Version, Format: g.Candidate.Format, Rates: []conformal.Rate{{Error: 0.05, Threshold: 1, N: 19}, {Error: 0.5, Threshold: 0, N: 19}}}
	text, err := file.Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ask.json")
	writeFile(t, path, string(text))
	return path
}

// defaultStep is a step of the default model.
func defaultStep(t *testing.T) unsureStep {
	t.Helper()
	r := serveModel(t)
	defer func() {
		r.stop()
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}()
	r.expect(422, "has no calibration", "POST", "/v1/responses", body(t, "a", cupOptions(`, "ask": "run/1"`)))
	s := unsureStepOf(t, r.ask("a", cupOptions(""))[0])
	if s.Elements.Generation.Candidate.Ask != nil || len(s.Elements.Generation.Candidate.Probabilities) != 4 {
		t.Errorf("without a calibration the step has %+v", s)
	}
	return s
}

func chooses(decision string) string {
	return `{"why": "It is so.", "outcome": "corrected", "reinjection_point_id": "now", "decision": ` + decision + `}`
}

func TestCoachesChooseWhereTheSetHasSeveralOptions(t *testing.T) {
	t.Parallel()
	const hall = `{"say": "", "tool_calls": [{"name": "go_to", "arguments": "{\"room\": \"hall\"}", "target_robot_name": "rover"}]}`
	step := defaultStep(t)
	file := calibrationFor(t, step)
	r := serveModel(t, "--ask", file+",error=0.05,wait=1h")
	coach := newCoaches(t, chooses(hall))
	coach.hold = make(chan struct{})
	r.expect(204, "", "PUT", session1, llmSession("openai", coach.URL))
	for keys, want := range map[string]string{
		`, "ask": ""`: "1 to", `, "ask": 3`: "run_id",
	} {
		r.expect(422, want, "POST", "/v1/responses", body(t, "a", cupOptions(keys)))
	}
	r.expect(422, "num_outputs to 1", "POST", "/v1/responses", body(t, "a", cupOptions(`, "ask": "run/1"`).outputs(2)))
	r.expect(422, "add options", "POST", "/v1/responses", body(t, "a", cup("").extra(`{"inference_mode": true, "ask": "run/1"}`)))

	text := body(t, "a", cupOptions(`, "ask": "run/1"`))
	answer := r.post(text)
	lines := r.laterHeader("/v1/responses", body(t, "b", cupOptions(`, "ask": "run/1"`)), http.Header{"Accept": {"application/x-ndjson"}})
	wait(t, "a question", coach.arrived)
	wait(t, "another question", coach.arrived)
	r.becomes("agentd_asks_waiting", 2)
	r.expect(200, `"asking":2`, "GET", "/health", "")
	if _, page, err := exchange("GET", r.url+"/magma/health", ""); err != nil || page != `{"status":"ready"}` {
		t.Errorf("MAGMA's clients get %s, %v", page, err)
	}
	close(coach.hold)

	outs, err := checked(text, strings.TrimPrefix(wait(t, "the answer", answer), "200 "))
	if err != nil {
		t.Fatal(err)
	}
	s := unsureStepOf(t, outs[0])
	c := s.Elements.Generation.Candidate
	if c.Ask == nil || c.Ask.Outcome != agent.AskChosen || c.Ask.Option == nil || *c.Ask.Option != 2 || c.Ask.Reason != "" || len(c.Ask.Set) != 4 || c.Ask.Error != 0.05 {
		t.Errorf("the step has %s", outs[0].InternalSteps[0])
	}
	if c.Option == 2 {
		t.Fatal("the coach chose the most probable option; the test needs another one")
	}
	if s.Origin != protocol.OriginCoaching || !strings.Contains(answerOf(outs[0]), `"room":"hall"`) && !strings.Contains(answerOf(outs[0]), `"room": "hall"`) || !strings.Contains(string(outs[0].Memory), "hall") {
		t.Errorf("the answer is %s of %s with the memory %s", answerOf(outs[0]), s.Origin, outs[0].Memory)
	}
	if got := wait(t, "the lines", lines); !strings.HasPrefix(got, "200 ") || strings.Count(got, `"outcome":"chosen"`) != 1 || !strings.Contains(got, `"candidates":1`) {
		t.Errorf("as lines: %s", got)
	}
	if seen := coach.seen(); !strings.Contains(seen, "The agent has not decided yet") || !strings.Contains(seen, " %: {") {
		t.Errorf("the coach was asked %s", seen)
	}
	r.expect(200, `{"status":"ready"}`, "GET", "/health", "")
	if r.metric(`agentd_asks_total{outcome="chosen"}`) != 2 || r.metric("agentd_asks_waiting") != 0 {
		t.Error("the metrics do not count two choices")
	}
	// The recorded answer has what was right.
	path := filepath.Join(t.TempDir(), "x.jsonl")
	writeFile(t, path, fmt.Sprintf("{\"request\": %s, \"response\": %s}\n", strings.TrimSpace(text), protocol.AgentOutputs(outs).AppendJSON(nil)))
	var log bytes.Buffer
	if err := run(t.Context(), []string{"calibrate", path}, io.Discard, &log); err == nil || !strings.Contains(log.String(), "1 decisions with options, 1 of them with a known right option") || !strings.Contains(err.Error(), "0.05 needs at least 38 decisions") {
		t.Errorf("got %v, %s", err, log.String())
	}
}

// TestPersonsChooseAtTheConsole, also after the wait: the same request then gets the choice.
func TestPersonsChooseAtTheConsole(t *testing.T) {
	t.Parallel()
	r := serveModel(t, "--ask", calibrationFor(t, defaultStep(t))+",error=0.05,wait=300ms")
	folder := t.TempDir()
	console := startConsole(t, "--data-dir", folder, "--agent", r.url)
	r.expect(204, "", "PUT", session1, humanSession(console.url))
	text := body(t, "a", cupOptions(`, "ask": "run/1"`))
	for range 2 { // the second finds the prompt in the cache
		if got := r.answer(text, nil); !strings.Contains(got, `"outcome":"fallback"`) {
			t.Fatalf("before the choice: %s", got)
		}
	}
	task := openTask(t, console)
	var list struct {
		Candidates []struct{ Valid bool }
		Tasks      []struct{ ID string }
	}
	send(t, http.MethodPost, console.url+"/api/tasks/"+task+"/candidates", `{"point": "now", "n": 3}`, "", &list)
	if len(list.Candidates) != 3 || slices.Contains(list.Candidates, struct{ Valid bool }{false}) {
		t.Errorf("the most probable options are %+v", list.Candidates)
	}
	answerTask(t, console, task, `"status":"completed","point":"now","decision":{"say":"unsure","tool_calls":[]}`)
	waittest.Eventually(t, "the choice comes", func() bool {
		got := r.answer(text, nil)
		return strings.Contains(got, `"say":"unsure"`) && strings.Contains(got, `"outcome":"chosen"`)
	})
	if send(t, http.MethodGet, console.url+"/api/tasks", "", "", &list); len(list.Tasks) > 0 {
		t.Errorf("the person was asked %d times", len(list.Tasks))
	}
	console.kill()
	if rows, summary := exported(t, "--kind", "chat", "--console", folder); len(rows) != 1 || !strings.Contains(rows[0], `"person":"Ann"`) {
		t.Errorf("the rows are %q, %s", rows, summary)
	}
}

func TestNobodyIsAskedIfSureOrWithoutASession(t *testing.T) {
	t.Parallel()
	step := defaultStep(t)
	best := step.Elements.Generation.Candidate.Option
	file := calibrationFor(t, step)
	for name, test := range map[string]struct{ settings, keys, outcome, reason string }{
		"a sure decision":  {",error=0.5", `, "ask": "run/1"`, agent.AskSure, ""},
		"no session named": {",error=0.05", "", agent.AskFallback, "names no coaching session"},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveModel(t, "--ask", file+test.settings)
			coach := newCoaches(t, chooses(`{"say": "unsure", "tool_calls": []}`))
			r.expect(204, "", "PUT", session1, llmSession("openai", coach.URL))
			out := r.ask("a", cupOptions(test.keys))[0]
			s := unsureStepOf(t, out)
			c := s.Elements.Generation.Candidate
			if c.Ask == nil || c.Ask.Outcome != test.outcome || !strings.Contains(c.Ask.Reason, test.reason) || c.Option != best || s.Origin != protocol.OriginModel || c.Ask.Option != nil {
				t.Errorf("got %s", out.InternalSteps[0])
			}
			if coach.seen() != "" {
				t.Error("the coach was asked")
			}
		})
	}
}

func TestCalibrationOfAnotherModelIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	step := defaultStep(t)
	file := calibrationFor(t, step)
	other := step
	other.Elements.Generation.Candidate.Format = "llama native 0"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another model":        {[]string{"--model", tinyModel(t, synth.Qwen3), "--ask", file + ",error=0.05"}, "--ask: the calibration is of the model sha256:"},
		"another format":       {[]string{"--ask", calibrationFor(t, other) + ",error=0.05"}, "--ask: the calibration is of the prompt format llama native 0"},
		"an unknown rate":      {[]string{"--ask", file}, "the calibration has no error rate 0.1, only 0.05, 0.5"},
		"no file":              {[]string{"--ask", "error=0.2"}, "has no file"},
		"no file, by default":  {[]string{"--ask", "error=0.1"}, "has no file"},
		"a missing file":       {[]string{"--ask", file + "x"}, "no such file"},
		"weights that change":  {[]string{"--ask", file + ",error=0.05", "--weights-dir", t.TempDir()}, "weights may change"},
		"an engine at a URL":   {[]string{"--ask", file + ",error=0.05", "--engine", "http://127.0.0.1:1", "--model", tinyModel(t, synth.Qwen3)}, "engines at URLs"},
		"an agent of its own":  {[]string{"--ask", file + ",error=0.05", "--agent", "history-summarized"}, "not possible with --agent"},
		"another kind of file": {[]string{"--ask", os.Args[0]}, "regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), append([]string{"--port", "0", "--log-level", "error", "--threads", "1"}, test.args...), io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestServerAsksByACalibrationOfItsOwnRecords: exchanges with outcomes and corrections, then the server with the file.
func TestServerAsksByACalibrationOfItsOwnRecords(t *testing.T) {
	t.Parallel()
	r := serveModel(t)
	random := rand.New(rand.NewPCG(1, 1))
	var records, labelled strings.Builder
	for i, made := 0, 0; made < 16; i++ {
		e := household.New(uint64(100+i), household.Options{Split: household.Eval})
		options, right, ok := e.Choices(random, 5)
		if !ok {
			continue // the right decision is a reply
		}
		made++
		list := protocol.Raw("[]")
		for _, d := range options {
			list = protocol.AppendElements(list, d.AppendJSON(nil))
		}
		sent := e.Input()
		in := user(sent.ID, sent.Instruction.Content).tools(string(protocol.AppendElements(nil, sent.Tools...)))
		in.Attributes = json.RawMessage(sent.Attributes)
		line, outs := r.exchanged(fmt.Sprint(i), in.extra(`{"inference_mode": true, "options": `+string(list)+`}`))
		g := unsureStepOf(t, outs[0]).Elements.Generation
		fmt.Fprintf(&labelled, `{"model": %q, "format": %q, "probabilities": [`, g.Version, g.Candidate.Format)
		for k, p := range g.Candidate.Probabilities {
			fmt.Fprintf(&labelled, "%s%g", map[bool]string{true: ","}[k > 0], p)
		}
		fmt.Fprintf(&labelled, "], \"right\": %d}\n", right)
		if g.Candidate.Option == right {
			records.WriteString(strings.TrimSuffix(line, "}\n") + `, "outcomes": [{"outcome": "success"}]}` + "\n")
			continue
		}
		records.WriteString(line)
		line, _ = r.exchanged(fmt.Sprint(i, "b"), in.extra(`{"coaching": {"kind": "replace_decision", "decision": `+string(options[right].AppendJSON(nil))+`}}`))
		records.WriteString(line)
	}
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{"records.jsonl": records.String(), "labelled.jsonl": labelled.String()} {
		path, out := filepath.Join(dir, name), filepath.Join(dir, name+".json")
		writeFile(t, path, text)
		var log bytes.Buffer
		if err := run(t.Context(), []string{"calibrate", "--error", "0.3,0.2", "--out", out, path}, io.Discard, &log); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, log.String())
		}
		made, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(made))
		asks := serveModel(t, "--ask", out+",error=0.3")
		if s := unsureStepOf(t, asks.ask("a", cupOptions(""))[0]); s.Elements.Generation.Candidate.Ask == nil {
			t.Errorf("%s: the step has no set", name)
		}
	}
	if files[0] != files[1] {
		t.Errorf("records and labelled decisions differ:\n%s\n%s", files[0], files[1])
	}
}

// TestFailuresOfChosenOptionsKeepTheCoverage: a simulator runs only the most probable option, so a failure does not say
// which one is right.
func TestFailuresOfChosenOptionsKeepTheCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	draw := func() conformal.Decision { // of a model that is too sure
		p, sum, right := make([]float64, 4), 0.0, 0
		at, truth := random.Float64(), [4]float64{0.55, 0.25, 0.15, 0.05}
		for k, x := range random.Perm(4) {
			if at >= 0 {
				right = x
			}
			at -= truth[k]
			p[x] = math.Pow(truth[k]*(0.5+random.Float64()), 2)
			sum += p[x]
		}
		for k := range p {
			p[k] /= sum
		}
		return conformal.Decision{Probabilities: p, Right: right}
	}
	request := strings.TrimSpace(body(t, "a", cupOptions("")))
	decoded, err := protocol.DecodeAgentRequest(protocol.Raw(request))
	if err != nil {
		t.Fatal(err)
	}
	options, _ := protocol.Get(decoded.Inputs[0].ExtraKeys, "options")
	var decisions []*protocol.AgentDecision
	for e := range protocol.Elements(options) {
		d, err := agent.Option(e)
		if err != nil {
			t.Fatal(err)
		}
		decisions = append(decisions, d)
	}
	var records strings.Builder
	for range 1000 {
		d := draw()
		best := slices.Index(d.Probabilities, slices.Max(d.Probabilities))
		numbers, err := json.Marshal(d.Probabilities)
		if err != nil {
			t.Fatal(err)
		}
		out := protocol.AgentOutput{
			RequestID: "a", SourceID: decoded.Inputs[0].ID, Status: protocol.StatusCompleted, Output: decisions[best], Memory: protocol.Raw("{}"),
			InternalSteps: []protocol.Raw{protocol.Raw(fmt.Sprintf(`{"id":"step-0","component":"commander","origin":"model","full_prompt":"p",`+
				`"input_elements":{"generation":{"model_version":"m","candidate":{"option":%d,"format":"f","probabilities":%s}}},"output_raw":""}`, best, numbers))},
		}
		fmt.Fprintf(&records, "{\"request\": %s, \"response\": %s, \"outcomes\": [{\"outcome\": %q}]}\n",
			request, protocol.AgentOutputs{out}.AppendJSON(nil), map[bool]string{true: "success", false: "failure"}[best == d.Right])
	}
	path := filepath.Join(t.TempDir(), "x.jsonl")
	writeFile(t, path, records.String())
	var log bytes.Buffer
	if err := run(t.Context(), []string{"calibrate", "--error", "0.02,0.1,0.3,0.5", "--out", path + ".json", path}, io.Discard, &log); err != nil {
		t.Fatal(err)
	}
	file, err := conformal.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if file.Decisions != 1000 || !strings.Contains(log.String(), "failed: the least probable other option counts as right") {
		t.Errorf("%d decisions count: %s", file.Decisions, log.String())
	}
	for _, rate := range file.Rates {
		covered := 0
		const n = 1000
		for range n {
			if d := draw(); slices.Contains(conformal.Set(d.Probabilities, rate.Threshold), d.Right) {
				covered++
			}
		}
		if _, high := conformal.Interval(covered, n); high < rate.Expected || high < rate.HeldOut.Coverage {
			t.Errorf("%d of %d sets have the right option, although the calibration says %+v", covered, n, rate)
		}
	}
}

func TestBadRecordsOfACalibrationAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	const line = `{"model": "m", "format": "f", "probabilities": [0.5, 0.5], "right": 1}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"a right option that is not there": {strings.Replace(line, `"right": 1`, `"right": 2`, 1), "line 1: right is 2, want the index of one of the 2"},
		"no right option":                  {strings.Replace(line, `, "right": 1`, ``, 1), "line 1: right is -1"},
		"a sum of 1.1":                     {line + strings.Replace(line, "0.5", "0.6", 1), "line 2: the probabilities sum up to 1.1"},
		"a negative probability":           {strings.Replace(line, "0.5", "-0.5", 1), "probabilities[0] is -0.5"},
		"one option":                       {strings.Replace(strings.Replace(line, "0.5, 0.5", "1", 1), `"right": 1`, `"right": 0`, 1), "has 1 elements, want 2 to"},
		"no model":                         {strings.Replace(line, `"m"`, `""`, 1), "model or format is missing"},
		"an unknown member":                {strings.Replace(line, `"right"`, `"more": 1, "right"`, 1), "more: unknown field"},
		"two models":                       {line + strings.Replace(line, `"m"`, `"n"`, 1), "of several models or formats"},
		"too few":                          {strings.Repeat(line, 37), "an error rate of 0.05 needs at least 38 decisions"},
		"no exchange":                      {`{"a": 1}`, "an exchange has the members"},
	} {
		writeFile(t, path, test.text)
		if err := run(t.Context(), []string{"calibrate", path}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for want, args := range map[string][]string{
		"nothing to calibrate": nil, "--error": {"--error", "1", path}, "exists": {"--out", path, path}, "no such file": {path + "x"},
	} {
		if err := run(t.Context(), append([]string{"calibrate"}, args...), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", args, err)
		}
	}
}
