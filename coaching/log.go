package coaching

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// logbook writes the Markdown log of one request, for people: questions, answers, times
// and the result. Keys are redacted everywhere. A nil logbook writes nothing.
//
// Texts of others stand in code spans and fences only. They can neither pass for a part
// of the log nor make a viewer load something.
type logbook struct {
	redactor *egress.Redactor
	b        strings.Builder
	cut      bool
}

func newLogbook(redactor *egress.Redactor, now time.Time, req *protocol.SpecializedCoachingRequest, provider string) *logbook {
	l := &logbook{redactor: redactor}
	l.line("# Coaching: %s\n", req.Kind)
	l.line("- Run %s, request %s, provider %s", l.code(req.RunID), l.code(req.RequestID), provider)
	l.line("- Received %s", now.UTC().Format(time.RFC3339))
	l.line("- Stage goal: %s", l.code(req.Stage.Goal))
	l.line("- Target step %d; steps in the trajectory: %d", req.TargetStepID, len(req.Trajectory))
	points := make([]string, min(len(req.ReinjectionPoints), maxLogPoints))
	for i := range points {
		points[i] = l.code(req.ReinjectionPoints[i].ID)
	}
	l.line("- Reinjection points: %d %s\n", len(req.ReinjectionPoints), strings.Join(points, ", "))
	return l
}

// withoutModel writes how the repair without a model ended.
func (l *logbook) withoutModel(err error) {
	if l == nil {
		return
	}
	l.line("## Repair without a model\n")
	if err == nil {
		l.line("The raw output could be repaired.\n")
		return
	}
	l.line("Not possible: %s\n", l.code(err.Error()))
}

// question begins the section of a model.
func (l *logbook) question(coach string, q backend.Question) {
	if l == nil {
		return
	}
	l.line("## Coach %s\n", l.code(coach))
	l.line("### Asked\n")
	l.block("text", q.System)
	for _, m := range q.Messages {
		l.line("%s:\n", m.Role)
		l.block("text", m.Text)
	}
	l.line("### Tries\n")
}

// attempt writes one try.
func (l *logbook) attempt(a backend.Attempt) {
	if l == nil {
		return
	}
	waited := ""
	if a.Waited > 0 {
		waited = fmt.Sprintf("after a wait of %s, ", round(a.Waited))
	}
	if a.Err != nil {
		l.line("- Try %d: %s%s after %s: %s", a.Try, waited, strings.ReplaceAll(outcome(a.Err), "_", " "), round(a.Took), l.code(a.Err.Error()))
		return
	}
	l.line("- Try %d: %sanswered after %s by %s (asked by %s, %d prompt tokens, %d completion tokens)",
		a.Try, waited, round(a.Took), l.code(a.Answer.Model), a.Answer.Mode, a.Answer.PromptTokens, a.Answer.CompletionTokens)
}

// answer writes an answer and what is wrong with it.
func (l *logbook) answer(a backend.Answer, err error) {
	if l == nil {
		return
	}
	l.line("\nThe answer:\n")
	l.block("json", a.Text)
	if err != nil {
		l.line("It cannot be used. The coach is told why if it is asked again:\n")
		l.block("text", err.Error())
	}
}

// task begins the section of people.
func (l *logbook) task(endpoint string, ask *protocol.HumanCoachingRequest, posted time.Time, joined bool) {
	if l == nil {
		return
	}
	l.line("## People at %s\n", l.code(egress.SafeURL(endpoint)))
	how := "posted"
	if joined {
		how = "joined; it was posted"
	}
	l.line("Task %s (%s), %s %s:\n", l.code(ask.RequestID), l.code(ask.PayloadType), how, posted.UTC().Format(time.RFC3339))
	l.block("markdown", ask.RenderedPrompt)
}

// peopleSkipped tells why the people at an endpoint were not asked.
func (l *logbook) peopleSkipped(endpoint string, err error) {
	if l == nil {
		return
	}
	l.line("## People at %s\n", l.code(egress.SafeURL(endpoint)))
	l.line("Not asked: %s\n", l.code(err.Error()))
}

// taskFailed writes why no person answered.
func (l *logbook) taskFailed(err error) {
	if l == nil {
		return
	}
	l.line("No answer: %s\n", l.code(err.Error()))
}

// person writes a person's answer.
func (l *logbook) person(a *protocol.HumanCoachingResponse) {
	if l == nil {
		return
	}
	l.line("The person's answer is %s.\n", a.Status)
	if a.Output != nil {
		l.block("json", *a.Output)
	}
	if a.Error != "" {
		l.block("text", a.Error)
	}
}

// verdict ends the log and returns it.
func (l *logbook) verdict(res *protocol.SpecializedCoachingResponse, why string, took time.Duration) string {
	var end logbook // not bounded, since a log without its result is useless
	end.redactor = l.redactor
	end.line("\n## Result: %s\n", res.Status)
	if why != "" {
		end.block("text", why)
	}
	for _, p := range res.Proposals {
		end.line("At reinjection point %s:\n", l.code(p.ReinjectionPointID))
		end.block("json", string(p.ExtraKeys))
	}
	end.line("Took %s.", round(took))
	return l.b.String() + end.b.String()
}

// line writes one line. Texts of others must be arguments, quoted by code.
func (l *logbook) line(format string, args ...any) {
	l.write(fmt.Sprintf(format, args...) + "\n")
}

// block writes a text between fences that it does not contain.
func (l *logbook) block(language, text string) {
	text = l.head(text, maxLogBlock)
	fence := quote.Fence(text)
	l.write(fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n\n")
}

func (l *logbook) write(s string) {
	if l.cut {
		return
	}
	if l.b.Len()+len(s) > maxLog {
		l.cut = true
		s = "\nThe log is too long; the rest up to the result is left out.\n"
	}
	l.b.WriteString(s)
}

// code is a text of others as a code span within a line.
func (l *logbook) code(text string) string {
	return quote.Span(strings.Join(strings.Fields(l.head(text, maxLogSpan)), " "))
}

// head is the beginning of a text without keys, with a note about the rest.
func (l *logbook) head(text string, limit int) string {
	head, whole := l.redactor.Head(text, limit)
	if whole {
		return clip(head, limit)
	}
	return fmt.Sprintf("%s… (%d more bytes)", head, len(text)-len(head))
}

// clip shortens a text at a character and notes by how much.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return fmt.Sprintf("%s… (%d more bytes)", text[:limit], len(text)-limit)
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
