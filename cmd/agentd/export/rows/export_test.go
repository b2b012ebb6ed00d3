package rows

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
)

// tools of a test, as an input and as a prompt have them.
const (
	inputTools  = `[{"name": "go_to", "description": "Drive.", "parameters": {"room": {"type": "string", "description": "Where."}}}]`
	promptTools = `[{"type":"function","function":{"name":"go_to","description":"Drive.","parameters":{"type":"object","properties":{"room":{"type":"string"},"target_robot":{"type":"string"}}}}}]`
)

// call is the output of a decision that drives to a room.
func call(room string) string {
	return fmt.Sprintf(`{"say": "", "tool_calls": [{"name": "go_to", "arguments": {"room": %q}, "target_robot_name": "rover"}]}`, room)
}

// candidate is an AgentOutput with one internal step.
type candidate struct {
	output     string // of a completed one; "" is an error
	origin     string
	generation string // members of input_elements.generation
	memory     string
	raw        string // output_raw
}

func (c candidate) json(request string, index int) string {
	result := fmt.Sprintf(`"status": "completed", "output": %s`, c.output)
	if c.output == "" {
		result = `"status": "error", "error": {"code": "invalid_output", "message": "no decision"}`
	}
	if c.memory == "" {
		c.memory = "{}"
	}
	return fmt.Sprintf(`{"request_id": %q, "source_id": 7, "candidate_index": %d, %s, "memory": %s, "internal_steps": [{
		"id": "step-0", "component": "commander", "origin": %q, "full_prompt": "p", "output_raw": %q,
		"input_elements": {"messages": [{"role": "system", "content": "Decide."}, {"role": "user", "content": "Go."}], "tools": %s, "generation": {%s}}}]}`,
		request, index, result, c.memory, c.origin, c.raw, promptTools, c.generation)
}

// line is an exchange with one input. more are members beside request and response.
func line(request, memory, extra, more string, candidates ...candidate) string {
	var outs []string
	for i, c := range candidates {
		outs = append(outs, c.json(request, i))
	}
	text := fmt.Sprintf(`{"request": {"request_id": %q, "inputs": [{"id": 7, "instruction": {"type": "user", "content": "Go."}, "tools": %s, "memory": %s, "num_outputs": %d, "extra_keys": %s}]}, "response": [%s]%s}`,
		request, inputTools, memory, len(candidates), extra, strings.Join(outs, ","), more)
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", ""), "\t", "") + "\n"
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rowsOf exports paths and decodes the lines.
func rowsOf[T any](t *testing.T, c Config, paths ...string) ([]T, *Summary) {
	t.Helper()
	var out bytes.Buffer
	s, err := run(t, c, &out, paths...)
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	for text := range bytes.Lines(out.Bytes()) {
		var row T
		if err := json.Unmarshal(text, &row, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		list = append(list, row)
	}
	if len(list) != s.Rows {
		t.Errorf("%d lines, and the summary says %s", len(list), s)
	}
	return list, s
}

func run(t *testing.T, c Config, out io.Writer, paths ...string) (*Summary, error) {
	t.Helper()
	sources, err := Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	if c.Format == "" {
		c.Format = JSONL
	}
	return Run(t.Context(), sources, c, out)
}

func TestChatRowsEndWithTheDecision(t *testing.T) {
	path := write(t, "a.jsonl", line("r1", "{}", "{}", `, "outcomes": [{"outcome": "success"}, null], "run_id": "run"`,
		candidate{output: call("hall"), origin: "model", generation: `"reasoning": "The hall."`},
		candidate{output: `{"say": "Where?"}`, origin: "model"}))
	rows, _ := rowsOf[chatRow](t, Config{Kind: Chat}, path)
	asked := []message{{Role: "system", Content: "Decide."}, {Role: "user", Content: "Go."}}
	about := About{Source: "a.jsonl:1", RunID: "run", RequestID: "r1", SourceID: 7, Component: "commander", Origin: "model", Status: "completed", Outcome: "success"}
	other := about
	other.Outcome, other.Index = "", 1
	want := []chatRow{
		{append(asked[:2:2], message{Role: "assistant", Reasoning: "The hall.", ToolCalls: []toolCall{{"function", function{"go_to", `{"room":"hall","target_robot":"rover"}`}}}}), promptTools, about},
		{append(asked[:2:2], message{Role: "assistant", Content: "Where?"}), promptTools, other},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
}

func TestFiltersKeepWhatTheyName(t *testing.T) {
	path := write(t, "a.jsonl", line("r1", "{}", "{}", `, "outcomes": [{"outcome": "success"}, {"outcome": "failure"}, null]`,
		candidate{output: call("hall"), origin: "model"}, candidate{output: call("attic"), origin: "coaching"}, candidate{origin: "model"}))
	for name, c := range map[string]struct {
		config Config
		want   []int64 // candidates
	}{
		"nothing named":       {Config{}, []int64{0, 1}},
		"origin":              {Config{Origins: []string{"coaching"}}, []int64{1}},
		"component":           {Config{Components: []string{"summarizer"}}, nil},
		"two outcomes":        {Config{Outcomes: []string{Failure, Success}}, []int64{0, 1}},
		"outcome":             {Config{Outcomes: []string{Success}}, []int64{0}},
		"unknown outcome":     {Config{Outcomes: []string{OutcomeUnknown}}, nil}, // an error, no decision
		"status of no row":    {Config{Statuses: []string{"error"}}, nil},
		"status and outcomes": {Config{Statuses: []string{"completed"}, Outcomes: []string{Failure}}, []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Kind = Chat
			rows, _ := rowsOf[chatRow](t, c.config, path)
			var got []int64
			for _, row := range rows {
				got = append(got, row.Index)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// texts are the last messages of pairs, short.
func texts(rows []pairRow) (list []string) {
	say := func(m []message) string {
		if len(m[0].ToolCalls) > 0 {
			return string(m[0].ToolCalls[0].Function.Arguments)
		}
		return m[0].Content
	}
	for _, row := range rows {
		list = append(list, row.Reason+": "+say(row.Chosen)+" > "+say(row.Rejected))
	}
	return list
}

const (
	toHall  = `{"room":"hall","target_robot":"rover"}`
	toAttic = `{"room":"attic","target_robot":"rover"}`
)

func TestCorrectionThatLedOnBeatsWhatItReplaced(t *testing.T) {
	asked := line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"}, candidate{origin: "model", raw: "go go go<|im_end|>\n"})
	corrected := line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`})
	onward := line("r3", `{ "history":[1] }`, "{}", "", candidate{output: call("hall"), origin: "model"})
	want := []string{"correction: " + toHall + " > " + toAttic, "correction: " + toHall + " > go go go"}

	rows, _ := rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", asked+corrected+onward))
	if diff := cmp.Diff(want, texts(rows)); diff != "" {
		t.Errorf("in one file: %s", diff)
	}
	rows, _ = rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "c.jsonl", corrected), write(t, "o.jsonl", onward), write(t, "a.jsonl", asked))
	if diff := cmp.Diff(want, texts(rows)); diff != "" {
		t.Errorf("in files of another order: %s", diff)
	}
	rows, _ = rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", asked+corrected))
	if len(rows) != 0 {
		t.Errorf("the run did not go on: %q", texts(rows))
	}
	rows, _ = rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", corrected+onward))
	if len(rows) != 0 {
		t.Errorf("nothing was replaced: %q", texts(rows))
	}
}

func TestBestCandidateBeatsThoseOfLowerRank(t *testing.T) {
	hall, attic, where := candidate{output: call("hall"), origin: "model"}, candidate{output: call("attic"), origin: "model"}, candidate{output: `{"say": "Where?"}`, origin: "model"}
	for name, c := range map[string]struct {
		outcomes string
		want     []string
	}{
		"outcomes":              {`[{"outcome": "failure"}, {"outcome": "success"}, null]`, []string{"outcome: " + toAttic + " > " + toHall}},
		"rewards":               {`[{"reward": 0.5}, {"reward": 0.1}, {"reward": -2}]`, []string{"outcome: " + toHall + " > " + toAttic, "outcome: " + toHall + " > Where?"}},
		"equal rewards":         {`[{"reward": 1}, {"reward": 1}, null]`, nil},
		"nothing known":         {`[null, {"outcome": "interrupted"}, null]`, nil},
		"only failures":         {`[{"outcome": "failure"}, {"outcome": "failure"}, null]`, nil},
		"reward before outcome": {`[{"outcome": "success", "reward": 0.2}, {"outcome": "failure", "reward": 0.3}, null]`, []string{"outcome: " + toAttic + " > " + toHall}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, _ := rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", line("r", "{}", "{}", `, "outcomes": `+c.outcomes, hall, attic, where)))
			if diff := cmp.Diff(c.want, texts(rows)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const tokens = `"prompt_token_ids": [1, 2], "token_ids": [3, 4], "logprobs": [-0.5, 0], "masked": [null, 0], "forced": [1], "drafted": [], "finish_reason": "stop", "model_version": "v2"`

func TestRolloutsHaveTokensAndLogprobs(t *testing.T) {
	path := write(t, "a.jsonl", line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model", generation: tokens, raw: "text"}, candidate{output: call("hall"), origin: "model"}))
	rows, s := rowsOf[rolloutRow](t, Config{Kind: Rollouts}, path)
	half, none := -0.5, 0.0
	want := []rolloutRow{{[]int64{1, 2}, []int64{3, 4}, []*float64{&half, &none}, []*float64{nil, &none}, []int64{1}, []int64{}, "text", "stop", "v2", About{Source: "a.jsonl:1", RequestID: "r", SourceID: 7, Component: "commander", Origin: "model", Status: "completed"}}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if s.Skipped[errNoTokens.Error()] != 1 {
		t.Errorf("a candidate without tokens is not counted: %s", s)
	}
}

func TestParquetHoldsSameRowsAsJSONL(t *testing.T) {
	text := line("r1", "{}", "{}", `, "outcomes": [{"reward": 2}, {"reward": 1}]`, candidate{output: call("hall"), origin: "model", generation: tokens, raw: "t"}, candidate{output: `{"say": "Where?"}`, origin: "model", generation: tokens})
	path := write(t, "a.jsonl", strings.Repeat(text, 40))
	t.Run("chat", func(t *testing.T) { sameInParquet[chatRow](t, Chat, path) })
	t.Run("pairs", func(t *testing.T) { sameInParquet[pairRow](t, Pairs, path) })
	t.Run("rollouts", func(t *testing.T) { sameInParquet[rolloutRow](t, Rollouts, path) })
}

func sameInParquet[T any](t *testing.T, kind, path string) {
	want, _ := rowsOf[T](t, Config{Kind: kind}, path)
	var out bytes.Buffer
	if _, err := run(t, Config{Kind: kind, Format: Parquet}, &out, path); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[T](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || len(got) < 40 {
		t.Errorf("%d rows: %s", len(got), diff)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	good := line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model"})
	for name, c := range map[string]struct{ text, want string }{
		"syntax":       {good + "\n\n{\"request\": }", "a.jsonl line 4: "},
		"no exchange":  {good + "{}\n", `a.jsonl line 2: an exchange has the members "request"`},
		"request":      {good + good + strings.Replace(good, `"content"`, `"text"`, 1), "a.jsonl line 3: the request is invalid: "},
		"response":     {strings.Replace(good, `"source_id": 7`, `"source_id": 8`, 1), "a.jsonl line 1: the response is invalid: "},
		"outcomes":     {line("r", "{}", "{}", `, "outcomes": []`, candidate{output: call("hall")}), "a.jsonl line 1: outcomes has 0 elements, and the response 1"},
		"many lines":   {strings.ReplaceAll(good, ",", ",\n") + "x", fmt.Sprintf("a.jsonl line %d: ", strings.Count(good, ",")+2)},
		"other masked": {line("r", "{}", "{}", "", candidate{output: call("hall"), generation: `"prompt_token_ids": [], "token_ids": [1], "logprobs": [0], "masked": [0, 0]`}), "a.jsonl line 1: candidate 0: input_elements.generation has 1 token_ids and 2 masked"},
		"other tokens": {line("r", "{}", "{}", "", candidate{output: call("hall"), generation: `"prompt_token_ids": [], "token_ids": [1], "logprobs": []`}), "a.jsonl line 1: candidate 0: input_elements.generation has 1 token_ids and 0 logprobs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, Config{Kind: Rollouts}, io.Discard, write(t, "a.jsonl", c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestUnknownKindAndFormatAreErrors(t *testing.T) {
	for _, c := range []Config{{Kind: "sft", Format: JSONL}, {Kind: Chat, Format: "csv"}} {
		if _, err := Run(t.Context(), &Sources{secrets: secrets{}}, c, io.Discard); err == nil || !strings.Contains(err.Error(), "Config.") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// columns are all texts of a row, by the names of their columns.
func columns(v reflect.Value, name string, found map[string]string) {
	switch v.Kind() {
	case reflect.String:
		found[name] += v.String() + "\n"
	case reflect.Struct:
		for i := range v.NumField() {
			columns(v.Field(i), name+"."+v.Type().Field(i).Name, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			columns(v.Index(i), name, found)
		}
	}
}

// TestRowsOfOtherPromptsAreSkipped: where a prompt goes on with tokens, its messages may not give its text.
func TestRowsOfOtherPromptsAreSkipped(t *testing.T) {
	told := candidate{output: call("hall"), origin: "model", generation: `"prompt_from": "tokens"`}
	other := candidate{output: call("attic"), origin: "model", generation: `"prompt_from": "tokens", "prompt_differs_at": 12`}
	corrected := line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`})
	onward := line("r3", `{"history": [1]}`, "{}", "", told)
	path := write(t, "a.jsonl", line("r1", "{}", "{}", "", other, told)+corrected+onward)
	for kind, want := range map[string]int{Chat: 3, Pairs: 0} {
		var out bytes.Buffer
		s, err := run(t, Config{Kind: kind}, &out, path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rows != want || !strings.Contains(s.String(), errOtherText.Error()) {
			t.Errorf("%s: %s", kind, s)
		}
	}
}

// TestPromptOfCorrectionIsThatOfReplacedAnswer: the model was asked for that, not for the correction.
func TestPromptOfCorrectionIsThatOfReplacedAnswer(t *testing.T) {
	asked := strings.ReplaceAll(line("r1", "{}", "{}", "", candidate{output: call("attic"), origin: "model"}), `"content": "Decide."`, `"content": "As asked."`)
	corrected := line("r2", "{}", `{"coaching": {"kind": "replace_say", "text": "x"}}`, "", candidate{output: call("hall"), origin: "coaching", memory: `{"history": [1]}`})
	rows, _ := rowsOf[pairRow](t, Config{Kind: Pairs}, write(t, "a.jsonl", asked+corrected+line("r3", `{"history": [1]}`, "{}", "", candidate{output: call("hall"), origin: "model"})))
	if len(rows) != 1 || rows[0].Prompt[0].Content != "As asked." {
		t.Errorf("%+v", rows)
	}
}
