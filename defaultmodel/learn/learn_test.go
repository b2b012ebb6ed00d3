package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/defaultmodel/dataset"
	"agentd/defaultmodel/evaluate"
	"agentd/defaultmodel/household"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pupil is an agent whose model decides as the planner does, except in one of so many
// situations. Its coaching sessions ask the planner's endpoint over HTTP.
type pupil struct {
	right, wrong *dataset.Playback // wrong was taught nothing
	every        uint32            // wrong decisions: one in so many; 0: none
	failAt       int               // the request that fails; 0: none

	mu    sync.Mutex // guards the rest
	asked int
	coach map[string]string // endpoints by run
}

var errKilled = errors.New("killed")

func (p *pupil) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	p.mu.Lock()
	p.asked++
	failed := p.failAt > 0 && p.asked >= p.failAt
	p.mu.Unlock()
	if failed {
		return nil, errKilled
	}
	in := &req.Inputs[0]
	if _, coached := protocol.Get(in.ExtraKeys, "coaching"); !coached && p.every > 0 && crc32.ChecksumIEEE([]byte(string(in.Memory)+in.Instruction.Content))%p.every == 0 {
		return p.wrong.Responses(ctx, req)
	}
	return p.right.Responses(ctx, req)
}

func (p *pupil) PutCoachingSession(_ context.Context, run string, c *protocol.CoachingSessionConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coach[run] = c.Backends[0].Endpoint
	return nil
}

func (p *pupil) DeleteCoachingSession(_ context.Context, run string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.coach[run]; !open {
		return fmt.Errorf("%s has no session", run)
	}
	delete(p.coach, run)
	return nil
}

func (p *pupil) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	p.mu.Lock()
	url := p.coach[req.RunID]
	p.mu.Unlock()
	text, err := question(ctx, url+"/chat/completions")
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return nil, err
	}
	d := protocol.AgentDecision{Say: a.Decision.Say}
	for _, c := range a.Decision.Calls {
		d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: c.Name, Arguments: protocol.Raw(c.Arguments), TargetRobotName: c.Robot})
	}
	return &protocol.SpecializedCoachingResponse{
		RequestID: req.RequestID, Status: protocol.CoachingCorrected,
		Proposals: []protocol.CoachingProposal{{ReinjectionPointID: a.Point, ExtraKeys: (&protocol.ReplaceDecision{Decision: d}).AppendJSON(nil)}},
	}, nil
}

// question asks an endpoint of chat completions and returns the answer's text.
func question(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model": "m", "messages": []}`))
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var body struct {
		Choices []struct{ Message struct{ Content string } }
		Error   struct{ Message string }
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		return "", err
	}
	if len(body.Choices) != 1 {
		return "", fmt.Errorf("%s: %s", res.Status, body.Error.Message)
	}
	return body.Choices[0].Message.Content, nil
}

// school has models that are names in files, and a trainer that writes such files.
type school struct {
	*testing.T
	Options
	next    string // what the trainer writes
	failAt  int    // the request of a server that fails; 0: none
	untrain bool   // the trainer fails
	trained []Training
	served  []string
	right   *dataset.Playback
}

// every says which decisions of a model are wrong: one in so many.
var every = map[string]uint32{"bad": 4, "worse": 2, "same": 4, "good": 0}

func newSchool(t *testing.T, next string) *school {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "first.gguf")
	if err := writeFile(model, []byte("bad")); err != nil {
		t.Fatal(err)
	}
	s := &school{T: t, next: next}
	s.Options = Options{
		Settings: Settings{Model: model, Houses: 1, Seed: 5, HeldOut: 6, HeldOutSeed: 9, Minutes: 1},
		Dir:      filepath.Join(dir, "run"), Rounds: 1, Clients: PerHouse,
		Log: t.Logf, Serve: s.serve, Train: s.train,
	}
	var err error
	if s.right, err = dataset.NewPlayback(); err != nil {
		t.Fatal(err)
	}
	teach := func(e *household.Episode) {
		if err := s.right.Teach(t.Context(), e, dataset.PlannerAnswer); err != nil {
			t.Fatal(err)
		}
	}
	held := evaluate.Options{Seed: s.HeldOutSeed, ToolNames: evaluate.Known}
	for _, b := range s.blocks() {
		held.Houses = b.houses()
		for i := range b.count {
			teach(held.Episode(b.first + i))
		}
	}
	for round := 1; round <= 3; round++ {
		g := household.NewGroup(houseSeed(s.Seed, round, 0), houseOptions(0))
		for i := range PerHouse {
			teach(g.Episode(i))
		}
	}
	return s
}

func (s *school) serve(_ context.Context, model string) (Server, error) {
	text, err := os.ReadFile(model)
	if err != nil {
		return Server{}, err
	}
	s.served = append(s.served, string(text))
	wrong, err := dataset.NewPlayback()
	if err != nil {
		return Server{}, err
	}
	p := &pupil{right: s.right, wrong: wrong, every: every[string(text)], coach: map[string]string{}, failAt: s.failAt}
	return Server{Agent: p, Stop: func() error {
		if len(p.coach) > 0 {
			return fmt.Errorf("sessions are open: %v", p.coach)
		}
		return nil
	}}, nil
}

func (s *school) train(_ context.Context, t Training) error {
	s.trained = append(s.trained, t)
	if s.untrain {
		return errKilled
	}
	return writeFile(filepath.Join(t.Out, Weights), []byte(s.next))
}

func (s *school) run() *Report {
	s.Helper()
	r, err := Run(s.Context(), s.Options)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// kept is the content of the best model's file.
func (s *school) kept() string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, bestFile))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func TestOnlyBetterWeightsAreKept(t *testing.T) {
	for next, want := range map[string]string{"good": "good", "worse": "bad", "same": "bad"} {
		t.Run(next, func(t *testing.T) {
			s := newSchool(t, next)
			r := s.run()
			if s.kept() != want || r.Rounds[0].Kept != (want == next) {
				t.Errorf("kept %s: %+v", s.kept(), r)
			}
			if last := s.served[len(s.served)-1]; last != want {
				t.Errorf("the last tasks were done by %s", last)
			}
			if calls := r.Last.Corrections; (calls == 0) != (want == "good") {
				t.Errorf("%d corrections after the rounds", calls)
			}
		})
	}
}

func TestRoundsCountCorrectionsAndExportThem(t *testing.T) {
	s := newSchool(t, "same")
	r := s.run()
	w := r.Rounds[0].Work
	if w.Tasks < PerHouse || w.Decisions <= w.Tasks || w.Corrections == 0 || w.Corrections >= w.Decisions {
		t.Fatalf("got %+v", w)
	}
	if len(s.trained) != 1 || len(s.trained[0].Rows) != 1 {
		t.Fatalf("trained with %+v", s.trained)
	}
	text, err := os.ReadFile(s.trained[0].Rows[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n != w.Decisions {
		t.Errorf("%d rows of %d decisions", n, w.Decisions)
	}
	if n := bytes.Count(text, []byte(`"origin":"coaching"`)); n != w.Corrections {
		t.Errorf("%d rows of %d corrections", n, w.Corrections)
	}
	if bytes.Contains(text, []byte(dataset.Untaught+`"}`)) {
		t.Error("a wrong decision is among the rows")
	}
}

func TestKilledRunGoesOnInEveryStage(t *testing.T) {
	whole := newSchool(t, "good").run()
	for name, kill := range map[string]func(*school){
		"in the first measurement": func(s *school) { s.failAt = 3 },
		"in the tasks":             func(s *school) { s.failAt = 60 },
		"in the training":          func(s *school) { s.untrain = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchool(t, "good")
			kill(s)
			if _, err := Run(t.Context(), s.Options); !errors.Is(err, errKilled) {
				t.Fatalf("got %v, want the kill", err)
			}
			s.failAt, s.untrain = 0, false
			got := s.run()
			got.Best = whole.Best
			got.Rounds[0].model = whole.Rounds[0].model
			if diff := cmp.Diff(whole, got, cmp.AllowUnexported(Round{})); diff != "" {
				t.Error(diff)
			}
			served := len(s.served)
			if again := s.run(); len(s.served) != served || again.Base != whole.Base {
				t.Errorf("a finished run started %d servers", len(s.served)-served)
			}
		})
	}
}

func TestFurtherRoundsLearnFromAllRows(t *testing.T) {
	s := newSchool(t, "same")
	s.run()
	s.Rounds = 2
	if r := s.run(); len(r.Rounds) != 2 || len(s.trained) != 2 || len(s.trained[1].Rows) != 2 {
		t.Errorf("trained with %+v", s.trained)
	}
}

func TestOtherSettingsAreRefused(t *testing.T) {
	s := newSchool(t, "same")
	s.run()
	s.Minutes = 2
	if _, err := Run(t.Context(), s.Options); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("got %v", err)
	}
}

func TestTrainerWithoutWeightsIsAnError(t *testing.T) {
	s := newSchool(t, "same")
	s.Train = func(context.Context, Training) error { return nil }
	if _, err := Run(t.Context(), s.Options); err == nil || !strings.Contains(err.Error(), Weights) {
		t.Errorf("got %v", err)
	}
}

func TestReportHasTableAndPlot(t *testing.T) {
	s := newSchool(t, "good")
	s.run()
	for name, part := range map[string]string{"README.md": "| 1 |", "rounds.svg": "Coach calls", reportFile: `"kept": true`} {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "rounds.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, new(struct{})); err != nil || bytes.Contains(text, []byte("NaN")) {
		t.Errorf("the plot is no SVG: %v\n%s", err, text)
	}
}

func TestPlotHasALineForEachMeasuredKind(t *testing.T) {
	some := evaluate.Share{Count: 3, Of: 4}
	for name, tc := range map[string]struct {
		base  Shares
		lines []string
	}{
		"all kinds":               {Shares{some, some, some}, []string{"plain houses", "with robot_statuses", "calls of several robots"}},
		"no calls of several":     {Shares{some, some, evaluate.Share{}}, []string{"plain houses", "with robot_statuses"}},
		"nothing measured so far": {Shares{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			better := Shares{evaluate.Share{Count: 4, Of: 4}, some, some}
			r := Report{Base: tc.base, Rounds: []Round{{Right: better}, {Right: better, Verdict: Verdict{Kept: true}}}}
			var names []string
			for _, s := range r.best() {
				names = append(names, s.name)
				want := []float64{75, 75, 75}
				if s.name == "plain houses" {
					want[2] = 100
				}
				if diff := cmp.Diff(want, s.values); diff != "" {
					t.Errorf("%s: %s", s.name, diff)
				}
				if !strings.Contains(r.plot(), ">"+s.name+"</text>") {
					t.Errorf("no legend for %s", s.name)
				}
			}
			if diff := cmp.Diff(tc.lines, names); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(r.plot(), "<polyline"); n != len(names)+1 {
				t.Errorf("%d lines, want %d and the coach calls", n, len(names)+1)
			}
		})
	}
}

func TestRoundsHaveHousesOfTheirOwn(t *testing.T) {
	taken := map[uint64]string{}
	take := func(seed uint64, what string) {
		if other, there := taken[seed]; there {
			t.Errorf("%s and %s are one house", what, other)
		}
		taken[seed] = what
	}
	for n := range 2000 {
		take(dataset.GroupSeed(1, n), "the data set's")
	}
	for round := 1; round <= 5; round++ {
		for house := range 200 {
			take(houseSeed(1, round, house), fmt.Sprintf("house %d of round %d", house, round))
		}
	}
}

func TestSignTestKeepsOnlySignificantGains(t *testing.T) {
	for _, test := range []struct {
		better, worse int
		p             float64
		kept          bool
	}{
		{0, 0, 1, false}, {4, 0, 0.0625, false}, {5, 0, 0.03125, true}, {0, 5, 1, false}, {8, 2, 56. / 1024, false}, {9, 2, 67. / 2048, true},
	} {
		before, after := make([]bool, 20), make([]bool, 20)
		for i := range test.better {
			after[i] = true
		}
		for i := range test.worse {
			before[len(before)-1-i] = true
		}
		v, err := judge(before, after)
		if err != nil || v.Better != test.better || v.Worse != test.worse || v.Kept != test.kept || math.Abs(v.P-test.p) > 1e-9 {
			t.Errorf("%d better, %d worse: got %+v, %v", test.better, test.worse, v, err)
		}
	}
	if _, err := judge(make([]bool, 2), make([]bool, 3)); err == nil {
		t.Error("other decisions were compared")
	}
}

func TestCoachRefusesWhatIsNoQuestion(t *testing.T) {
	c := NewCoach()
	c.Expect("r", protocol.AgentDecision{Say: "Yes."})
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/r/v1/chat/completions", "{", http.StatusBadRequest},
		{"/x/v1/chat/completions", "{}", http.StatusNotFound},
		{"/r/v1/models", "{}", http.StatusNotFound},
		{"/r/v1/chat/completions", "{}", http.StatusOK},
	} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body)))
		if w.Code != test.status {
			t.Errorf("%s %s: got %d %s", test.path, test.body, w.Code, w.Body)
		}
	}
	if c.Asked() != 1 {
		t.Errorf("%d questions were answered", c.Asked())
	}
}
