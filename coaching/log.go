package coaching

import (
	"fmt"
	"strings"
	"time"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/internal/clip"
	"agentd/protocol"
)

// logbook writes the Markdown log of one request, for people: questions, answers, times
// and the result. Keys are redacted everywhere.
//
// Texts of others stand in code spans and fences only. They can neither pass for a part
// of the log nor make a viewer load something.
type logbook struct {
	quote.Quoter
	b    strings.Builder
	full bool // nothing more is written
	off  bool // nobody wants the log
}

func newLogbook(redactor *quote.Redactor, now time.Time, req *protocol.SpecializedCoachingRequest, provider string, wanted bool) *logbook {
	l := &logbook{Quoter: quote.Quoter{Keys: redactor}, full: !wanted, off: !wanted}
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
	l.line("## Repair without a model\n")
	if err == nil {
		l.line("The raw output could be repaired.\n")
		return
	}
	l.line("Not possible: %s\n", l.code(err.Error()))
}

// question begins the section of a model.
func (l *logbook) question(coach string, q backend.Question) {
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
	l.line("\nThe answer:\n")
	l.block("json", a.Text)
	if err != nil {
		l.line("It cannot be used. The coach gets the reason if it is asked again:\n")
		l.block("text", err.Error())
	}
}

// task begins the section of people.
func (l *logbook) task(endpoint string, ask *protocol.HumanCoachingRequest, posted time.Time, joined bool) {
	l.line("## People at %s\n", l.code(egress.SafeURL(endpoint)))
	how := "posted"
	if joined {
		how = "joined; it was posted"
	}
	l.line("Task %s (%s), %s %s:\n", l.code(ask.RequestID), l.code(ask.PayloadType), how, posted.UTC().Format(time.RFC3339))
	l.block("markdown", ask.RenderedPrompt)
}

// person writes a person's answer.
func (l *logbook) person(a *protocol.HumanCoachingResponse) {
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
	end := logbook{Quoter: l.Quoter} // not bounded, since a log without its result is useless
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
	if l.full {
		return
	}
	if l.b.Len()+len(s) > maxLog {
		l.full = true
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
	if l.off {
		return ""
	}
	head, whole := l.Head(text, limit)
	if whole {
		return head
	}
	return more(head, len(text))
}

// clip shortens a text at a character and notes by how much.
func shorten(text string, limit int) string {
	if head := clip.Head(text, limit); len(head) < len(text) {
		return more(head, len(text))
	}
	return text
}

// more is the beginning of a text of n bytes, with a note about the rest.
func more(head string, n int) string { return fmt.Sprintf("%s… (%d more bytes)", head, n-len(head)) }

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
