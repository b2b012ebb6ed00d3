package ask_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"agentd/agent"
	"agentd/coaching"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/server/ask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decided has the steps of decisions that were computed, and applies corrections as the agent does.
type decided struct {
	ask string // member of each step
}

const unsureStep = `{"id":"step-0","component":"commander","origin":"model","full_prompt":"p","input_elements":{"generation":` +
	`{"cached_tokens":3,"candidate":{"option":1,"probabilities":[0.2,0.5,0.3]%s}}},"output_raw":"go"}`

// unsure is what the agent writes where the set has several options.
const unsure = `,"ask":{"error":0.05,"threshold":0.9,"set":[1,2,0],"outcome":"fallback","reason":"the input names no session"}`

func (d decided) DecideEach(
	_ context.Context, req *protocol.AgentRequest, _ func(), each func(int, *protocol.AgentOutput),
) (outs []protocol.AgentOutput, err error) {
	for i, in := range req.Inputs {
		say, step := "go", fmt.Sprintf(unsureStep, d.ask)
		if raw, ok := protocol.Get(in.ExtraKeys, "coaching"); ok {
			correction, err := protocol.DecodeCorrection(raw)
			if err != nil {
				return nil, err
			}
			say, step = correction.Corrected().Say, `{"id":"step-0","component":"commander","origin":"coaching","full_prompt":"p","input_elements":{},"output_raw":"x"}`
		}
		out := protocol.AgentOutput{
			RequestID: req.RequestID, SourceID: in.ID, Status: protocol.StatusCompleted, Output: &protocol.AgentDecision{Say: say},
			Memory: protocol.Raw(`{"last":"` + say + `"}`), InternalSteps: []protocol.Raw{protocol.Raw(step)},
		}
		outs = append(outs, out)
		if each != nil {
			each(i, &out)
		}
	}
	return outs, nil
}

// request has an input for each of extra_keys, beside three options.
func request(keys ...string) *protocol.AgentRequest {
	req := &protocol.AgentRequest{RequestID: "r"}
	for i, k := range keys {
		req.Inputs = append(req.Inputs, protocol.AgentInput{
			ID: int64(i), Instruction: protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "Where to?"}, NumOutputs: 1,
			Memory: protocol.Raw("{}"), Attributes: protocol.Raw("{}"), ExtraKeys: protocol.Raw(`{"options":["unsure",{"say":"go"},{"say":"stay"}]` + k + `}`),
		})
	}
	return req
}

const asks = `,"ask":"run"`

// service is coaching with a session "run", whose model gives the reply; "": it never answers.
func service(t *testing.T, reply string) *coaching.Service {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that a client leaves once the body is read
		if reply == "" {
			<-r.Context().Done()
			return
		}
		content, _ := json.Marshal(reply)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}]}`, content)
	}))
	t.Cleanup(model.Close)
	s, err := coaching.New(coaching.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	cfg := protocol.NewCoachingSessionConfig()
	b := protocol.NewCoachingBackend("b", protocol.BackendOpenAI)
	b.Endpoint, b.DefaultModel, b.MaxRetry = model.URL, "m", 0
	cfg.Backends = []protocol.CoachingBackend{b}
	if err := s.Configure(t.Context(), "run", cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

func chooses(decision string) string {
	return `{"why":"It is so.","outcome":"corrected","reinjection_point_id":"now","decision":` + decision + `}`
}

func TestQuestionsOfOneRequestShareItsBudget(t *testing.T) {
	memory := budget.New(1 << 30)
	share := memory.Share()
	asker, err := ask.New(broken{}, time.Minute, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	_, err = asker.DecideEach(budget.With(t.Context(), share), decided{unsure}, request(slices.Repeat([]string{asks}, 64)...), nil, nil)
	held := share.Held()
	if share.Release(); err != nil || memory.Used() != 0 || held%64 != 0 {
		t.Errorf("%d bytes are left of %d: %v", memory.Used(), held, err)
	}
}

// broken is a coach with a fault.
type broken struct{}

func (broken) Coach(context.Context, *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	panic("a fault")
}

// stated is what the step of an output says of the ask.
func stated(t *testing.T, out *protocol.AgentOutput) (outcome, reason, option string) {
	t.Helper()
	var step struct {
		Elements struct {
			Generation struct {
				Candidate struct {
					Ask struct {
						Outcome, Reason string
						Option          *int
					}
				}
			}
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[len(out.InternalSteps)-1], &step); err != nil {
		t.Fatal(err)
	}
	a := step.Elements.Generation.Candidate.Ask
	if a.Option != nil {
		option = fmt.Sprint(*a.Option)
	}
	return a.Outcome, a.Reason, option
}

func TestCoachesChooseOneOfTheOptions(t *testing.T) {
	const never = time.Hour
	abandoned := `{"why":"Who knows.","outcome":"abandoned","reinjection_point_id":"now","decision":{"say":"","tool_calls":[]}}`
	for name, test := range map[string]struct {
		coach                   ask.Coach
		wait                    time.Duration
		keys, step              string
		say, outcome            string
		reason, option, origins string
	}{
		"another option":         {service(t, chooses(`{"say":"stay","tool_calls":[]}`)), never, asks, unsure, "stay", agent.AskChosen, "", "2", "coaching"},
		"the word unsure":        {service(t, chooses(`{"say":"unsure","tool_calls":[]}`)), never, asks, unsure, "unsure", agent.AskChosen, "", "0", "coaching"},
		"the most probable one":  {service(t, chooses(`{"say":"go","tool_calls":[]}`)), never, asks, unsure, "go", agent.AskChosen, "", "1", "coaching"},
		"none of them":           {service(t, chooses(`{"say":"Look out!","tool_calls":[]}`)), never, asks, unsure, "go", agent.AskFallback, "not one of the options", "", "model"},
		"nothing, by its choice": {service(t, abandoned), never, asks, unsure, "go", agent.AskFallback, "Who knows.", "", "model"},
		"nothing in time":        {service(t, ""), 20 * time.Millisecond, asks, unsure, "go", agent.AskFallback, "no coach chose within 20ms", "", "model"},
		"in no known session":    {service(t, "x"), never, `,"ask":"other"`, unsure, "go", agent.AskFallback, "this run has no coaching session", "", "model"},
		"where coaching is off":  {nil, never, asks, unsure, "go", agent.AskFallback, "coaching is off", "", "model"},
		"with a fault":           {broken{}, never, asks, unsure, "go", agent.AskFallback, "asking failed: a fault", "", "model"},
		"of a set out of range": {service(t, "x"), never, asks, strings.Replace(unsure, "[1,2,0]", "[1,3]", 1), "go", agent.AskFallback,
			"the set has option 3 of 3", "", "model"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			asker, err := ask.New(test.coach, test.wait, registry)
			if err != nil {
				t.Fatal(err)
			}
			outs, err := asker.DecideEach(t.Context(), decided{test.step}, request(test.keys), nil, nil)
			if err != nil || len(outs) != 1 || outs[0].Output.Say != test.say || string(outs[0].Memory) != `{"last":"`+test.say+`"}` {
				t.Fatalf("got %+v, %v", outs, err)
			}
			outcome, reason, option := stated(t, &outs[0])
			if outcome != test.outcome || !strings.Contains(reason, test.reason) || (reason == "") != (test.reason == "") || option != test.option {
				t.Errorf("the step has %q, %q, %q", outcome, reason, option)
			}
			if step := string(outs[0].InternalSteps[0]); !strings.Contains(step, `"origin":"`+test.origins+`"`) || !strings.Contains(step, `"cached_tokens":3`) {
				t.Errorf("the step is %s", step)
			}
			if got := counts(t, registry); !maps.Equal(got, map[string]float64{test.outcome: 1}) || asker.Waiting() != 0 {
				t.Errorf("counted %v; %d wait", got, asker.Waiting())
			}
		})
	}
}

// counts has each outcome of asks with its count, but 0.
func counts(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if n := m.GetCounter().GetValue(); n > 0 {
				found[m.Label[0].GetValue()] = n
			}
		}
	}
	return found
}

func TestSureDecisionAsksNobody(t *testing.T) {
	registry := prometheus.NewRegistry()
	asker, err := ask.New(broken{}, time.Hour, registry)
	if err != nil {
		t.Fatal(err)
	}
	sure := `,"ask":{"error":0.5,"threshold":0.1,"set":[1],"outcome":"sure"}`
	outs, err := asker.DecideEach(t.Context(), decided{sure}, request(asks), nil, nil)
	if err != nil || string(outs[0].InternalSteps[0]) != fmt.Sprintf(unsureStep, sure) {
		t.Errorf("got %+v, %v", outs, err)
	}
	if got := counts(t, registry); !maps.Equal(got, map[string]float64{agent.AskSure: 1}) {
		t.Errorf("counted %v", got)
	}
}

// TestEachInputGetsItsOwnChoice of several, of which one asks nobody.
func TestEachInputGetsItsOwnChoice(t *testing.T) {
	asker, err := ask.New(service(t, chooses(`{"say":"stay","tool_calls":[]}`)), time.Hour, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	given := make(chan string, 3)
	outs, err := asker.DecideEach(t.Context(), decided{unsure}, request(asks, "", asks), nil, func(i int, out *protocol.AgentOutput) {
		given <- fmt.Sprint(i, " ", out.Output.Say)
	})
	if err != nil || len(outs) != 3 {
		t.Fatalf("got %+v, %v", outs, err)
	}
	for i, want := range []string{"stay", "go", "stay"} {
		if outs[i].Output.Say != want || outs[i].SourceID != int64(i) {
			t.Errorf("input %d has %s", i, outs[i].Output.Say)
		}
	}
	if first := <-given; first != "1 go" { // it waits for no coach
		t.Errorf("the first one was %s", first)
	}
	if rest := <-given + ", " + <-given; rest != "0 stay, 2 stay" && rest != "2 stay, 0 stay" {
		t.Errorf("then came %s", rest)
	}
}

func TestCancelledRequestEndsItsAsk(t *testing.T) {
	asker, err := ask.New(service(t, ""), time.Hour, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	outs, err := asker.DecideEach(ctx, decided{unsure}, request(asks), nil, func(int, *protocol.AgentOutput) { t.Error("it was given") })
	if !errors.Is(err, context.Canceled) || outs != nil || asker.Waiting() != 0 {
		t.Errorf("got %v, %v", outs, err)
	}
}
