package coach

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// question is one as an agent server might write it.
func question(h state, hint string) string {
	about := protocol.AppendMember(protocol.Raw(`{}`), "house_now", protocol.String(h.text))
	return fmt.Sprintf("Repair step 3.\nHint: %s\nAdditional information: %s\nPoints: `again-at-step-3`", hint, about)
}

func TestThePlanLeadsFromEveryStateToTheEnd(t *testing.T) {
	w, about := open(t), describe(t)
	// Every state that the house can be in by any calls.
	fresh := w.fresh()
	states := map[state]bool{fresh: true}
	for todo := []state{fresh}; len(todo) > 0; todo = todo[1:] {
		for _, c := range everyCall(t, about.Code) {
			if next, _, failed := w.do(todo[0], c); !failed && !states[next] {
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
			answer := Plan(question(h, about.Hint))
			if answer.Outcome != "corrected" || answer.Point != "again-at-step-3" || answer.Why == "" {
				t.Fatalf("%s: %+v", h.text, answer)
			}
			if answer.Decision.Say != "" {
				break
			}
			for _, c := range answer.Decision.Calls {
				next, said, failed := w.do(h, toolCall(t, c))
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

func toolCall(t *testing.T, c Call) protocol.ToolCall {
	t.Helper()
	arguments, err := json.Marshal(c.Arguments)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.ToolCall{Name: c.Name, Arguments: arguments, TargetRobotName: c.Robot}
}

func everyCall(t *testing.T, code string) []protocol.ToolCall {
	t.Helper()
	var calls []protocol.ToolCall
	for _, c := range []Call{unlock(code), openCupboard(), pickUpCup(),
		{"pick_up", map[string]string{"object": "plate"}, "rover"}, putDown(), {"put_down", map[string]string{"furniture": "cupboard"}, "rover"},
		drive("hall"), drive("kitchen"), drive("living room")} {
		calls = append(calls, toolCall(t, c))
	}
	return calls
}

func TestACoachThatIsNotToldEnoughDeclines(t *testing.T) {
	fresh, about := open(t).fresh(), describe(t)
	whole := question(fresh, about.Hint)
	for name, q := range map[string]string{
		"not how things stand": strings.ReplaceAll(whole, "house_now", "house_then"),
		"not the code":         question(fresh, "none"),
		"not the point":        strings.ReplaceAll(whole, "again-at", "at"),
		"nothing at all":       "",
	} {
		if a := Plan(q); a.Outcome != "abandoned" || a.Why == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestTheAnswerIsACompletionOfJSON(t *testing.T) {
	fresh, about := open(t).fresh(), describe(t)
	s := httptest.NewServer(Handler(func(Answer) {}))
	defer s.Close()
	body, err := json.Marshal(map[string]any{"messages": []any{
		map[string]any{"role": "system", "content": "You are a coach."},
		map[string]any{"role": "user", "content": question(fresh, about.Hint)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var completion struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&completion); err != nil || len(completion.Choices) != 1 || completion.Usage.Total == 0 {
		t.Fatalf("got %+v, %v", completion, err)
	}
	var a Answer
	if err := json.Unmarshal([]byte(completion.Choices[0].Message.Content), &a); err != nil || a.Outcome != "corrected" || a.Decision.Calls[0].Arguments["code"] == "" {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	s := httptest.NewServer(Handler(func(Answer) {}))
	defer s.Close()
	for _, body := range []string{"", "{", `{"messages":7}`, `{"messages":[{"role":"user","content":7}]}`} {
		res, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(answer), `"error"`) {
			t.Errorf("%q: %d %s", body, res.StatusCode, answer)
		}
	}
}

// FuzzAnyRequestIsAnswered holds that whatever is posted, the answer is JSON:
// a completion or the reason why not.
func FuzzAnyRequestIsAnswered(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"house_now: The rover is in the hall and holds nothing. The cupboard is open. The cup is in the cupboard. again-at-step-1"}]}`)
	f.Add(`{"messages":[],"response_format":{"json_schema":{"schema":[{}]}}}`)
	f.Add(`{"messages":[{}]}`)
	h := Handler(func(Answer) {})
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		if (w.Code != http.StatusOK && w.Code != http.StatusBadRequest) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
