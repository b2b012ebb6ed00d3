package repair

import (
	"fmt"
	"strings"
	"testing"

	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// manyPoints is a request with a raw output and n points at its step.
func manyPoints(n int, tools, raw string) *Case {
	points := make([]protocol.ReinjectionPoint, n)
	step := int64(1)
	for i := range points {
		points[i] = protocol.ReinjectionPoint{ID: fmt.Sprint("p", i), InputStepID: &step}
	}
	return NewCase(&protocol.SpecializedCoachingRequest{
		RunID: "r", RequestID: "q", Kind: protocol.CoachingFormat, TargetStepID: step, ReinjectionPoints: points,
		Trajectory: []protocol.TrajectoryStep{{
			ID:            step,
			Input:         protocol.AgentInput{Tools: []protocol.Raw{protocol.Raw(tools)}},
			InternalSteps: []protocol.Raw{protocol.Raw(`{"origin":"model","output_raw":` + string(protocol.String(raw)) + `}`)},
		}},
	})
}

// TestManyPointsCostLittle would take hours if every point were worked on by itself,
// and gigabytes if each got a proposal.
func TestManyPointsCostLittle(t *testing.T) {
	const points = 100_000
	large := `{"name":"t","description":"` + strings.Repeat("x", 900_000) + `"}`
	say := `{"say":"` + strings.Repeat("y", parse.MaxBytes/2) + `","action":{}}`
	for _, c := range []struct {
		rule, raw string
		want      int
	}{
		{"a short decision is proposed at so many points", "<tool_call>{'name':'t'}</tool_call>", maxProposals},
		{"a long one in so many bytes", say, maxProposalBytes / (parse.MaxBytes / 2)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			task := manyPoints(points, large, c.raw)
			v, err := task.WithoutModel()
			if err != nil {
				t.Fatal(err)
			}
			person, err := task.ReadHuman(strings.NewReplacer("<tool_call>", "", "</tool_call>", "").Replace(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			for who, v := range map[string]*Verdict{"without a model": v, "of a person": person} {
				// The text around a quotation takes some of the bytes.
				if n := len(v.Proposals); n > c.want || n < c.want-1 {
					t.Errorf("%d proposals %s, want %d", n, who, c.want)
				}
			}
		})
	}
}

func TestDecisionIsCheckedAgainstFewToolSets(t *testing.T) {
	var points []string
	for i := range 3 * maxProposalSets {
		points = append(points, fmt.Sprintf(`{"id":"p%d","input":{"id":1,"instruction":{"type":"user","content":"x"},"tools":[{"name":"t"},{"name":"t%d"}]}}`, i, i))
	}
	task := newCase(t, []byte(`{"run_id":"r","request_id":"c","kind":"failure","stage":"g","target_step_id":1,
		"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":"y"}}}],"reinjection_points":[`+strings.Join(points, ",")+`]}`))
	v, err := task.ReadHuman(`[{"name":"t","arguments":{}}]`)
	if err != nil || len(v.Proposals) != maxProposalSets {
		t.Errorf("got %d proposals, %v; want %d", len(v.Proposals), err, maxProposalSets)
	}
}

func TestTaggedCallsWithManyParametersAreReadOnce(t *testing.T) {
	var raw strings.Builder
	raw.WriteString("<function=t>")
	for i := range 8000 {
		fmt.Fprintf(&raw, "<parameter=a%d>x</parameter>", i)
	}
	raw.WriteString("</function>")
	v, err := manyPoints(1, `{"name":"t"}`, raw.String()).WithoutModel()
	if err != nil || !strings.Contains(string(v.Proposals[0].ExtraKeys), `"a7999":"x"`) {
		t.Errorf("got %+v, %v", v, err)
	}
}
