package parse

import (
	"strings"
	"testing"

	"agentd/coaching/internal/quote"
)

func TestNearJSONRepairIsBounded(t *testing.T) {
	for _, c := range []struct{ rule, text string }{
		{"long", "{'a':'" + strings.Repeat("b", maxRepair) + "'}"},
		{"many quotes", "{" + strings.Repeat("'a':'b',", maxRepairQuotes/4+1) + "}"},
		{"many brackets", strings.Repeat("[", maxRepairBrackets+1) + strings.Repeat("]", maxRepairBrackets)},
	} {
		if v, err := newReader(quote.Quoter{}).parse(c.text); err == nil || !strings.Contains(err.Error(), "too long or too deeply nested") {
			t.Errorf("%s: got %.20s, %v", c.rule, v, err)
		}
	}
	r := newReader(quote.Quoter{})
	for range maxRepairTotal / 1000 {
		if _, err := r.parse("{'a':'" + strings.Repeat("b", 992) + "'}"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.parse("{'a':'" + strings.Repeat("b", 992) + "'}"); err == nil {
		t.Error("a reader repairs more than its share")
	}
}
