package core

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRowsThatDoubleTheTimeOfAStep(t *testing.T) {
	type step struct{ cost, ms float64 }
	for name, test := range map[string]struct {
		steps []step
		cost  float64
		want  float64
	}{
		"no step is known: as many":                 {nil, 40, 40},
		"one width is known: as many":               {[]step{{512, 340}}, 4, 4},
		"narrower steps than all known":             {[]step{{56, 115}, {512, 343}}, 4, 178}, // 87 ms and 0.5 for each
		"between two widths":                        {[]step{{8, 100}, {32, 124}, {200, 292}}, 16, 108},
		"aim beyond the widest: in proportion":      {[]step{{8, 75}, {32, 120}}, 32, 32},
		"aim beyond a steep end: as many":           {[]step{{8, 10}, {32, 100}}, 20, 20},
		"wider steps than all known: as many":       {[]step{{8, 75}, {32, 120}}, 100, 100},
		"wider step that was faster is noise":       {[]step{{8, 100}, {32, 90}, {200, 292}}, 8, 100},
		"no cost but that of rows: as many":         {[]step{{10, 10}, {100, 100}, {500, 500}}, 40, 40},
		"first step read weights from a disk":       {[]step{{8, 60_000}, {8, 100}, {200, 292}}, 8, 100},
		"step beside a busy program counts little":  {[]step{{8, 100}, {8, 9000}, {200, 308.5}}, 8, 110},
		"a wide step read weights from a disk":      {[]step{{32, 100}, {64, 40_000}}, 32, 32},
		"steps of one width are one point together": {[]step{{8, 100}, {15, 100}, {200, 292}}, 8, 99.5},
	} {
		t.Run(name, func(t *testing.T) {
			var times stepTimes
			for _, s := range test.steps {
				times.observe(s.cost, time.Duration(s.ms*float64(time.Millisecond)))
			}
			if got := times.doubles(test.cost); math.Abs(got-test.want) > 1 {
				t.Errorf("%.1f, want %.1f", got, test.want)
			}
		})
	}
}

// Where time is a constant and a part for each row, the constant is paid once.
func TestLinearStepTimesGiveTheirConstant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		constant, each := 200*r.Float64(), 0.1+r.Float64() // milliseconds
		var times stepTimes
		for range 50 {
			cost := float64(1 + r.IntN(2000))
			times.observe(cost, time.Duration((constant+each*cost)*float64(time.Millisecond)))
		}
		times.observe(1<<14, time.Duration((constant+each*(1<<14))*float64(time.Millisecond)))
		cost := float64(1 + r.IntN(1000))
		if got, want := times.doubles(cost), cost+constant/each; math.Abs(got-want) > 0.05*want {
			t.Fatalf("%.3f ms and %.3f for each row: %.1f rows double the time of %.0f, want %.1f", constant, each, got, cost, want)
		}
	}
}

// A step takes 100 ms and 1 for each row, so the prompt gets 140 rows beside 40: in groups of 8, 144.
func TestPromptGetsRowsByTheTimeOfSteps(t *testing.T) {
	c := New(Config{Cells: 10_000, Policy: Policy{MaxSequences: 100, BatchTokens: 512}, MaxOutputs: 100, PartialCopy: true, Check: true})
	prompt := func(first, n int) []Token {
		p := make([]Token, n)
		for i := range p {
			p[i] = Token(first + i)
		}
		return p
	}
	step := func(p *Plan) int {
		c.Observe(time.Duration(100+len(p.Rows)) * time.Millisecond)
		c.Commit(StepDecoded, anything(p))
		return len(p.Rows)
	}
	c.Submit(ask(1, prompt(0, 600), 40, 100))
	for step(c.Plan()) != 40 {
	}
	c.Submit(ask(2, prompt(10_000, 3000), 1, 1))
	p := c.Plan()
	if got := len(p.Rows) - 40; got != 144 {
		t.Errorf("%d rows for the prompt, want 144", got)
	}
	after := New(c.cfg)
	if after.InheritCounters(c); after.times != c.times {
		t.Error("a new core in place of this one forgot the times of steps")
	}
}
