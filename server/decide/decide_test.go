package decide

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted gives its chances to the answers of each question in turn.
type scripted struct {
	openai.Model
	chances []float64
	refuses error // Choice
	chats   []format.Chat
	answers [][]protocol.AgentDecision
	list    []generation.Request
}

func (*scripted) Served() generation.Served {
	return generation.Served{Name: "m", Window: 100, Places: 420}
}
func (*scripted) Adapter(name string) (generation.AdapterID, bool) { return 7, name == "careful" }
func (*scripted) Adapters() []string                               { return []string{"careful"} }

func (m *scripted) Choice(_ context.Context, c *format.Chat, answers []protocol.AgentDecision, _ bool) (*generation.Request, error) {
	if m.refuses != nil {
		return nil, m.refuses
	}
	if m.chances != nil { // one question at a time
		m.chats, m.answers = append(m.chats, *c), append(m.answers, answers)
	}
	return &generation.Request{Params: generation.Params{N: len(answers)}}, nil
}

func (m *scripted) GenerateAll(_ context.Context, list []generation.Request, _ func()) (results []*generation.Result, err error) {
	m.list = list
	for i := range list {
		c := &generation.Chances{Best: true, Rows: 1}
		for k := range list[i].N {
			p := 0.25
			if k < len(m.chances) {
				p = m.chances[k]
			}
			c.Logprobs = append(c.Logprobs, math.Log(p))
		}
		results = append(results, &generation.Result{PromptTokens: 20, CachedTokens: 15, Completions: []generation.Completion{{Chances: c}}})
	}
	return results, nil
}

func decisions(input, questions string) string {
	return `{"model": "m", "input": ` + input + `, "questions": ` + questions + `}`
}

const isLit = `{"type": "predicate", "instructions": "Is it lit?"}`

func TestAnswersHaveTheFormOfOpenAIsPackage(t *testing.T) {
	for name, c := range map[string]struct {
		question, want string
		chances        []float64
	}{
		"predicate":        {`{"type": "predicate", "name": "lit", "instructions": "Is it lit?"}`, `{"type":"predicate","name":"lit","probability":0.75,"label_mass":0.8}`, []float64{0.6, 0.2}},
		"choice":           {`{"type": "choice", "instructions": "Where?", "choices": [{"value": "hall"}, {"value": true, "description": "yes"}]}`, `{"type":"choice","name":null,"choice":true,"confidence":0.5,"probabilities":[{"value":"hall","probability":0.5},{"value":true,"probability":0.5}],"label_mass":0.5}`, []float64{0.25, 0.25}},
		"score":            {`{"type": "score", "instructions": "How full?", "levels": [{"label": "empty"}, {"label": "full", "description": "to the top"}]}`, `{"type":"score","name":null,"score":0.75,"confidence":0.75,"probabilities":[{"label":"empty","value":0,"probability":0.25},{"label":"full","value":1,"probability":0.75}],"label_mass":0.8}`, []float64{0.2, 0.6}},
		"nothing probable": {isLit, `{"type":"refusal","name":null,"label_mass":0}`, []float64{0, 0}},
	} {
		m := &scripted{chances: c.chances}
		const hints = `{"prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit"}, "safety_identifier": "s", `
		asked := strings.Replace(decisions(`"The hall."`, "["+c.question+"]"), "{", hints, 1)
		body, err := Decisions(t.Context(), m, []byte(asked))
		if err != nil || m.list[0].Salt != "k" {
			t.Fatalf("%s: %v, %+v", name, err, m.list)
		}
		var got struct {
			Answers []struct {
				Choice any `json:"choice"`
			}
			Model string
			Usage decisionsUsage
		}
		if err := json.Unmarshal(body, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(body), "0.7499999999999999", "0.75"), "0.7500000000000001", "0.75")
		if name == "choice" {
			c.want = strings.Replace(c.want, `"choice":true`, `"choice":"hall"`, 1) // the first of equal ones
		}
		if !strings.Contains(text, strings.TrimSuffix(c.want, "}")) && name != "score" {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		if u := got.Usage; got.Model != "m" || u.Input != 20 || u.InputDetails.Cached != 15 || u.InputDetails.CacheWrite != 5 || u.Output != 1 || u.Total != 21 {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestInputBecomesTheConversationBeforeTheQuestion(t *testing.T) {
	m := &scripted{chances: []float64{0.5, 0.5}}
	input := `[{"role": "developer", "content": "Be careful."},
		{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Bring the cup.", "prompt_cache_breakpoint": {"mode": "explicit"}}, {"type": "input_json", "data": {"room": "hall"}}]},
		{"type": "function_call", "call_id": "a", "name": "find", "arguments": "{\"what\":"},
		{"type": "custom_tool_call", "call_id": "b", "name": "look", "input": "left"},
		{"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "a wall"}]},
		{"type": "function_call_output", "call_id": "a", "output": "on the table"},
		{"role": "system", "content": "Be brief."}]`
	if _, err := Decisions(t.Context(), m, []byte(decisions(input, "["+isLit+"]"))); err != nil {
		t.Fatal(err)
	}
	c := m.chats[0]
	var got []string
	for _, msg := range c.Messages {
		got = append(got, fmt.Sprint(msg.Model, msg.System, msg.Of, ":", msg.Text, len(msg.Calls)))
	}
	want := []string{"false false:Bring the cup.\n{\"room\": \"hall\"}0", "true false:2", "false falsefind:on the table0", "false falselook:a wall0", "false true:Be brief.0", "false false:Question: Is it lit?\nyes\nno\nAnswer with yes or no only.0"}
	if c.System != "Be careful." || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q: %q", c.System, got)
	}
	if calls := c.Messages[1].Calls; string(calls[0].Arguments) != `{"input":"{\"what\":"}` || string(calls[1].Arguments) != `{"input":"left"}` {
		t.Errorf("%s", calls)
	}
}

const go2 = `{"type": "function", "name": "go", "parameters": {"type": "object", "properties": {"room": {"type": "string"}}}}`

func TestCallsAreOptionsBesideReplies(t *testing.T) {
	m := &scripted{chances: []float64{0.1, 0.3}}
	body := `{"input": "a", "tools": [` + go2 + `], "questions": [{"type": "choice", "instructions": "", "choices": [
		{"value": "unsure"}, {"value": {"type": "function_call", "name": "go", "arguments": "{\"room\": \"hall\"}"}}]}]}`
	got, err := Decisions(t.Context(), m, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	a := m.answers[0]
	if a[0].Say != "unsure" || len(a[1].ToolCalls) != 1 || a[1].ToolCalls[0].Name != "go" || len(m.chats[0].Functions.Raw) != 1 || len(m.chats[0].Messages) != 1 {
		t.Errorf("%+v of %+v", a, m.chats)
	}
	if !strings.Contains(string(got), `"choice":{"type":"function_call","name":"go","arguments":"{\"room\": \"hall\"}"}`) {
		t.Errorf("%s", got)
	}
}

func TestQuestionsThatCannotBeAskedAreNamed(t *testing.T) {
	many := func(n int, q string) string { return "[" + strings.Repeat(q+",", n-1) + q + "]" }
	choices := func(list string) string {
		return `[` + isLit + `, {"type": "choice", "instructions": "x", "choices": [` + list + `]}]`
	}
	levels := `{"type": "score", "instructions": "x", "levels": [{"label": "a"}, {"label": "a"}]}`
	image := `{"type": "input_image", "image_url": "data:"}`
	for name, c := range map[string]struct{ body, param, says string }{
		"no questions":               {decisions(`"a"`, `[]`), "questions", "1 to 400"},
		"too many questions":         {decisions(`"a"`, many(401, isLit)), "questions", "has 401 questions"},
		"too many generations":       {strings.Replace(decisions(`"a"`, many(400, isLit)), `{`, `{"orders": 2, `, 1), "questions", "queue_limit"},
		"no input":                   {`{"questions": [` + isLit + `]}`, "input", "must be a text"},
		"empty input":                {decisions(`" "`, "["+isLit+"]"), "input", "is empty"},
		"no message":                 {decisions(`[]`, "["+isLit+"]"), "input", "no message"},
		"an image":                   {decisions(`[{"role": "user", "content": [`+image+`]}]`, "["+isLit+"]"), "input[0].content[0]", "images can't be read"},
		"an image in a question":     {decisions(`"a"`, `[{"type": "predicate", "instructions": [`+image+`]}]`), "questions[0].instructions[0]", "images can't be read"},
		"an output without call":     {decisions(`[{"role": "user", "content": "a"}, {"type": "function_call_output", "call_id": "x", "output": "y"}]`, "["+isLit+"]"), "input[1].call_id", "no call before"},
		"a call that has no call_id": {decisions(`[{"type": "function_call", "name": "f", "arguments": "{}"}]`, "["+isLit+"]"), "input[0]", "needs a name"},
		"an unknown item":            {decisions(`[{"type": "reasoning", "content": "a"}]`, "["+isLit+"]"), "input[0].type", "want message"},
		"an unknown field":           {decisions(`[{"role": "user", "content": "a", "mood": 1}]`, "["+isLit+"]"), "input[0].mood", "not supported"},
		"JSON that is a number":      {decisions(`[{"role": "user", "content": [{"type": "input_json", "data": 1}]}]`, "["+isLit+"]"), "input[0].content[0].data", "must be an object"},
		"large JSON":                 {decisions(`[{"role": "user", "content": [{"type": "input_json", "data": {"a": "`+strings.Repeat("x", 256<<10)+`"}}]}]`, "["+isLit+"]"), "input[0].content[0].data", "at most 262144 bytes"},
		"a boolean among calls":      {strings.Replace(decisions(`"a"`, choices(`{"value": {"type": "function_call", "name": "go", "arguments": "{}"}}, {"value": true}`)), "{", `{"tools": [`+go2+`], `, 1), "questions[1].choices[1]", "a call or a reply"},
		"another type":               {decisions(`"a"`, `[{"type": "rank", "instructions": "x"}]`), "questions[0].type", "want predicate"},
		"no instructions":            {decisions(`"a"`, `[{"type": "predicate", "instructions": " "}]`), "questions[0].instructions", "are empty"},
		"one choice":                 {decisions(`"a"`, choices(`{"value": "a"}`)), "questions[1].choices", "has 1 options, want 2 to 255"},
		"256 choices":                {decisions(`"a"`, choices(strings.TrimPrefix(strings.TrimSuffix(many(256, `{"value": "a"}`), "]"), "["))), "questions[1].choices", "has 256 options"},
		"equal choices":              {decisions(`"a"`, choices(`{"value": "a"}, {"value": "a"}`)), "questions[1].choices", "options 0 and 1 are equal"},
		"an empty choice":            {decisions(`"a"`, choices(`{"value": "a"}, {"value": ""}`)), "questions[1].choices", "option 1 is empty"},
		"a number as a choice":       {decisions(`"a"`, choices(`{"value": 1}, {"value": 2}`)), "questions[1].choices[0].value", "must be a text"},
		"a call without tools":       {decisions(`"a"`, choices(`{"value": {"type": "function_call", "name": "f", "arguments": "{}"}}, {"value": "a"}`)), "questions[1].choices[0].value", "there are no tools"},
		"equal levels":               {decisions(`"a"`, "["+levels+"]"), "questions[0].levels", "are equal"},
		"choices of a predicate":     {decisions(`"a"`, `[{"type": "predicate", "instructions": "x", "choices": [{"value": "a"}]}]`), "questions[0]", "choices are for a choice"},
		"a long cache key":           {strings.Replace(decisions(`"a"`, "["+isLit+"]"), `{`, `{"prompt_cache_key": "`+strings.Repeat("x", 129)+`", `, 1), "prompt_cache_key", "has 129 bytes"},
		"no orders":                  {strings.Replace(decisions(`"a"`, "["+isLit+"]"), `{`, `{"orders": 0, `, 1), "orders", "want 1 to 16"},
		"an unknown model":           {strings.Replace(decisions(`"a"`, "["+isLit+"]"), `"m"`, `"other"`, 1), "model", "careful"},
	} {
		_, err := Decisions(t.Context(), &scripted{}, []byte(c.body))
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.Param != c.param || !strings.Contains(refused.Message, c.says) {
			t.Errorf("%s: got %v, want %s: %s", name, err, c.param, c.says)
		}
	}
}

func TestErrorsOfTheModelNameTheQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		param, says string
	}{
		"a label":        {&agent.ChoiceError{Index: 1, Err: errors.New("it has no tokens")}, "questions[0]", "option 1 can't be answered: it has no tokens"},
		"tools":          {&format.UnusableError{Err: errors.New("tools[0]: no schema")}, "tools[0]", "no schema (asked by questions[0])"},
		"a long state":   {&generation.OverflowError{Prompt: 500, Limit: 100}, "input", "has, with questions[0], 500 tokens; with an answer that is more than the model's context of 100"},
		"thoughts first": {format.ErrThinks, "questions[0]", "switch thinking off"},
		"an engine":      {agent.ErrNoChoice, "questions[0]", "not possible here"},
	} {
		_, err := Decisions(t.Context(), &scripted{refuses: c.err}, []byte(decisions(`"a"`, "["+isLit+"]")))
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.Param != c.param || !strings.Contains(refused.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decisions(t.Context(), &scripted{refuses: generation.ErrClosed}, []byte(decisions(`"a"`, "["+isLit+"]"))); !errors.Is(err, generation.ErrClosed) {
		t.Error(err)
	}
}

func TestQuestionBelowTheLeastMassIsRefused(t *testing.T) {
	body := strings.Replace(decisions(`"a"`, "["+isLit+"]"), `{`, `{"min_label_mass": 0.6, `, 1)
	for mass, want := range map[float64]string{0.2: `"type":"refusal"`, 0.4: `"type":"predicate"`} {
		got, err := Decisions(t.Context(), &scripted{chances: []float64{mass, mass}}, []byte(body))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%g: %s, %v", mass, got, err)
		}
	}
}

func systemOne(questions string) string {
	return `{"model": "m", "state": {"room": "hall", "lit": true}, "questions": ` + questions + `}`
}

func TestSystemOneAnswersHaveVLLMsForm(t *testing.T) {
	m := &scripted{chances: []float64{0.2, 0.6}}
	body, err := SystemOne(t.Context(), m, "7", []byte(systemOne(`{"where": {"type": "choice", "instructions": "Where?", "criteria": {"hall": "big", "attic": null}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID, Object, Model string
		Created           int64
		Answers           map[string]struct {
			Type, Choice  string
			Confidence    float64
			Probabilities map[string]float64
		}
		Usage       systemUsage
		Diagnostics map[string]diagnostics
	}
	if err := json.Unmarshal(body, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	a := got.Answers["where"]
	if got.ID != "decision-7" || got.Object != "structured_decision" || got.Created == 0 || a.Choice != "attic" || math.Abs(a.Confidence-0.6) > 1e-9 || math.Abs(a.Probabilities["hall"]-0.25) > 1e-9 ||
		got.Usage != (systemUsage{20, 1}) || !got.Diagnostics["where"].ArgmaxIsLabel || math.Abs(got.Diagnostics["where"].LabelMass-0.8) > 1e-9 {
		t.Errorf("%s", body)
	}
	if text := m.chats[0].Messages[0].Text; text != "{\"room\": \"hall\", \"lit\": true}\n\nQuestion: Where?\nA: hall - big\nB: attic\nAnswer with the letter of one option only." {
		t.Errorf("%q", text)
	}
	for question, want := range map[string]string{
		`{"type": "noul", "criteria": {"true": "lit"}}`:    `"noul":0.25`,
		`{"type": "score", "criteria": ["empty", "full"]}`: `"legend":{"0":"empty","1":"full"}`,
	} {
		body, err := SystemOne(t.Context(), m, "7", []byte(systemOne(`{"q": `+question+`}`)))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(body), "0.25000000000000006", "0.25"), want) {
			t.Errorf("%s: %s, %v", question, body, err)
		}
	}
}

func TestLowerPrioritiesOfVLLMComeFirst(t *testing.T) {
	for given, want := range map[string]int{"5": -5, "-5": 5, "-9223372036854775808": 100, "9223372036854775807": -100} {
		m := &scripted{chances: []float64{0.5}}
		if _, err := SystemOne(t.Context(), m, "", []byte(strings.Replace(systemOne(`{"q": {"type": "noul"}}`), "{", `{"cache_salt": "s", "priority": `+given+`, `, 1))); err != nil || m.list[0].Priority != want || m.list[0].Salt != "s" {
			t.Errorf("%s: %v, %v", given, m.list, err)
		}
	}
}

func TestSystemOneRefusesByName(t *testing.T) {
	with := func(member string) string {
		return strings.Replace(systemOne(`{"q": {"type": "noul"}}`), "{", "{"+member+", ", 1)
	}
	for name, c := range map[string]struct{ body, param string }{
		"images":                {with(`"images": ["data:"]`), "images"},
		"audio":                 {with(`"audio": ["data:"]`), "audio"},
		"videos":                {with(`"videos": ["data:"]`), "videos"},
		"thinking":              {with(`"chat_template_kwargs": {"enable_thinking": true}`), "chat_template_kwargs.enable_thinking"},
		"a long salt":           {with(`"cache_salt": "` + strings.Repeat("x", 129) + `"`), "cache_salt"},
		"an unknown field":      {with(`"assets": {}`), "assets"},
		"no state":              {`{"questions": {"q": {"type": "noul"}}}`, "state"},
		"questions as a list":   {systemOne(`[]`), "questions"},
		"no questions":          {systemOne(`{}`), "questions"},
		"a type":                {systemOne(`{"q": {"type": "box"}}`), "questions.q.type"},
		"a field of a question": {systemOne(`{"q": {"type": "noul", "labels": []}}`), "questions.q.labels"},
		"criteria of a choice":  {systemOne(`{"q": {"type": "choice", "criteria": ["a"]}}`), "questions.q.criteria"},
		"an empty option":       {systemOne(`{"q": {"type": "choice", "criteria": {"": null}}}`), "questions.q.criteria"},
		"criteria of a noul":    {systemOne(`{"q": {"type": "noul", "criteria": {"maybe": "x"}}}`), "questions.q.criteria"},
		"one level":             {systemOne(`{"q": {"type": "score", "criteria": ["a"]}}`), "questions.q.criteria"},
		"equal levels":          {systemOne(`{"q": {"type": "score", "criteria": ["a", "a"]}}`), "questions.q.criteria"},
	} {
		_, err := SystemOne(t.Context(), &scripted{}, "", []byte(c.body))
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.Param != c.param {
			t.Errorf("%s: %v", name, err)
		}
	}
}
