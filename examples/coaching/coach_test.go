package coaching_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"agentd/protocol"
)

// proposal is an answer of the coach.
type proposal struct {
	Outcome, Why string
	Point        string `json:"reinjection_point_id"`
	Decision     struct {
		Say   string
		Calls []struct {
			Name      string
			Arguments protocol.Raw
			Robot     string `json:"target_robot_name"`
		} `json:"tool_calls"`
	}
}

// coach answers a question by coach.py's plan.
func coach(t *testing.T) func(question string) proposal {
	t.Helper()
	ask := script(t, "import coach\nanswer = coach.plan\n")
	return func(question string) (p proposal) {
		ask(protocol.String(question), &p)
		return p
	}
}

// question is one as an agent server might write it.
func question(h state, hint string) string {
	about := protocol.AppendMember(protocol.Raw(`{}`), "house_now", protocol.String(h.text))
	return fmt.Sprintf("Repair step 3.\nHint: %s\nAdditional information: %s\nPoints: `again-at-step-3`", hint, about)
}

func TestThePlanLeadsFromEveryStateToTheEnd(t *testing.T) {
	w, about, plan := open(t), describe(t), coach(t)
	// Every state that the house can be in by any calls.
	fresh := w.fresh()
	states := map[state]bool{fresh: true}
	for todo := []state{fresh}; len(todo) > 0; todo = todo[1:] {
		for _, c := range everyCall {
			if next, _, failed := w.do(todo[0], call(c)); !failed && !states[next] {
				states[next] = true
				todo = append(todo, next)
			}
		}
	}
	if len(states) < 30 {
		t.Fatalf("only %d states; the test shows little", len(states))
	}
	for h := range states {
		for n := 0; ; n++ {
			if n == 12 {
				t.Fatalf("the plan does not end: %s", h.text)
			}
			answer := plan(question(h, about.Hint))
			if answer.Outcome != "corrected" || answer.Point != "again-at-step-3" || answer.Why == "" {
				t.Fatalf("%s: %+v", h.text, answer)
			}
			if answer.Decision.Say != "" {
				break
			}
			for _, c := range answer.Decision.Calls {
				next, said, failed := w.do(h, protocol.ToolCall{Name: c.Name, Arguments: c.Arguments, TargetRobotName: c.Robot})
				if failed {
					t.Fatalf("%s at: %s", said, h.text)
				}
				h = next
			}
		}
		if !h.done {
			t.Errorf("the plan ends too early: %s", h.text)
		}
	}
}

// everyCall that can succeed.
var everyCall = []string{
	unlocks, opens, takeMedicine, "rover pick_up object=plate", toTable, "rover put_down furniture=cupboard",
	"rover go_to room=hall", kitchen, lounge,
}

func TestACoachThatIsNotToldEnoughDeclines(t *testing.T) {
	fresh, about, plan := open(t).fresh(), describe(t), coach(t)
	whole := question(fresh, about.Hint)
	for name, q := range map[string]string{
		"not how things stand": strings.ReplaceAll(whole, "house_now", "house_then"),
		"not the code":         question(fresh, "none"),
		"not the point":        strings.ReplaceAll(whole, "again-at", "at"),
		"nothing at all":       "",
	} {
		if a := plan(q); a.Outcome != "abandoned" || a.Why == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// serveCoach is the URL of coach.py's completions.
func serveCoach(t *testing.T) string {
	t.Helper()
	python := exec.CommandContext(t.Context(), "python3", "-B", "-c", "import coach, signal\nwith coach.serving() as url:\n    print(url, flush=True)\n    signal.pause()\n")
	out, err := python.StdoutPipe()
	if err == nil {
		err = python.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = python.Wait() }) // it was killed at the end of the test
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line) + "/chat/completions"
}

// post returns the status and the body of an answer.
func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}

func TestTheAnswerIsACompletionOfJSON(t *testing.T) {
	fresh, about := open(t).fresh(), describe(t)
	body, err := json.Marshal(map[string]any{"messages": []any{
		map[string]any{"role": "system", "content": "You are a coach."},
		map[string]any{"role": "user", "content": question(fresh, about.Hint)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, answer := post(t, serveCoach(t), string(body))
	var completion struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(answer, &completion); err != nil || len(completion.Choices) != 1 || completion.Usage.Total == 0 {
		t.Fatalf("got %s, %v", answer, err)
	}
	var p proposal
	if err := json.Unmarshal([]byte(completion.Choices[0].Message.Content), &p); err != nil || p.Outcome != "corrected" || !strings.Contains(string(p.Decision.Calls[0].Arguments), about.Code) {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestWhatIsNotARequestIsRefused(t *testing.T) {
	url := serveCoach(t)
	for _, body := range []string{
		"", "{", "[]", "7", `"x"`, "null", `{"messages":7}`, `{"messages":[{}]}`, `{"messages":[[]]}`, `{"messages":[{"role":"user","content":7}]}`,
		strings.Repeat("[", 100_000), "\xff", `{"messages":[{"content":[{"text":"x"}]}]}`,
	} {
		status, answer := post(t, url, body)
		if status != http.StatusBadRequest || !strings.Contains(string(answer), `"error"`) {
			t.Errorf("%.40q: %d %s", body, status, answer)
		}
	}
}
