package prompt

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/coaching/backend"
	"agentd/coaching/repair"
	"agentd/coaching/repair/internal/casetest"
	"agentd/protocol"
)

// page is a question as a file.
func page(q backend.Question) string {
	var b strings.Builder
	b.WriteString("==== system\n" + q.System + "\n")
	for _, m := range q.Messages {
		b.WriteString("==== " + m.Role + "\n" + m.Text + "\n")
	}
	b.WriteString("==== schema " + q.SchemaName + "\n" + string(q.Schema) + "\n==== exact schema\n" + string(q.Exact) + "\n")
	return b.String()
}

func TestQuestionMatchesGoldenFiles(t *testing.T) {
	for _, name := range []string{"failure", "suboptimal", "format", "own_input"} {
		t.Run(name, func(t *testing.T) {
			casetest.Golden(t, name+".question", page(Question(load(t, name), 0)))
		})
	}
}

// longRun is a request with n steps, each with the history of all before it, a
// report and execution details of size bytes.
func longRun(n, size, target int) []byte {
	var steps, history []string
	for i := range n {
		report := fmt.Sprintf("report-%d %s end-%d", i, strings.Repeat("x", size), i)
		steps = append(steps, fmt.Sprintf(`{"id":%d,"input":{"id":1,"instruction":{"type":"env","content":%q},"tools":[{"name":"look","description":"d","parameters":{}}],"memory":{"history":[%s]}},"output":{"say":"said-%d"},"execution":{"log":"%s"}}`,
			i, report, strings.Join(history, ","), i, strings.Repeat("y", size)))
		history = append(history, fmt.Sprintf(`{"author":"SYSTEM","content":%q}`, report), fmt.Sprintf(`{"author":"MODEL","content":"{\"say\": \"said-%d\", \"action\": {}}"}`, i))
	}
	return fmt.Appendf(nil, `{"run_id":"r","request_id":"c","kind":"failure","stage":"goal","target_step_id":%d,"trajectory":[%s],"reinjection_points":[{"id":"p","input_step_id":%d}]}`,
		target, strings.Join(steps, ","), target)
}

// TestQuestionIsForTheAdapterOfTheStep, in every try.
func TestQuestionIsForTheAdapterOfTheStep(t *testing.T) {
	for name, c := range map[string]struct{ extra, want string }{
		"an adapter":         {`{"adapter":"careful"}`, "careful"},
		"none":               {`{}`, ""},
		"null":               {`{"adapter":null}`, ""},
		"something else":     {`{"adapter":7}`, ""},
		"adapter of another": {`{"coaching":{"adapter":"careful"}}`, ""},
	} {
		task := newCase(t, fmt.Appendf(nil, `{"run_id":"r","request_id":"c","kind":"failure","stage":"goal","target_step_id":1,"trajectory":[
			{"id":0,"input":{"id":1,"instruction":{"type":"user","content":"a"},"extra_keys":{"adapter":"other"}}},
			{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"a"},"extra_keys":%s}}],"reinjection_points":[{"id":"p","input_step_id":1}]}`, c.extra))
		q := Question(task, 0)
		if again := Retry(q, "x", errors.New("y")); q.Adapter != c.want || again.Adapter != c.want {
			t.Errorf("%s: the question is for %q and then %q, want %q", name, q.Adapter, again.Adapter, c.want)
		}
	}
}

func length(q backend.Question) int {
	n := len(q.System) + len(q.Schema)
	for _, m := range q.Messages {
		n += len(m.Text)
	}
	return n
}

func TestQuestionKeepsItsBudget(t *testing.T) {
	for _, run := range []struct{ steps, size, target int }{{1, 100_000, 0}, {2, 50_000, 0}, {40, 10, 20}, {60, 2_000, 30}, {60, 2_000, 0}, {200, 300, 199}} {
		task := newCase(t, longRun(run.steps, run.size, run.target))
		for _, budget := range []int{minBudget, 16_000, 40_000, DefaultBudget} {
			q := Question(task, budget)
			if n := length(q); n > budget-retryBytes(budget) {
				t.Errorf("%d steps of %d bytes: %d bytes for a budget of %d", run.steps, run.size, n, budget)
			}
			for range 4 {
				q = Retry(q, strings.Repeat("a", 50_000), errors.New(strings.Repeat("e", 50_000)))
				if n := length(q); n > budget {
					t.Errorf("%d steps of %d bytes: asked again with %d bytes for a budget of %d", run.steps, run.size, n, budget)
				}
			}
		}
	}
}

func TestQuestionNotesWhatItLeavesOut(t *testing.T) {
	const target = 30
	run := strings.Replace(string(longRun(100, 1_000, target)), `"env","content":"report-5 `, `"user","content":"report-5 `, 1)
	text := Question(newCase(t, []byte(run)), 24_000).Messages[0].Text
	for _, want := range []string{
		"### Step 30, the target step\n- Report of the environment:\n```\nreport-30 " + strings.Repeat("x", 1_000) + " end-30\n```",
		"### Step 99\n- Report of the environment:\n```\nreport-99 " + strings.Repeat("x", 1_000) + " end-99\n```",
		"### Step 5\n- Instruction of a person:\n```\nreport-5 " + strings.Repeat("x", 200),
		"(5 steps, from 0 to 4, are left out for lack of room)",
		"are left out for lack of room)",
		"characters left out]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	shown := 0
	for i := range 100 {
		if regexp.MustCompile(fmt.Sprintf(`### Step %d\b`, i)).MatchString(text) {
			shown++
		}
	}
	said := 0
	for _, m := range regexp.MustCompile(`\((\d+) steps, from`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		said += n
	}
	said += strings.Count(text, "is left out for lack of room")
	if shown+said != 100 {
		t.Errorf("%d steps are shown and %d said to be left out, of 100", shown, said)
	}
	if near, far := strings.Count(text, "### Step 29"), strings.Count(text, "### Step 3\n"); near != 1 || far != 0 {
		t.Errorf("step 29, beside the target, is shown %d times, step 3 %d times", near, far)
	}
}

func TestHistoriesAreNotRepeated(t *testing.T) {
	text := Question(newCase(t, longRun(12, 5, 6)), 0).Messages[0].Text
	for i := range 12 {
		if n := strings.Count(text, fmt.Sprintf("end-%d", i)+"\n"); n != 1 {
			t.Errorf("the report of step %d stands in the question %d times", i, n)
		}
	}
}

func TestMemoryChangesAreShown(t *testing.T) {
	body := `{"run_id":"r","request_id":"c","kind":"failure","stage":"goal","target_step_id":2,"reinjection_points":[{"id":"p","input_step_id":2}],"trajectory":[
		{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"one"},"attributes":{"a":1},"memory":{"history":[{"author":"USER","content":"before"},{"author":"MODEL","content":"yes"}]}},"output":{"say":"uno"}},
		{"id":2,"input":{"id":1,"instruction":{"type":"user","content":"two"},"attributes":{"a":2},"memory":{"summary":"short","history":[{"author":"USER","content":"before"},{"author":"USER","content":"inserted"}]}},"output":{"say":"due"}}]}`
	text := Question(newCase(t, []byte(body)), 0).Messages[0].Text
	for _, want := range []string{
		"- Task attributes from here on: {\"a\": 2}\n", "- Summary in memory from here on: short\n",
		"- Memory: the last 1 entry of the step before are not in it\n", "- Memory holds besides: Person: inserted\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
}

func TestToolsAreShortenedToTheirShare(t *testing.T) {
	var list []string
	for i := range 300 {
		list = append(list, fmt.Sprintf(`{"name":"tool_%d","description":"%s","parameters":{"p":{"type":"string","description":"%s"}}}`, i, strings.Repeat("d", 200), strings.Repeat("e", 200)))
	}
	body := `{"run_id":"r","request_id":"c","kind":"failure","stage":"goal","target_step_id":1,"reinjection_points":[{"id":"p","input_step_id":1}],"trajectory":[
		{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"one"},"tools":[` + strings.Join(list, ",") + `]}}]}`
	task := newCase(t, []byte(body))
	for _, c := range []struct {
		budget int
		want   []string
	}{
		{1_000_000, []string{"- tool_299: " + strings.Repeat("d", 200) + "\n  arguments: {\"type\": \"object\""}},
		{300_000, []string{"- tool_299: ddd", "\n  arguments: p \"string\" (required);\n", "(descriptions were shortened for lack of room)"}},
		{80_000, []string{"- tool_299: p \"string\" (required);\n", "(descriptions and schemas were left out for lack of room)"}},
		{minBudget, []string{"- tool_0: p", "characters left out]", "(descriptions and schemas were left out for lack of room)"}},
	} {
		q := Question(task, c.budget)
		for _, want := range c.want {
			if !strings.Contains(q.Messages[0].Text, want) {
				t.Errorf("budget %d: %q is missing", c.budget, want)
			}
		}
		if n := length(q); n > c.budget {
			t.Errorf("budget %d: %d bytes", c.budget, n)
		}
		if !q.Exact.IsValid() || len(q.Exact) > maxExact {
			t.Errorf("budget %d: an exact schema of %d bytes", c.budget, len(q.Exact))
		}
	}
}

func TestManyPointsAreCutToTheNearest(t *testing.T) {
	var points []string
	req := load(t, "failure").Request
	for i := range 3 * maxListedPoints {
		points = append(points, fmt.Sprintf(`{"id":"p%d","input_step_id":%d}`, i, i/maxListedPoints))
	}
	body := protocol.SetMember(req.AppendJSON(nil), "reinjection_points", protocol.Raw("["+strings.Join(points, ",")+"]"))
	text := Question(newCase(t, body), 0).Messages[0].Text
	if n := strings.Count(text, "in place of the decision of step 1, the target step"); n != maxListedPoints {
		t.Errorf("%d points at the target step are offered, want %d", n, maxListedPoints)
	}
	if want := "(200 more points, farther from the target step, are not offered)"; !strings.Contains(text, want) {
		t.Errorf("%q is missing", want)
	}
}

func compile(schema protocol.Raw) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("answer", doc); err != nil {
		return nil, err
	}
	return c.Compile("answer")
}

func TestSchemasCompileAndAreStrict(t *testing.T) {
	for _, name := range []string{"failure", "suboptimal", "format", "own_input"} {
		q := Question(load(t, name), 0)
		for kind, schema := range map[string]protocol.Raw{"portable": q.Schema, "exact": q.Exact} {
			doc, err := compile(schema)
			if err != nil {
				t.Fatalf("%s of %s: %v", kind, name, err)
			}
			answer := `{"why":"w","outcome":"abandoned","reinjection_point_id":"` + load(t, name).Points[0].ID + `","decision":{"say":""}}`
			if kind == "exact" {
				answer = `{"why":"w","outcome":"abandoned"}`
			}
			v, _ := jsonschema.UnmarshalJSON(strings.NewReader(answer))
			if err := doc.Validate(v); err != nil {
				t.Errorf("%s of %s refuses %s: %v", kind, name, answer, err)
			}
		}
		checkStrict(t, q.Schema)
	}
}

// checkStrict checks the rule of strict modes: every object requires all of its
// properties and allows no others.
func checkStrict(t *testing.T, schema protocol.Raw) {
	t.Helper()
	properties, isObject := protocol.Get(schema, "properties")
	if isObject {
		var all []string
		for name, property := range protocol.Members(properties) {
			all = append(all, name)
			checkStrict(t, property)
		}
		required, _ := protocol.Get(schema, "required")
		if got := string(required); got != enum(all) {
			t.Errorf("required is %s, want %s", got, enum(all))
		}
		if more, _ := protocol.Get(schema, "additionalProperties"); string(more) != "false" {
			t.Errorf("additionalProperties is %s in %s", more, schema)
		}
	}
	if items, ok := protocol.Get(schema, "items"); ok {
		checkStrict(t, items)
	}
	list, _ := protocol.Get(schema, "anyOf")
	for one := range protocol.Elements(list) {
		checkStrict(t, one)
	}
}

func TestUnusableToolsAskForTextOnly(t *testing.T) {
	req := load(t, "own_input").Request
	req.ReinjectionPoints = req.ReinjectionPoints[:1]
	q := Question(repair.NewCase(req), 0)
	for _, part := range []string{string(q.Schema), string(q.Exact), q.System[strings.Index(q.System, "No calls can be made here"):]} {
		if strings.Contains(part, "tool_calls") {
			t.Errorf("calls are asked for in %s", part)
		}
	}
}

func TestRetryShowsTheAnswerAndItsFault(t *testing.T) {
	task := load(t, "failure")
	q := Question(task, 0)
	again := Retry(q, " {} ", errors.New("it is empty"))
	if len(q.Messages) != 1 {
		t.Error("the question itself was changed")
	}
	want := []backend.Message{q.Messages[0], {Role: backend.RoleAssistant, Text: "{}"},
		{Role: backend.RoleUser, Text: "This answer can't be used: it is empty\n\nAnswer again, with the whole JSON object and nothing else. Abandon if you can't."}}
	if diff := cmp.Diff(want, again.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if third := Retry(again, "", errors.New("x")); len(third.Messages) != 5 || third.Messages[3].Text != "(nothing)" {
		t.Errorf("the third question has %d messages", len(third.Messages))
	}
}
