package core

import (
	"fmt"
	"testing"
)

// BenchmarkStep is plan and commit of one decode step: width sequences decode
// beside a cache of 64 other prompts of 500 tokens each.
func BenchmarkStep(b *testing.B) {
	for _, width := range []int{32, 256} {
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) { benchmarkStep(b, width) })
	}
}

func benchmarkStep(b *testing.B, width int) {
	const maxNew = 1000
	c := New(Config{
		Cells: 1 << 20, Policy: Policy{MaxSequences: 256, BatchTokens: 2048, PrefillChunk: 512}, MaxOutputs: 256,
		PartialCopy: true,
	})
	choices, tokens := make([]Choice, 256), make([]Token, 256)
	for i := range choices {
		choices[i].Tokens = tokens[i : i+1]
		tokens[i] = Token(i)
	}
	step := func() {
		if plan := c.Plan(); len(plan.Rows) > 0 {
			c.Commit(StepDecoded, choices[:len(plan.Samples)])
		}
	}
	prompt := func(first Token) []Token {
		p := make([]Token, 500)
		for i := range p {
			p[i] = first + Token(i)
		}
		return p
	}
	next := RequestID(0)
	submit := func(n, maxNew int) {
		next++
		c.Submit(ask(next, prompt(Token(next)), n, maxNew))
	}
	for range 64 {
		submit(1, 1)
	}
	for !c.Idle() {
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		if c.Idle() { // every maxNew steps
			submit(width, maxNew)
			step()
		}
		step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(width), "ns/row")
}

// BenchmarkAdmit is the admission of a prompt of 4,000 tokens of which all but
// the last 100 are cached, among 200 cached prompts.
func BenchmarkAdmit(b *testing.B) {
	c := New(Config{
		Cells: 1 << 20, Policy: Policy{MaxSequences: 256, BatchTokens: 8192, PrefillChunk: 512}, MaxOutputs: 256,
		PartialCopy: true,
	})
	prompt := make([]Token, 4000)
	next := RequestID(0)
	choices := []Choice{{Tokens: []Token{0}}}
	run := func() {
		next++
		for i := range 100 {
			prompt[3900+i] = Token(next) + Token(i)
		}
		c.Submit(ask(next, prompt, 1, 1))
		for !c.Idle() {
			if plan := c.Plan(); len(plan.Rows) > 0 {
				c.Commit(StepDecoded, choices[:len(plan.Samples)])
			}
		}
	}
	for range 200 {
		run()
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
