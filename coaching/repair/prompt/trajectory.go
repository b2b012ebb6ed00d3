package prompt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/coaching/repair"
	"agentd/protocol"
)

// request renders one case.
type request struct{ *repair.Case }

// detail is the amount of detail of a step.
type detail int

const (
	leftOut detail = iota
	brief          // what happened, on three lines
	short          // every part, long values cut
	whole          // every part, values cut only where nothing else helps
)

// Lengths of one value of a step.
const (
	briefValue = 120
	shortValue = 500
	wholeValue = 4000 // of steps other than the target and the last
)

// trajectory renders steps within a budget.
type trajectory struct {
	t        request
	memories map[int]*memory.Memory // by index of a step
}

// render returns the trajectory in at most budget bytes, if possible. The target step and the last
// one are whole. The others get as much detail as fits: first the newest instruction of a person
// before the target, then those nearest to the end or to the target. A note replaces steps that are left out.
func (r *trajectory) render(budget int) string {
	steps := r.t.Request.Trajectory
	texts := make([]string, len(steps))
	details := make([]detail, len(steps))
	used := r.keySteps(texts, details, budget)
	used += gapBytes
	for i := r.t.Target; i >= 0; i-- { // the order that the agent was carrying out
		if steps[i].Input.Instruction.Type != protocol.InstructionUser {
			continue
		}
		if text := r.step(i, brief, shortValue); details[i] == leftOut && used+len(text) <= budget {
			texts[i], details[i] = text, brief
			used += len(text)
		}
		break
	}
	order := make([]int, len(steps)) // nearest to the target or the end first; of two equally near, the later one
	for i := range order {
		order[i] = len(steps) - 1 - i
	}
	distance := func(i int) int { return min(len(steps)-1-i, max(i-r.t.Target, r.t.Target-i)) }
	slices.SortStableFunc(order, func(a, b int) int { return distance(a) - distance(b) })
	for _, level := range []struct {
		detail detail
		value  int
	}{{brief, briefValue}, {short, shortValue}, {whole, wholeValue}} {
		for _, i := range order {
			if details[i] != level.detail-1 {
				continue
			}
			text := r.step(i, level.detail, level.value)
			if used+len(text)-len(texts[i]) > budget {
				break // a step farther away is not shown better than a nearer one
			}
			used += len(text) - len(texts[i])
			texts[i], details[i] = text, level.detail
		}
	}
	return joinSteps(steps, texts, details)
}

// gapBytes is reserved for the notes about steps that are left out, at most four.
const gapBytes = 4 * 100

// keySteps renders the target step and the last one within two thirds of the budget. It
// clips their long values as far as needed.
func (r *trajectory) keySteps(texts []string, details []detail, budget int) (used int) {
	keys := []int{r.t.Target}
	if last := len(texts) - 1; last != r.t.Target {
		keys = append(keys, last)
	}
	for value := max(budget, briefValue); ; value /= 2 {
		used = 0
		for _, i := range keys {
			texts[i], details[i] = r.step(i, whole, max(value, briefValue)), whole
			used += len(texts[i])
		}
		if used <= budget*2/3 || value <= briefValue {
			return used
		}
	}
}

func joinSteps(steps []protocol.TrajectoryStep, texts []string, details []detail) string {
	var b strings.Builder
	for i := 0; i < len(steps); i++ {
		if details[i] != leftOut {
			b.WriteString(texts[i])
			continue
		}
		first := i
		for i+1 < len(steps) && details[i+1] == leftOut {
			i++
		}
		if first == i {
			fmt.Fprintf(&b, "\n(step %d is left out for lack of room)\n", steps[i].ID)
		} else {
			fmt.Fprintf(&b, "\n(%d steps, from %d to %d, are left out for lack of room)\n", i-first+1, steps[first].ID, steps[i].ID)
		}
	}
	return b.String()
}

// step renders one step with values of at most limit bytes.
func (r *trajectory) step(i int, d detail, limit int) string {
	step := &r.t.Request.Trajectory[i]
	var b strings.Builder
	fmt.Fprintf(&b, "\n### Step %d%s\n", step.ID, map[bool]string{true: ", the target step"}[i == r.t.Target])
	labelled(&b, instructionLabel(step.Input.Instruction.Type), step.Input.Instruction.Content, limit)
	if d >= short {
		r.changes(&b, i, limit)
	}
	if step.Output != nil {
		labelled(&b, "Decision", decisionText(step.Output.Say, step.Output.ToolCalls, limit), limit+inlineText)
	}
	if step.Error != nil {
		labelled(&b, "Error of the agent", agentErrorText(step.Error), limit)
	}
	if step.Output == nil && step.Error == nil {
		b.WriteString("- Decision: not recorded\n")
	}
	if raw, is := repair.RawOutputOf(step); is && d >= short && (step.Output == nil || i == r.t.Target && r.t.Request.Kind == protocol.CoachingFormat) {
		labelled(&b, "What the model wrote", raw, limit)
	}
	if d >= short && !empty(step.Execution) {
		labelled(&b, "Execution", readable(step.Execution, limit), limit+inlineText)
	}
	return b.String()
}

func instructionLabel(typ string) string {
	if typ == protocol.InstructionUser {
		return "Instruction of a person"
	}
	return "Report of the environment"
}

func agentErrorText(e *protocol.AgentError) string {
	if e.Component == "" {
		return e.Code + ": " + e.Message
	}
	return e.Code + " (" + e.Component + "): " + e.Message
}

// changes writes the new parts of a step's input, without the turn since the step before. Otherwise
// every step would repeat the history.
func (r *trajectory) changes(b *strings.Builder, i, limit int) {
	input := &r.t.Request.Trajectory[i].Input
	if i == 0 {
		return // shown before the steps
	}
	before := &r.t.Request.Trajectory[i-1]
	known := &before.Input
	if i == r.t.Target {
		known = &r.t.Request.Trajectory[0].Input // the step before may be left out
	}
	if string(input.Attributes) != string(known.Attributes) {
		labelled(b, "Task attributes from here on", readable(input.Attributes, limit), limit+inlineText)
	}
	if len(input.Memory) == len(before.Input.Memory) && string(input.Memory) == string(before.Input.Memory) {
		return
	}
	now, then := r.memory(i), r.memory(i-1)
	if now.Summary != then.Summary {
		labelled(b, "Summary in memory from here on", now.Summary, limit)
	}
	common := 0
	for common < len(now.History) && common < len(then.History) && sameEntry(now.History[common], then.History[common]) {
		common++
	}
	if forgot := len(then.History) - common; forgot > 0 {
		fmt.Fprintf(b, "- Memory: the last %s of the step before are not in it\n", plural(forgot, "entry"))
	}
	added := withoutTurn(now.History[common:], before)
	if len(added) > 0 {
		labelled(b, "Memory holds besides", historyText(added, limit), limit)
	}
}

func sameEntry(a, b memory.Entry) bool { return a.Author == b.Author && a.Content == b.Content }

// withoutTurn removes the turn of a step from the entries after it.
func withoutTurn(entries []memory.Entry, step *protocol.TrajectoryStep) []memory.Entry {
	if step.Output == nil || len(entries) == 0 || entries[0].Content != step.Input.Instruction.Content {
		return entries
	}
	entries = entries[1:]
	if len(entries) > 0 && entries[0].Author == memory.Model {
		entries = entries[1:]
	}
	return entries
}

// memory returns the readable part of the memory of a step's input.
func (r *trajectory) memory(i int) *memory.Memory {
	m, ok := r.memories[i]
	if !ok {
		m = readMemory(&r.t.Request.Trajectory[i].Input)
		r.memories[i] = m
	}
	return m
}

// readMemory reads the valid parts of a memory. Coaching also serves inputs whose memory the agent would reject.
func readMemory(in *protocol.AgentInput) *memory.Memory {
	m, _ := memory.Parse(in.Memory, "")
	return m
}

// historyText returns the last entries of a history in at most budget bytes.
func historyText(history []memory.Entry, budget int) string {
	var lines []string
	for i := len(history) - 1; i >= 0; i-- {
		line := entryText(&history[i], max(budget, briefValue))
		if len(line) > budget && len(lines) > 0 {
			break
		}
		line = quote.Clip(line, max(budget, briefValue))
		lines = append(lines, line)
		budget -= len(line) + 1
	}
	if missing := len(history) - len(lines); missing > 0 {
		lines = append(lines, fmt.Sprintf("(%d older entries are left out for lack of room)", missing))
	}
	slices.Reverse(lines)
	return strings.Join(append(lines, ""), "\n")
}

func entryText(e *memory.Entry, limit int) string {
	switch e.Author {
	case memory.User:
		return "Person: " + quote.Clip(e.Content, limit)
	case memory.System:
		return "Environment: " + quote.Clip(e.Content, limit)
	default:
		return "Agent " + decisionText(e.Say, e.Calls, limit)
	}
}

// inlineText is the longest text on the line of its label.
const inlineText = 200

// labelled appends a label and a text, as a block if it is long.
func labelled(b *strings.Builder, label, text string, limit int) {
	text = quote.Clip(strings.TrimSpace(text), limit)
	if len(text) <= inlineText && !strings.Contains(text, "\n") {
		fmt.Fprintf(b, "- %s: %s\n", label, text)
		return
	}
	fence := quote.Fence(text)
	fmt.Fprintf(b, "- %s:\n%s\n%s\n%s\n", label, fence, text, fence)
}

var spacing = []jsontext.Options{jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)}

// readable is raw JSON on one line with spaces between tokens, clipped to about limit
// bytes.
func readable(v protocol.Raw, limit int) string {
	if len(v) > limit {
		return quote.Clip(v, limit)
	}
	spaced := append(protocol.Raw(nil), v...)
	if err := spaced.Format(spacing...); err != nil {
		return string(v)
	}
	return string(spaced)
}

// decisionText is a decision, one line for each call, clipped to about limit bytes.
func decisionText(say string, calls []tools.Call, limit int) string {
	switch {
	case len(calls) > 0:
		var b strings.Builder
		for i, call := range calls {
			if b.Len() > limit {
				fmt.Fprintf(&b, "\n(and %s)", plural(len(calls)-i, "call"))
				break
			}
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s calls %s %s", quote.Clip(call.TargetRobotName, limit), quote.Clip(call.Name, limit), readable(call.Arguments, limit))
		}
		return b.String()
	case strings.TrimSpace(say) == "":
		return "(nothing)"
	}
	return "says " + string(protocol.String(quote.Clip(say, limit)))
}

// empty reports whether raw JSON has no content.
func empty(v protocol.Raw) bool {
	switch string(v) {
	case "", "{}", "[]", "null", `""`:
		return true
	}
	return false
}

// plural is "1 step" or "7 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
