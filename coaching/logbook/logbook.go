// Package logbook writes the Markdown log of one coaching request, for people: questions,
// answers, times and the result. Keys are redacted everywhere.
//
// Texts of clients and models are in code spans and fences only, so that they can neither
// imitate a part of the log nor make a viewer load something.
package logbook

import (
	"fmt"
	"strings"
	"time"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

const (
	// maxBlock bounds the bytes of one quoted text in a log, and maxLog the log.
	// Prompts may hold a whole trajectory.
	maxBlock = 64 << 10
	maxLog   = 512 << 10

	// maxSpan bounds the bytes of a text quoted within a line of a log, and
	// maxPoints the reinjection points that the log names.
	maxSpan   = 2000
	maxPoints = 20
)

// Book is the log of one request. Make it with New.
type Book struct {
	quote.Quoter
	b     strings.Builder
	shown string // the text that Attempt wrote, appended to that of Question
	full  bool   // the limit is reached
	off   bool   // the session has no logs
}

// New begins the log of a request that arrived at now. If it is not wanted, all methods do nothing.
func New(keys *quote.Redactor, now time.Time, req *protocol.SpecializedCoachingRequest, provider string, wanted bool) *Book {
	l := &Book{Quoter: quote.Quoter{Keys: keys}, full: !wanted, off: !wanted}
	l.line("# Coaching: %s\n", req.Kind)
	l.line("- Run %s, request %s, provider %s", l.code(req.RunID), l.code(req.RequestID), provider)
	l.line("- Received %s", now.UTC().Format(time.RFC3339))
	l.line("- Stage goal: %s", l.code(req.Stage.Goal))
	l.line("- Target step %d; steps in the trajectory: %d", req.TargetStepID, len(req.Trajectory))
	points := make([]string, min(len(req.ReinjectionPoints), maxPoints))
	for i := range points {
		points[i] = l.code(req.ReinjectionPoints[i].ID)
	}
	l.line("- Reinjection points: %d %s\n", len(req.ReinjectionPoints), strings.Join(points, ", "))
	return l
}

// WithoutModel writes the result of the repair without a model.
func (l *Book) WithoutModel(err error) {
	l.line("## Repair without a model\n")
	if err == nil {
		l.line("The raw output could be repaired.\n")
		return
	}
	l.line("Not possible: %s\n", l.code(err.Error()))
}

// Question begins the section of a model.
func (l *Book) Question(coach string, q backend.Question) {
	l.line("## Coach %s\n", l.code(coach))
	l.line("### Asked\n")
	l.shown = ""
	l.block("text", q.System)
	for _, m := range q.Messages {
		l.line("%s:\n", m.Role)
		l.block("text", m.Text)
	}
	l.line("### Tries\n")
}

// Attempt writes one try.
func (l *Book) Attempt(a backend.Attempt) {
	waited := ""
	if a.Waited > 0 {
		waited = fmt.Sprintf("after a wait of %s, ", round(a.Waited))
	}
	if a.Err != nil {
		l.line("- Try %d: %s%s after %s: %s", a.Try, waited, strings.ReplaceAll(backend.Outcome(a.Err), "_", " "), round(a.Took), l.code(a.Err.Error()))
		return
	}
	l.line("- Try %d: %sanswered after %s by %s (asked by %s, %d prompt tokens, %d completion tokens)",
		a.Try, waited, round(a.Took), l.code(a.Answer.Model), a.Answer.Mode, a.Answer.PromptTokens, a.Answer.CompletionTokens)
	if text := a.Answer.Appended; text != l.shown {
		l.line("\nAppended to the first text:\n")
		l.block("text", strings.TrimSpace(text))
		l.shown = text
	}
}

// Answer writes an answer, and the reason why it is invalid.
func (l *Book) Answer(a backend.Answer, err error) {
	l.line("\nThe answer:\n")
	l.block("json", a.Text)
	if err != nil {
		l.line("It cannot be used. The coach gets the reason if it is asked again:\n")
		l.block("text", err.Error())
	}
}

// Task begins the section of people.
func (l *Book) Task(endpoint string, ask *protocol.HumanCoachingRequest, posted time.Time, joined bool) {
	l.line("## People at %s\n", l.code(egress.SafeURL(endpoint)))
	how := "posted"
	if joined {
		how = "joined; it was posted"
	}
	l.line("Task %s (%s), %s %s:\n", l.code(ask.RequestID), l.code(ask.PayloadType), how, posted.UTC().Format(time.RFC3339))
	l.block("markdown", ask.RenderedPrompt)
}

// NotAsked writes the section of people who are not asked.
func (l *Book) NotAsked(endpoint string, why error) {
	l.line("## People at %s\n", l.code(egress.SafeURL(endpoint)))
	l.line("Not asked: %s\n", l.code(why.Error()))
}

// NoAnswer writes why people gave no answer.
func (l *Book) NoAnswer(why error) { l.line("No answer: %s\n", l.code(why.Error())) }

// Person writes a person's answer.
func (l *Book) Person(a *protocol.HumanCoachingResponse) {
	l.line("The person's answer is %s.\n", a.Status)
	if a.Output != nil {
		l.block("json", *a.Output)
	}
	if a.Error != "" {
		l.block("text", a.Error)
	}
}

// Verdict ends the log and returns it, "" if it was not wanted.
func (l *Book) Verdict(res *protocol.SpecializedCoachingResponse, why string, took time.Duration) string {
	if l.off {
		return ""
	}
	end := Book{Quoter: l.Quoter} // not bounded, since a log without its result is useless
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

// line writes one line. Texts of clients and models must be arguments, quoted by code.
func (l *Book) line(format string, args ...any) {
	l.write(fmt.Sprintf(format, args...) + "\n")
}

// block writes a text between fences that it does not contain.
func (l *Book) block(language, text string) {
	text = l.head(text, maxBlock)
	fence := quote.Fence(text)
	l.write(fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n\n")
}

func (l *Book) write(s string) {
	if l.full {
		return
	}
	if l.b.Len()+len(s) > maxLog {
		l.full = true
		s = "\nThe log is too long; the rest up to the result is left out.\n"
	}
	l.b.WriteString(s)
}

// code returns a text as a code span within a line.
func (l *Book) code(text string) string {
	return quote.Span(strings.Join(strings.Fields(l.head(text, maxSpan)), " "))
}

// head returns the beginning of a text without keys, with a note about the rest.
func (l *Book) head(text string, limit int) string {
	if l.off {
		return ""
	}
	return l.Short(text, limit)
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
