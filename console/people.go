package console

import (
	"net/http"
	"time"

	"agentd/coaching/repair"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

type taskList struct {
	Now   time.Time `json:"now"` // for countdowns in the page
	Tasks []summary `json:"tasks"`
}

func (c *Console) getTasks(g *gin.Context) {
	var ended bool
	switch g.Query("state") {
	case "", "open":
	case "done":
		ended = true
	default:
		c.fail(g, protocol.Problems{{Type: protocol.TypeLiteral, Loc: []any{"query", "state"}, Msg: "must be open or done"}})
		return
	}
	list, err := c.tasks.list(ended)
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeJSON(g, http.StatusOK, taskList{Now: c.tasks.now(), Tasks: list})
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

func viewPoints(points []repair.Point) ([]pointView, []toolset) {
	views, sets := []pointView{}, []toolset{}
	index := map[*protocol.AgentInput]int{}
	for i := range points {
		p := &points[i]
		at, known := index[p.Input]
		if !known {
			at = len(sets)
			index[p.Input] = at
			sets = append(sets, viewTools(p))
		}
		v := pointView{ID: p.ID, StepID: p.StepID, Toolset: at, Input: protocol.Raw("null")}
		if p.Input != nil && p.StepID == nil {
			v.Input = p.Input.AppendJSON(nil)
		}
		views = append(views, v)
	}
	return views, sets
}

func viewTools(p *repair.Point) toolset {
	v := toolset{Tools: []toolView{}, Robots: append([]string{}, p.Robots...)}
	if p.ToolsErr != nil {
		text := p.ToolsErr.Error()
		v.ToolsError = &text
	}
	if p.Tools != nil {
		for _, tool := range p.Tools.Tools {
			v.Tools = append(v.Tools, toolView{tool.Name, tool.Description, tool.Schema})
		}
	}
	return v
}

// load returns the task that a path names, and its view. It answers the request itself if
// there is no such task.
func (c *Console) load(g *gin.Context) (*task, *taskView) {
	seq, err := seqOf(g.Param("id"))
	if err == nil {
		var t *task
		var s *taskView
		if t, err = c.tasks.find(seq); err == nil {
			s, err = c.views.get(seq)
		}
		if err == nil {
			return t, s
		}
	}
	c.fail(g, err)
	return nil, nil
}

func (c *Console) getTask(g *gin.Context) {
	t, s := c.load(g)
	if t == nil {
		return
	}
	draft, err := c.tasks.draft(t.Seq)
	if err != nil {
		c.fail(g, err)
		return
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
	c.writeJSON(g, http.StatusOK, detail)
}

type changed struct {
	Task  summary `json:"task"`
	Claim string  `json:"claim,omitempty"`
}

func (c *Console) postClaim(g *gin.Context) {
	var body claimBody
	seq, ok := c.change(g, &body)
	if !ok {
		return
	}
	t, err := c.tasks.claim(seq, body.Person, body.Claim)
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeJSON(g, http.StatusOK, changed{Task: c.tasks.show(t), Claim: t.Claim.Secret})
}

func (c *Console) postRelease(g *gin.Context) {
	var body releaseBody
	seq, ok := c.change(g, &body)
	if !ok {
		return
	}
	c.done(g, c.tasks.release(seq, body.Claim))
}

func (c *Console) putDraft(g *gin.Context) {
	var body draftBody
	seq, ok := c.change(g, &body)
	if !ok {
		return
	}
	c.done(g, c.tasks.saveDraft(seq, body.Claim, body.Draft))
}

// change reads the number and the body of a change to a task. It answers an invalid request
// itself.
func (c *Console) change(g *gin.Context, b body) (seq uint64, ok bool) {
	seq, err := seqOf(g.Param("id"))
	if err != nil {
		c.fail(g, err)
		return 0, false
	}
	return seq, c.read(g, b)
}

func (c *Console) done(g *gin.Context, err error) {
	if err != nil {
		c.fail(g, err)
		return
	}
	c.empty(g)
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

func (c *Console) postCheck(g *gin.Context) {
	t, s := c.load(g)
	if t == nil {
		return
	}
	var body checkBody
	if !c.read(g, &body) {
		return
	}
	if body.malformed != nil {
		c.writeJSON(g, http.StatusOK, verdict{Problems: findings(body.malformed)})
		return
	}
	output, problems := body.judge(s)
	c.writeJSON(g, http.StatusOK, verdict{Valid: len(problems) == 0, Problems: findings(problems), Output: output})
}

func (c *Console) postAnswer(g *gin.Context) {
	t, s := c.load(g)
	if t == nil {
		return
	}
	var body answerBody
	if !c.read(g, &body) {
		return
	}
	a := answer{Status: body.Status, Error: body.Reason, Force: body.Force}
	if a.Status == protocol.HumanCompleted {
		output, problems := body.judge(s)
		if len(problems) > 0 {
			c.fail(g, problems)
			return
		}
		a.Output = &output
	}
	// Every response is validated against the protocol.
	response := (&task{RequestID: s.request.RequestID, Answer: &a}).response()
	if err := response.Validate(s.request); err != nil {
		c.fail(g, err)
		return
	}
	t, err := c.tasks.answer(t.Seq, body.Claim, a)
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeJSON(g, http.StatusOK, changed{Task: c.tasks.show(t)})
}
