package console

import (
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/coaching/repair"
	"agentd/protocol"
)

type taskList struct {
	Now   time.Time `json:"now"` // for countdowns in the page
	Tasks []summary `json:"tasks"`
}

func (c *Console) getTasks(g *gin.Context) (any, error) {
	state := g.Query("state")
	if !slices.Contains([]string{"", "open", "done"}, state) {
		return nil, protocol.Problems{{Type: protocol.TypeLiteral, Loc: []any{"query", "state"}, Msg: "must be open or done"}}
	}
	list, err := c.tasks.list(state == "done")
	return taskList{Now: c.tasks.now(), Tasks: list}, err
}

// taskDetail is the page's data of one task.
type taskDetail struct {
	Task     summary      `json:"task"`
	Request  protocol.Raw `json:"request"`
	Coaching protocol.Raw `json:"coaching"`
	Points   []pointView  `json:"points"`
	Toolsets []toolset    `json:"toolsets"`
	Draft    protocol.Raw `json:"draft"`
	Answer   *answer      `json:"answer"`
}

// pointView is a point. A task may have many points, so shared data is sent once: tools are in
// Toolsets, and the input of a step is in the coaching request and null here.
type pointView struct {
	ID      string       `json:"id"`
	StepID  *int64       `json:"step_id"`
	Toolset int          `json:"toolset"` // index
	Input   protocol.Raw `json:"input"`
}

type toolset struct {
	Tools      []toolView `json:"tools"`
	ToolsError *string    `json:"tools_error"`
	Robots     []string   `json:"robots"`
}

type toolView struct {
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Schema      protocol.Raw `json:"schema"`
}

func viewPoints(points []*repair.Point) ([]pointView, []toolset) {
	views, sets := []pointView{}, []toolset{}
	index := map[*protocol.AgentInput]int{}
	for _, p := range points {
		at, known := index[p.Input]
		if !known {
			at = len(sets)
			index[p.Input] = at
			set := toolset{Tools: []toolView{}, Robots: append([]string{}, p.Robots...)}
			if p.ToolsErr != nil {
				set.ToolsError = new(p.ToolsErr.Error())
			}
			if p.Tools != nil {
				for _, tool := range p.Tools.Tools {
					set.Tools = append(set.Tools, toolView{tool.Name, tool.Description, tool.Schema})
				}
			}
			sets = append(sets, set)
		}
		v := pointView{ID: p.ID, StepID: p.StepID, Toolset: at, Input: protocol.Raw("null")}
		if p.Input != nil && p.StepID == nil {
			v.Input = p.Input.AppendJSON(nil)
		}
		views = append(views, v)
	}
	return views, sets
}

func (c *Console) getTask(g *gin.Context) (any, error) {
	t, s, err := c.load(g)
	if err != nil {
		return nil, err
	}
	draft, err := c.store.part(bucketDrafts, t.Seq)
	if err != nil {
		return nil, err
	}
	// Coaching has the coaching request already.
	request := *s.request
	if s.coaching != nil {
		request.Payload = protocol.DeleteMember(request.Payload, keyCoachingRequest)
	}
	detail := taskDetail{
		Task:     c.tasks.show(t),
		Request:  request.AppendJSON(nil),
		Coaching: s.coaching,
		Draft:    draft,
		Answer:   t.Answer,
	}
	detail.Points, detail.Toolsets = viewPoints(s.points)
	return detail, nil
}

type changed struct {
	Task  summary `json:"task"`
	Claim string  `json:"claim,omitempty"`
}

func (c *Console) postClaim(seq uint64, body *claimBody) (any, error) {
	t, err := c.tasks.claim(seq, body.Person, body.Claim)
	if err != nil {
		return nil, err
	}
	return changed{Task: c.tasks.show(t), Claim: t.Claim.Secret}, nil
}

func (c *Console) postRelease(seq uint64, body *releaseBody) (any, error) {
	return nil, c.tasks.release(seq, body.Claim)
}

func (c *Console) putDraft(seq uint64, body *draftBody) (any, error) {
	return nil, c.tasks.saveDraft(seq, body.Claim, body.Draft)
}

// verdict is the outcome of a check.
type verdict struct {
	Valid    bool      `json:"valid"`
	Problems []finding `json:"problems"`
	Output   string    `json:"output"`
}

// finding is a problem, located from the decision or the output.
type finding struct {
	Loc []any  `json:"loc"`
	Msg string `json:"msg"`
}

// findings converts problems, located from a body or a decision.
func findings(problems protocol.Problems) []finding {
	list := make([]finding, len(problems))
	for i, p := range problems {
		loc := p.Loc
		for _, outer := range []string{"body", "decision", "output"} {
			if len(loc) > 0 && loc[0] == outer {
				loc = loc[1:]
			}
		}
		list[i] = finding{Loc: append([]any{}, loc...), Msg: p.Msg}
	}
	return list
}

func (c *Console) postCheck(_ *gin.Context, _ *task, s *taskView, body *checkBody) (any, error) {
	if body.malformed != nil {
		return verdict{Problems: findings(body.malformed)}, nil //nolint:nilerr // the verdict is the answer
	}
	output, problems := body.judge(s)
	return verdict{Valid: len(problems) == 0, Problems: findings(problems), Output: output}, nil
}

func (c *Console) postAnswer(_ *gin.Context, t *task, s *taskView, body *answerBody) (any, error) {
	a := answer{Status: body.Status, Error: body.Reason, Force: body.Force}
	if a.Status == protocol.HumanCompleted {
		output, problems := body.judge(s)
		if len(problems) > 0 {
			return nil, problems
		}
		a.Output = &output
	}
	// Every response is validated against the protocol.
	response := (&task{RequestID: s.request.RequestID, Answer: &a}).response()
	if err := response.Validate(s.request); err != nil {
		return nil, err
	}
	t, err := c.tasks.answer(t.Seq, body.Claim, a)
	if err != nil {
		return nil, err
	}
	return changed{Task: c.tasks.show(t)}, nil
}
