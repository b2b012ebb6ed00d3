package logbook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/coaching/backend"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// secret is a key that must not be seen anywhere.
const secret = "sk-7f3d9a-very-secret"

// TestForeignTextStaysInsideItsFence quotes any text, and looks whether Markdown would
// end the quotation where it does.
func TestForeignTextStaysInsideItsFence(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("`~a# \n")), 0, 40, -1)
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		var l Book
		l.block("text", s)
		lines := strings.Split(strings.TrimRight(l.b.String(), "\n"), "\n")
		fence := strings.TrimSuffix(lines[0], "text")
		for _, line := range lines[1 : len(lines)-1] {
			if strings.HasPrefix(strings.TrimSpace(line), fence) {
				t.Errorf("the fence %q is closed by %q in\n%s", fence, line, l.b.String())
			}
		}
		if lines[len(lines)-1] != fence {
			t.Errorf("the fence %q is not closed in\n%s", fence, l.b.String())
		}

		span := l.code(s)
		ticks := span[:len(span)-len(strings.TrimLeft(span, "`"))]
		inner := strings.TrimSuffix(strings.TrimPrefix(span, ticks), ticks)
		if strings.Contains(span, "\n") || strings.Contains(inner, ticks) || strings.HasPrefix(inner, "`") || strings.HasSuffix(inner, "`") {
			t.Errorf("%q is not one code span", span)
		}
	})
}

func TestTextAppendedToTheQuestionIsShownOnce(t *testing.T) {
	l := New(nil, time.Time{}, &protocol.SpecializedCoachingRequest{}, protocol.ProviderLLM, true)
	for range 2 {
		l.Question("a coach", backend.Question{System: "You coach."})
		for range 2 {
			l.Attempt(backend.Attempt{Answer: backend.Answer{Appended: "\n\nIt must fit."}})
		}
	}
	if n := strings.Count(l.b.String(), "\nAppended to the first text:\n\n```text\nIt must fit.\n"); n != 2 {
		t.Errorf("it is shown %d times for 2 questions:\n%s", n, &l.b)
	}
}

func TestLogsAreBoundedAndEndWithTheResult(t *testing.T) {
	req := &protocol.SpecializedCoachingRequest{RunID: "r"}
	req.RequestID = strings.Repeat("é", maxSpan) // longer than a decoder takes, as names in a trajectory may be
	l := New(nil, time.Time{}, req, protocol.ProviderLLM, true)
	for range 100 {
		l.Answer(backend.Answer{Text: strings.Repeat("x", 2*maxBlock)}, nil)
	}
	res := &protocol.SpecializedCoachingResponse{Status: protocol.CoachingAbandoned}
	content := l.Verdict(res, "the reason", time.Minute)
	if len(content) > maxLog+1000 {
		t.Errorf("the log has %d bytes", len(content))
	}
	if !strings.Contains(content, "left out") || !strings.HasSuffix(content, "```text\nthe reason\n```\n\nTook 1m0s.\n") {
		t.Errorf("the log ends with %q", content[len(content)-200:])
	}
	if !strings.Contains(content, fmt.Sprintf("(%d more bytes)", maxBlock)) {
		t.Error("the log does not say that an answer was cut")
	}
	if !strings.Contains(content, "é… (") || strings.ContainsRune(content, '\uFFFD') {
		t.Error("a name is cut within a character")
	}
}

func TestKeysAreRedactedBeforeClipping(t *testing.T) {
	l := Book{Quoter: quote.Quoter{Keys: quote.NewRedactor(protocol.Headers{"X-Key": secret})}}
	for at := maxSpan - len(secret); at <= maxSpan; at++ {
		if span := l.code(strings.Repeat("x", at) + secret); strings.Contains(span, secret[:4]) {
			t.Fatalf("%q", span)
		}
	}
	l.block("text", strings.Repeat("x", maxBlock-5)+secret)
	l.block("text", strings.Repeat(secret, maxBlock/len(secret))+strings.Repeat("x", maxBlock))
	if strings.Contains(l.b.String(), secret[:4]) {
		t.Error("a part of the key is in the log")
	}
}
