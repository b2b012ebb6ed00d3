package session

import (
	"strings"
	"testing"

	"agentd/coaching/store"
	"agentd/protocol"
)

func TestKeptAnswersAreBounded(t *testing.T) {
	shared := NewBudget(2 * store.MaxAnswerBytes)
	all := []*Answers{{shared: shared}, {shared: shared}, {shared: shared}}
	give := func(r *Answers, id string, bytes int) (again bool) {
		_, again, err := r.Do(t.Context(), id, func() (Answer, error) {
			res := &protocol.SpecializedCoachingResponse{Status: protocol.CoachingAbandoned, Reason: strings.Repeat("x", bytes)}
			return Answer{Response: res, Provider: "llm", Keep: true}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	short := all[0]
	for i := range store.MaxAnswers + 1 {
		give(short, string(rune('a'+i)), 1)
	}
	if len(short.kept) != store.MaxAnswers || len(short.entries) != store.MaxAnswers || give(short, string(rune('a'+store.MaxAnswers)), 1) == false || give(short, "a", 1) {
		t.Errorf("%d of %d are kept, want the newest %d", len(short.kept), len(short.entries), store.MaxAnswers)
	}
	if give(short, "too long", store.MaxAnswerBytes); give(short, "too long", store.MaxAnswerBytes) {
		t.Error("one that is longer than all may be is kept")
	}
	for _, r := range all {
		for i := range 5 {
			give(r, string(rune('A'+i)), store.MaxAnswerBytes/3)
		}
		if r.bytes > store.MaxAnswerBytes || len(r.kept) != len(r.entries) {
			t.Errorf("%d bytes, %d of %d", r.bytes, len(r.kept), len(r.entries))
		}
	}
	if shared.Used() > shared.limit {
		t.Errorf("%d bytes in all sessions, at most %d may be", shared.Used(), shared.limit)
	}
	for _, r := range all {
		r.clear()
	}
	if used := shared.Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}
