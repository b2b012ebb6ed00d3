// Package prompt writes the questions for coaches: for a model with the schema of its answer,
// and as a task for a person.
//
// Each file uses only files after it: person.go, question.go, schema.go, trajectory.go,
// instructions.go, limits.go.
package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/coaching/backend"
	"agentd/coaching/internal/quote"
	"agentd/coaching/repair"
	"agentd/protocol"
)

// keyAdapter is the member of extra_keys that names the adapter of an input.
const keyAdapter = "adapter"

// Question returns the question to a model about a case. budget is the limit of bytes of its texts and its schema; 0
// means DefaultBudget. If it is below minBudget, the question may be longer.
func Question(c *repair.Case, budget int) backend.Question {
	t := request{c}
	budget = max(cmp.Or(max(budget, 0), DefaultBudget), minBudget)
	points := t.listedPoints()
	form := answerFormSay
	if slices.ContainsFunc(points, hasTools) {
		form = answerForm
	}
	q := backend.Question{
		System:     instructions + kindInstructions[t.Request.Kind] + form,
		SchemaName: schemaName,
		Schema:     portableSchema(points, min(maxPortable, budget/4)),
		Exact:      exactSchema(points),
		MaxTokens:  maxTokens,
	}
	if v, ok := protocol.Get(t.Step().Input.ExtraKeys, keyAdapter); ok {
		q.Adapter, _ = protocol.Text(v) // null: none
	}
	left := budget - retryBytes(budget) - len(q.System) - len(q.Schema)
	q.Messages = []backend.Message{{Role: backend.RoleUser, Text: t.describe(points, max(left, 0))}}
	return q
}

// retryBytes returns the limit of bytes that Retry appends to a question.
func retryBytes(question int) int { return min(max(question/8, minRetry), maxRetry) }

// Retry returns a question with an unusable answer and the reason appended, both clipped. If
// several such answers are too long together, the oldest are dropped.
func Retry(q backend.Question, answer string, why error) backend.Question {
	first := len(q.System) + len(q.Schema) + len(q.Messages[0].Text)
	limit := retryBytes(first)
	answer = cmp.Or(strings.TrimSpace(strings.ToValidUTF8(answer, "\uFFFD")), "(nothing)")
	turns := append(slices.Clone(q.Messages[1:]),
		backend.Message{Role: backend.RoleAssistant, Text: quote.Clip(answer, limit/2)},
		backend.Message{Role: backend.RoleUser, Text: "This answer can't be used: " + quote.Clip(why.Error(), limit/3) +
			"\n\nAnswer again, with the whole JSON object and nothing else. Abandon if you can't."})
	length := 0
	for _, m := range turns {
		length += len(m.Text)
	}
	for len(turns) > 2 && length > limit {
		length -= len(turns[0].Text) + len(turns[1].Text)
		turns = turns[2:]
	}
	q.Messages = append([]backend.Message{q.Messages[0]}, turns...)
	return q
}

// listedPoints returns the points that a coach is offered, in the order of the request: all, or
// the maxListedPoints nearest to the target step.
func (t request) listedPoints() []*repair.Point {
	distance := func(p *repair.Point) int {
		if p.StepID == nil {
			return 0
		}
		d := t.StepIndex(*p.StepID) - t.Target
		return max(d, -d)
	}
	near := slices.Clone(t.Points)
	slices.SortStableFunc(near, func(a, b *repair.Point) int { return distance(a) - distance(b) })
	near = near[:min(len(near), maxListedPoints)]
	return slices.DeleteFunc(slices.Clone(t.Points), func(p *repair.Point) bool { return !slices.Contains(near, p) })
}

// describe returns the request as a text of about budget bytes. Each part has a share of
// them; the trajectory gets the rest.
func (t request) describe(points []*repair.Point, budget int) string {
	share := func(parts int) int { return max(budget/parts, briefValue) }
	r := &trajectory{t: t, memories: make(map[int]*memory.Memory)}

	var head, tail strings.Builder
	head.WriteString("# The run\n\n")
	labelled(&head, "Objective of this stage", t.Request.Stage.Goal, share(16))
	if t.Request.Stage.Hint != "" {
		labelled(&head, "Hint for the coach", t.Request.Stage.Hint, share(24))
	}
	t.describeMemory(&head, r, share)
	head.WriteString("\n## Steps, oldest first\n")

	tail.WriteString("\n# What is wrong\n\n")
	fmt.Fprintf(&tail, "- Target step: %d\n", t.Request.TargetStepID)
	t.describeErrors(&tail, share)
	if !empty(t.Request.AdditionalInfo) {
		labelled(&tail, "Additional information", readable(t.Request.AdditionalInfo, share(12)), share(12)+inlineText)
	}
	tail.WriteString("\n# Reinjection points\n\n")
	t.describePoints(&tail, points, share(8))
	tail.WriteString("\n# Tools\n\n")
	describeTools(&tail, points, share(4))

	left := budget - head.Len() - tail.Len()
	return head.String() + r.render(max(left, 0)) + tail.String()
}

// describeMemory writes the agent's memory before the first step.
func (t request) describeMemory(b *strings.Builder, r *trajectory, share func(int) int) {
	first := &t.Request.Trajectory[0].Input
	if !empty(first.Attributes) {
		labelled(b, "Task attributes at the first step", readable(first.Attributes, share(12)), share(12)+inlineText)
	}
	m := r.memory(0)
	if len(m.Rules) > 0 {
		labelled(b, "Permanent rules of the agent", strings.Join(m.Rules, "\n"), share(16))
	}
	if m.Summary != "" {
		labelled(b, "Summary in the agent's memory", m.Summary, share(24))
	}
	if len(m.History) > 0 {
		labelled(b, "History in the agent's memory before the first step", historyText(m.History, share(12)), share(12)+inlineText)
	}
}

func (t request) describeErrors(b *strings.Builder, share func(int) int) {
	left := share(8)
	for i, raw := range t.Request.ActiveErrors {
		text := readable(raw, max(left, briefValue))
		if e, err := protocol.DecodeCoachingError(raw); err == nil {
			if text = e.Code + ": " + e.Description; !empty(e.Details) {
				text = quote.Clip(text, max(left, briefValue)) + "\n" + readable(e.Details, max(left, briefValue))
			}
		}
		if i > 0 && len(text) > left {
			fmt.Fprintf(b, "(%d more errors are left out for lack of room)\n", len(t.Request.ActiveErrors)-i)
			break
		}
		labelled(b, "Error", text, max(2*left, 2*briefValue))
		left -= len(text)
	}
	if empty(t.Request.Diagnosis) {
		return
	}
	d, err := protocol.DecodeCoachingDiagnosis(t.Request.Diagnosis)
	if err != nil {
		text, isText := protocol.Text(t.Request.Diagnosis)
		if !isText {
			text = readable(t.Request.Diagnosis, share(8))
		}
		labelled(b, "Diagnosis", text, share(8))
		return
	}
	labelled(b, "Diagnosis", d.Explanation, share(12))
	if d.ExpectedDecision != "" {
		labelled(b, "Expected decision", d.ExpectedDecision, share(24))
	}
}

// describePoints lists points, each with its step or its own input.
func (t request) describePoints(b *strings.Builder, points []*repair.Point, budget int) {
	if len(t.Points) == 0 {
		b.WriteString("None.\n")
		return
	}
	each := max(budget/len(points), briefValue)
	for _, p := range points {
		fmt.Fprintf(b, "- %s: ", protocol.String(p.ID))
		if p.StepID != nil {
			fmt.Fprintf(b, "in place of the decision of step %d%s", *p.StepID, map[bool]string{true: ", the target step"}[*p.StepID == t.Request.TargetStepID])
		} else {
			t.describeInput(b, p, each)
		}
		if p.Tools == nil {
			fmt.Fprintf(b, "; only a text is possible here, no tool calls: the tools are unusable (%s)", p.ErrorText(p.ToolsErr))
		} else if len(p.Tools.Tools) == 0 {
			b.WriteString("; only a text is possible here: there are no tools")
		} else if len(p.Robots) > 0 {
			fmt.Fprintf(b, "; robots: %s", p.Names(p.Robots))
		} else {
			fmt.Fprintf(b, "; robots are not listed: use those that the run uses, else %q", p.DefaultRobot)
		}
		b.WriteString("\n")
	}
	if more := len(t.Points) - len(points); more > 0 {
		fmt.Fprintf(b, "(%d more points, farther from the target step, are not offered)\n", more)
	}
}

// describeInput writes the explicit input of a point.
func (t request) describeInput(b *strings.Builder, p *repair.Point, limit int) {
	for i := range t.Request.Trajectory {
		if step := &t.Request.Trajectory[i]; repair.SameTurn(p.Input, &step.Input) {
			fmt.Fprintf(b, "the input of step %d again", step.ID)
			return
		}
	}
	b.WriteString("an input of its own. ")
	text := strings.Join(strings.Fields(p.Input.Instruction.Content), " ")
	fmt.Fprintf(b, "%s: %s", instructionLabel(p.Input.Instruction.Type), quote.Clip(text, limit))
	if history := readMemory(p.Input).History; len(history) > 0 {
		text := strings.Join(strings.Fields(historyText(history, limit)), " ")
		fmt.Fprintf(b, " (after %s of history: %s)", plural(len(history), "turn"), text)
	}
}

// describeTools lists the tools of the points in as much detail as fits into the
// budget. Points with the same tools share a list.
func describeTools(b *strings.Builder, points []*repair.Point, budget int) {
	groups := toolGroups(points)
	if len(groups) == 0 {
		b.WriteString("None that can be used.\n")
		return
	}
	for _, level := range []detail{whole, short, brief} {
		var text strings.Builder
		for _, g := range groups {
			if len(groups) > 1 {
				fmt.Fprintf(&text, "At %s:\n", g.points[0].Names(repair.IDs(g.points)))
			}
			for i := range g.tools.Tools {
				describeTool(&text, &g.tools.Tools[i], level)
			}
		}
		if text.Len() <= budget || level == brief {
			b.WriteString(quote.Clip(text.String(), max(budget, briefValue)))
			b.WriteString(map[detail]string{
				short: "(descriptions were shortened for lack of room)\n",
				brief: "(descriptions and schemas were left out for lack of room)\n",
			}[level])
			return
		}
	}
}

func describeTool(b *strings.Builder, tool *tools.Tool, level detail) {
	switch level {
	case whole:
		fmt.Fprintf(b, "- %s: %s\n  arguments: %s\n", tool.Name, tool.Description, readable(tool.Schema, len(tool.Schema)))
		return
	case short:
		fmt.Fprintf(b, "- %s: %s\n  arguments:", tool.Name, quote.Clip(tool.Description, briefValue))
	default:
		fmt.Fprintf(b, "- %s:", tool.Name)
	}
	for _, p := range tool.Properties[:len(tool.Properties)-1] { // the last one is the robot
		fmt.Fprintf(b, " %s", p.Name)
		if typ, ok := protocol.Get(p.Schema, "type"); ok {
			fmt.Fprintf(b, " %s", typ)
		}
		if p.Required {
			b.WriteString(" (required)")
		}
		b.WriteString(";")
	}
	b.WriteString("\n")
}
