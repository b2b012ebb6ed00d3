package console

import (
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/budget"
	"agentd/internal/http/transfer"
	"agentd/protocol"
)

// keyRequestID is the key of a request's id in its context.
const keyRequestID = "console.request_id"

// handle makes a handler of gin's. handler returns the answer; nil means 204.
func (c *Console) handle(handler func(g *gin.Context) (any, error)) gin.HandlerFunc {
	return func(g *gin.Context) {
		answer, err := handler(g)
		var body []byte
		if err == nil && answer != nil {
			// A panic's text may have invalid UTF-8. Texts of agents were checked.
			body, err = json.Marshal(answer, jsontext.AllowInvalidUTF8(true))
		}
		switch {
		case err != nil:
			c.fail(g, err)
		case answer == nil:
			g.Status(http.StatusNoContent)
			g.Writer.WriteHeaderNow()
		default:
			c.sent(g, transfer.SendJSON(g, http.StatusOK, body))
		}
	}
}

// change returns the handler of a change to the task in the path.
func change[B any](c *Console, do func(seq uint64, body *B) (any, error)) gin.HandlerFunc {
	return c.handle(func(g *gin.Context) (any, error) {
		seq, err := seqOf(g.Param("id"))
		body := new(B)
		if err == nil {
			err = c.read(g, body)
		}
		if err != nil {
			return nil, err
		}
		return do(seq, body)
	})
}

// about returns the handler of a request about the task in the path that needs its view.
func about[B any](c *Console, do func(g *gin.Context, t *task, s *taskView, body *B) (any, error)) gin.HandlerFunc {
	return c.handle(func(g *gin.Context) (any, error) {
		t, s, err := c.load(g)
		body := new(B)
		if err == nil {
			err = c.read(g, body)
		}
		if err != nil {
			return nil, err
		}
		return do(g, t, s, body)
	})
}

// load returns the task in the path, and its view.
func (c *Console) load(g *gin.Context) (*task, *taskView, error) {
	seq, err := seqOf(g.Param("id"))
	if err != nil {
		return nil, nil, err
	}
	t, err := c.tasks.find(seq)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.view(seq)
	return t, s, err
}

// view returns the view of a task.
func (c *Console) view(seq uint64) (*taskView, error) {
	if s, ok := c.views.Get(taskID(seq)); ok {
		return s, nil
	}
	body, err := c.store.part(bucketRequests, seq)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, errNoTask
	}
	req, err := protocol.DecodeHumanCoachingRequest(body)
	if err != nil {
		damaged := fail(http.StatusInternalServerError, "the stored task is damaged")
		damaged.err = err
		return nil, damaged
	}
	return c.views.Add(taskID(seq), newTaskView(req), len(body)), nil // another request may have parsed it meanwhile
}

// readBody reads a body to its end. share counts the memory of the request; it must be released when the
// request has ended.
func (c *Console) readBody(g *gin.Context, limit int64) (body []byte, share *budget.Share, err error) {
	share = c.opts.Memory.Share()
	body, err = transfer.ReadBody(g, limit, share)
	if err == nil {
		err = share.Add(int64(len(body)) * bodyCopies)
	}
	if err != nil {
		share.Release()
		err = bodyFailure(err)
	}
	return body, share, err
}

// bodyFailure returns the failure for an error of package transfer.
func bodyFailure(err error) error {
	switch {
	case errors.Is(err, transfer.ErrTooLarge):
		return fail(http.StatusRequestEntityTooLarge, "the body is larger than this path takes").leaving(transfer.RestClose)
	case errors.Is(err, budget.ErrFull):
		return fail(http.StatusServiceUnavailable, "%s", budget.ErrFull)
	case errors.As(err, new(*budget.TooLargeError)):
		return fail(http.StatusRequestEntityTooLarge, "%s", err)
	case errors.Is(err, transfer.ErrSlow):
		return fail(http.StatusRequestTimeout, "the request body did not arrive in time").leaving(transfer.RestDrain)
	case errors.Is(err, transfer.ErrBroken):
		return fail(http.StatusBadRequest, "%s", err).leaving(transfer.RestDrain)
	case errors.Is(err, transfer.ErrMediaType):
		return fail(http.StatusUnsupportedMediaType, "send the body with the header Content-Type: application/json")
	case errors.Is(err, transfer.ErrEncoding), errors.Is(err, transfer.ErrNotGzip):
		return fail(http.StatusUnsupportedMediaType, "send the body plain or as valid gzip with Content-Encoding: gzip")
	}
	return errClientGone
}

// checked is a body of the people's API with rules of its own.
type checked interface{ check() error }

// read reads a body of the people's API into b.
func (c *Console) read(g *gin.Context, b any) error {
	raw, share, err := c.readBody(g, maxPeopleBody)
	if err != nil {
		return err
	}
	defer share.Release()
	return decode(raw, b)
}

// decode parses JSON as strictly as package protocol.
func decode(raw []byte, b any) error {
	err := protocol.Unmarshal(raw, b, json.RejectUnknownMembers(true))
	if problems, ok := errors.AsType[protocol.Problems](err); ok {
		return invalid(problems...)
	}
	if c, ok := b.(checked); ok {
		return c.check()
	}
	return nil
}

// sent logs the error err of a client that did not read its answer.
func (c *Console) sent(g *gin.Context, err error) {
	if err != nil {
		c.opts.Log.Debug().Err(err).Str("request_id", g.GetString(keyRequestID)).Msg("answer not sent")
	}
}

// fail answers the request with the error err, see asFailure, and ends its handling.
func (c *Console) fail(g *gin.Context, err error) {
	f := asFailure(err)
	g.Abort()
	if f.err != nil {
		c.opts.Log.Error().Err(f.err).Int("status", f.Status).Str("request_id", g.GetString(keyRequestID)).Msg("request failed")
	}
	c.sent(g, transfer.SendError(g, &f.ErrorAnswer))
}

// loginBody is the body of POST /api/login.
type loginBody struct {
	Token string `json:"token"`
}

// claimBody claims a task for a person. With Claim it renews that claim.
type claimBody struct {
	Person string `json:"person"`
	Claim  string `json:"claim"`
}

func (b *claimBody) check() error {
	b.Person = strings.TrimSpace(b.Person)
	switch {
	case !strings.ContainsFunc(b.Person, visible):
		return problem(protocol.TypeStringTooShort, "say who you are", "person")
	case utf8.RuneCountInString(b.Person) > maxPerson:
		return problem(protocol.TypeTooLong, "the name is too long", "person")
	case strings.ContainsFunc(b.Person, unfit):
		return problem(protocol.TypeStringPattern, "a name is one line, without control characters and changes of the writing direction", "person")
	}
	return nil
}

// visible reports whether a character is visible by itself.
func visible(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.IsMark(r) && !unicode.In(r, unicode.C)
}

// unfit reports whether a character is not allowed in a name. Joiners and all spaces are, since names in
// many scripts need them. Line breaks and embedded directions would change the text around the name.
func unfit(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// releaseBody ends a claim.
type releaseBody struct {
	Claim string `json:"claim"`
}

// draftBody saves an unfinished answer. The page owns the format of Draft.
type draftBody struct {
	Claim string       `json:"claim"`
	Draft protocol.Raw `json:"draft"`
}

func (b *draftBody) check() error {
	if b.Draft.Kind() != '{' {
		return problem(protocol.TypeDict, "must be an object", "draft")
	}
	return nil
}

// correction is a person's answer: a decision at a point, or the text of an output.
type correction struct {
	Point    string       `json:"point"`
	Decision protocol.Raw `json:"decision"`
	Output   *string      `json:"output"`

	decision *protocol.AgentDecision
}

func (b *correction) check() error {
	hasDecision := b.Decision != nil && b.Decision.Kind() != 'n'
	switch {
	case hasDecision == (b.Output != nil):
		return problem(protocol.TypeValue, "send either a decision, with its point, or an output")
	case b.Output != nil && b.Point != "":
		return problem(protocol.TypeValue, "an output names its point itself, as reinjection_point_id", "point")
	case b.Output != nil:
		return nil
	}
	var err error
	b.decision, err = protocol.DecodeAgentDecision(b.Decision)
	return err // protocol.Problems, located from the decision
}

// judge returns the output for the agent, and the problems of the body.
func (b *correction) judge(s *taskView) (output string, problems protocol.Problems) {
	switch {
	case b.Output != nil:
		return *b.Output, s.checkOutput(*b.Output).At("output")
	case s.point(b.Point) == nil && len(s.points) == 0:
		return "", protocol.Problems{protocol.NewProblem(protocol.TypeValue, "the task has no points to put a decision in; send an output instead", "point")}
	case s.point(b.Point) == nil:
		return "", protocol.Problems{protocol.NewProblem(protocol.TypeValue, "the task has no such point", "point")}
	}
	output, problems = s.output(b.Point, b.decision), s.point(b.Point).Check(b.decision).At("decision")
	if len(problems) == 0 { // the size limits of the server that asked hold too
		problems = s.checkOutput(output).At("decision")
	}
	return output, problems
}

// checkBody asks whether a correction is valid. A malformed decision is a result of the check and
// not an error of the request.
type checkBody struct {
	correction
	malformed protocol.Problems // located from the decision
}

func (b *checkBody) check() error {
	err := b.correction.check()
	if errors.As(err, &b.malformed) {
		return nil
	}
	return err
}

// answerBody ends a task.
type answerBody struct {
	Claim  string `json:"claim"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Force  bool   `json:"force_save_example"`
	correction
}

func (b *answerBody) check() error {
	b.Reason = strings.TrimSpace(b.Reason)
	switch b.Status {
	case protocol.HumanCompleted:
		if b.Reason != "" {
			return problem(protocol.TypeValue, "a completed task needs no reason; leave it out", "reason")
		}
		err := b.correction.check()
		if problems, ok := errors.AsType[protocol.Problems](err); ok {
			return problems.At("decision")
		}
		return err
	case protocol.HumanSkipped, protocol.HumanAborted:
	default:
		return problem(protocol.TypeLiteral, `must be "completed", "skipped" or "aborted"`, "status")
	}
	switch {
	case b.Decision != nil || b.Output != nil || b.Point != "":
		return problem(protocol.TypeValue, "only a completed task has a correction; leave out point, decision and output", "status")
	case b.Force:
		return problem(protocol.TypeValue, "only a completed task can be saved as an example", "force_save_example")
	case b.Reason == "":
		return problem(protocol.TypeStringTooShort, "say why", "reason")
	case utf8.RuneCountInString(b.Reason) > maxReason:
		return problem(protocol.TypeTooLong, "the reason is too long", "reason")
	}
	return nil
}

// candidatesBody asks an agent server for decisions at a point.
type candidatesBody struct {
	Point string `json:"point"`
	N     int    `json:"n"`
}

func (b *candidatesBody) check() error {
	if b.N < 1 || b.N > maxCandidates {
		return problem(protocol.TypeValue, "must be from 1 to 8", "n")
	}
	return nil
}

func problem(typ, msg string, loc ...any) error {
	return invalid(protocol.NewProblem(typ, msg, loc...))
}
